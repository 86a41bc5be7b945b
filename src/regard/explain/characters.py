"""Characters as they are shown: control characters made visible, and the width of a text in a terminal."""

import unicodedata

MISSING = "□"  # shown for a character that cannot be shown itself


def printable(text: str) -> str:
    """The text in one line, without control characters."""
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character == "\n":
        return "⏎"
    return MISSING if unicodedata.category(character) in ("Cc", "Cs") else character


def width(text: str) -> int:
    """The number of terminal columns of a text: two for a wide character, none for a combining one."""
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
