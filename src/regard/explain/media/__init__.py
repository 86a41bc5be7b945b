"""Media: how the tokens of a stream are merged into units, such as words, and how the units are named.

A new medium needs a file here, a line in `MEDIA`, and a module of the explorer's page (`serve/page/media`).
"""

from collections.abc import Mapping
from typing import Protocol

from regard.explain.media import image, text
from regard.explain.trace import Stream


class Medium(Protocol):
    """What a medium must provide for a model to be inspected."""

    @property
    def EXAMPLE(self) -> str | None:
        """An example input; None: the user must give one."""
        ...

    def units(self, stream: Stream) -> tuple[int, ...]:
        """The index of the unit that each token belongs to; -1: none."""
        ...

    def labels(self, stream: Stream) -> tuple[str, ...]:
        """The name of each unit."""
        ...

    def line(self, stream: Stream) -> str:
        """The whole stream in one line."""
        ...


MEDIA: Mapping[str, Medium] = {
    "text": text,
    "image": image,
}


def of(stream: Stream) -> Medium:
    """The medium of a stream."""
    return MEDIA[stream.medium]
