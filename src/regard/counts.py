"""Numbers of things in messages: 1 pair, 2 pairs."""


def counted(number: int, noun: str) -> str:
    """A number with its noun, whose plural ends in s."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
