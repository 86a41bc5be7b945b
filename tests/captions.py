"""A model with two inputs, one of them in a medium that Regard and its page do not know."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import torch

from regard.explain.media.text import TextLayout, text_stream
from regard.explain.trace import PartialOutput, Stream, Trace
from traces import read

IMAGE, TEXT = "3456", "78"


@dataclass(frozen=True)
class Grid:
    rows: int
    columns: int


def _units(stream: Stream) -> tuple[int, ...]:
    return tuple(i // stream.layout.columns for i in range(len(stream.tokens)))


PICTURE = SimpleNamespace(
    EXAMPLE=IMAGE,
    units=_units,
    labels=lambda stream: tuple(f"row {i}" for i in range(stream.layout.rows)),
    line=lambda stream: f"{stream.layout.rows} × {stream.layout.columns}",
)
"""Patches are merged into rows of patches."""


class Captioner:
    """Reads an image of two columns, given as one digit per patch, and a caption."""

    accepts: ClassVar = {"image": "picture", "text": "text"}

    def __init__(self) -> None:
        self.model = read("transformer").model

    def count(self, inputs: Mapping[str, Any]) -> int:
        return len(inputs["image"]) + len(inputs["text"])

    def trace(self, inputs: Mapping[str, Any], target: str | Sequence[int] | None = None) -> Trace:
        patches = tuple(int(digit) for digit in inputs["image"])
        letters = tuple(int(digit) for digit in inputs["text"]) if target is None else tuple(map(int, target))
        streams = {"source": image(patches), "target": caption((1, *letters))}
        called = tuple(torch.tensor([stream.tokens]) for stream in streams.values())
        return Trace(self.model, called, streams, "target", caption((*letters, 2)), letters, pieces)

    def alternatives(self, _inputs: Mapping[str, Any], _count: int) -> list:
        return []

    def generate(self, inputs: Mapping[str, Any]) -> Iterator[PartialOutput]:
        yield PartialOutput(inputs["text"], image([int(digit) for digit in inputs["image"]]))


def image(patches: Sequence[int]) -> Stream:
    return Stream(tuple(patches), tuple(f" {patch}" for patch in patches), "picture", Grid(len(patches) // 2, 2))


def caption(tokens: Sequence[int]) -> Stream:
    return text_stream(tokens, pieces(tokens), TextLayout(tuple(range(len(tokens))), tuple(pieces(tokens))))


def pieces(tokens: Sequence[int]) -> list[str]:
    return [str(token) for token in tokens]
