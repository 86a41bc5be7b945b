"""Numbers of things in messages: 1 pair, 2 pairs."""


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with its noun, in the plural unless the number is 1."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
