"""Text: tokens are merged into words."""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.explain.trace import Stream

EXAMPLE = "We are eating bread."


@dataclass(frozen=True)
class TextLayout:
    """The words of a text."""

    words: tuple[int, ...]
    """The index of the word that each token belongs to; -1: none."""
    spelled: tuple[str, ...]
    """The words."""
    parts: tuple[int, ...] = ()
    """The index of the text that each word belongs to, for pairs of texts."""
    text: str = ""
    """The whole text, if it can be continued."""
    ends: tuple[int | None, ...] = ()
    """The character offset at which each token ends in `text`; None: inside a character."""


def text_stream(tokens: Sequence[int], pieces: Sequence[str], layout: TextLayout) -> Stream:
    """A stream of the tokens of a text."""
    return Stream(tuple(tokens), tuple(pieces), "text", layout)


def units(stream: Stream) -> tuple[int, ...]:
    """The index of the word that each token belongs to; -1: none."""
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
