"""Text: tokens are merged into words."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.explain.trace import Stream

EXAMPLE = "We are eating bread."


@dataclass(frozen=True)
class TextLayout:
    """The words of a text."""

    words: tuple[int, ...]
    """The number of the word that each token belongs to; -1: to none."""
    spelled: tuple[str, ...]
    """The words."""
    parts: tuple[int, ...] = ()
    """The number of the text that each word belongs to, where there are two."""
    text: str = ""
    """All of it, if it can be gone on with."""
    ends: tuple[int | None, ...] = ()
    """Where each token ends in that text; None: in the midst of a character."""


def text_stream(tokens: Sequence[int], pieces: Sequence[str], layout: TextLayout) -> Stream:
    """Tokens of a text."""
    return Stream(tuple(tokens), tuple(pieces), "text", layout)


def units(stream: Stream) -> tuple[int, ...]:
    """The number of the word that each token belongs to; -1: to none."""
    return _layout(stream).words


def labels(stream: Stream) -> tuple[str, ...]:
    """The words."""
    return _layout(stream).spelled


def line(stream: Stream) -> str:
    """The text, or its words."""
    layout = _layout(stream)
    return layout.text or " ".join(layout.spelled)


def _layout(stream: Stream) -> TextLayout:
    assert isinstance(stream.layout, TextLayout)
    return stream.layout
