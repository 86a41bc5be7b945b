"""Media: what the units of a stream are, into which its tokens are merged, and how they are named; one file a medium.

A new medium has a file here, a line in `MEDIA`, and a module of the explorer's page (`serve/page/media`).
"""

from collections.abc import Mapping
from typing import Protocol

from regard.explain.media import text
from regard.explain.trace import Stream


class Medium(Protocol):
    """What looking into a model asks of a medium."""

    EXAMPLE: str
    """An input to begin with."""

    def units(self, stream: Stream) -> tuple[int, ...]:
        """The number of the unit that each token belongs to; -1: to none."""
        ...

    def labels(self, stream: Stream) -> tuple[str, ...]:
        """The name of each unit."""
        ...

    def line(self, stream: Stream) -> str:
        """All of the stream in one line."""
        ...


MEDIA: Mapping[str, Medium] = {
    "text": text,
}


def of(stream: Stream) -> Medium:
    """The medium of a stream."""
    return MEDIA[stream.medium]
