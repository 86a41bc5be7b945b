"""What goes to the terminal: text only, whatever a model, a file or an error contains."""

import re
import sys
from typing import Any, TextIO

# Escape sequences can change a terminal's title or clipboard; line breaks and tabs are harmless.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    r"""A text with control characters as \u001b and so on, which is also how JSON writes them."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Printable:
    """A stream that writes control characters in printable form."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Writes a text."""
        return self.stream.write(printable(text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def unprotected(stream: TextIO) -> TextIO:
    """The stream itself, for a writer that makes texts printable and has escape sequences of its own."""
    return stream.stream if isinstance(stream, Printable) else stream


def protect() -> None:
    """Makes errors printable, and the output where a terminal shows it; elsewhere the output is as it is."""
    sys.stderr = Printable(sys.stderr)
    if sys.stdout.isatty():
        sys.stdout = Printable(sys.stdout)
