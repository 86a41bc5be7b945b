"""Consoles of the library rich, whose own escape sequences reach the terminal, but none of a text."""

import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from regard.cli.terminal import printable, unprotected


class TextConsole(Console):
    """A console that shows control characters of texts in printable form."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """The segments of something to print; control segments are those of rich itself."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def make_console(*, stderr: bool = False, **options: Any) -> TextConsole:
    """A console on standard output or standard error."""
    return TextConsole(file=unprotected(sys.stderr if stderr else sys.stdout), **options)
