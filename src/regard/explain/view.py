"""Views of attention weights: printed, shown in a notebook, or saved as a figure."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, get_args

from torch import Tensor

from regard.decoding.finite import finite
from regard.errors import RegardError
from regard.explain import media
from regard.explain.characters import printable, width
from regard.explain.importance import rollout
from regard.explain.media import image
from regard.explain.media.image import ImageLayout
from regard.explain.positions import encodings
from regard.explain.trace import Inputs, Look, Stream, Trace, mean, merged

Kind = Literal["matrix", "lines", "grid", "positions"]
SHADES = " ░▒▓█"
POSITIONS = 64  # number of positions in a figure


@dataclass(frozen=True, repr=False)
class AttentionView:
    """A view of a model's attention weights.

    Args:
        kind: a "matrix" as in Bahdanau et al., "lines" between the words, a "grid" of all layers and heads, or the
            model's positional encodings ("positions").
        layer: the path of an attention layer; default: the mean over all cross-attention layers, or over all layers if
            there is no cross-attention.
        head: the index of a head, from 0; default: the mean over all heads.
        words: whether tokens are merged into the units of their medium (in a text, words).
    """

    trace: Trace
    kind: Kind = "matrix"
    layer: str | None = None
    head: int | None = None
    words: bool = True

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise RegardError(f"unknown view {self.kind!r}; choose from {', '.join(get_args(Kind))}")
        if not self.trace.looks:
            raise RegardError("this model has no attention layers")
        for look in self._looks:
            if self.head is not None and not 0 <= self.head < look.heads:
                raise RegardError(f"{look.path} has heads 0 to {look.heads - 1}, not {self.head}")

    @property
    def _looks(self) -> list[Look]:
        if self.layer is not None:
            return [self.trace.look(self.layer)]
        return [look for look in self.trace.looks if look.asks != look.answers] or list(self.trace.looks)

    @property
    def _asks(self) -> Stream:
        """The stream of the rows: for cross-attention the target tokens, else the query stream."""
        return self.trace.streams[self.asks] if self.asks == self.answers else self.trace.target

    @property
    def _answers(self) -> Stream:
        return self.trace.streams[self.answers]

    @property
    def asks(self) -> str:
        """The stream of the queries."""
        return self._looks[0].asks

    @property
    def answers(self) -> str:
        """The stream of the keys."""
        return self._looks[0].answers

    @property
    def rows(self) -> tuple[str, ...]:
        """The labels of the queries."""
        return self._labels(self._asks)

    @property
    def columns(self) -> tuple[str, ...]:
        """The labels of the keys."""
        return self._labels(self._answers)

    def _labels(self, stream: Stream) -> tuple[str, ...]:
        return media.of(stream).labels(stream) if self.words else stream.pieces

    @property
    def weights(self) -> Tensor:
        """The attention weights: one row per query, one column per key."""
        paths, heads = [look.path for look in self._looks], None if self.head is None else [self.head]
        maps = self.trace.weights(paths, heads)
        if not maps:
            raise RegardError(f"{self.layer!r} did not run; this model may stop at an earlier layer")
        mean_TS = mean(maps.values())
        if not self.words:
            return mean_TS
        rows, columns = (media.of(stream).units(stream) for stream in (self._asks, self._answers))
        return merged(mean_TS, rows, columns)

    @property
    def patches(self) -> Tensor | None:
        """For a picture: the attention to each patch, rows × columns; by default, attention rollout over all layers.

        The query is what represents the image: its class token, its pooled vector, or else the mean of all patches.
        """
        stream = self._answers
        if not isinstance(stream.layout, ImageLayout) or self.kind != "matrix":
            return None
        if self.layer is None and self.head is None:
            flows = rollout(self.trace)
            weights_TS = flows.get((self.trace.output_stream, self.answers), flows.get((self.answers, self.answers)))
            assert weights_TS is not None
        else:
            weights_TS = self.weights
        extra = stream.layout.extra
        of_image_S = weights_TS[0] if extra or len(weights_TS) == 1 else weights_TS.mean(0)
        return of_image_S[extra:].view(stream.layout.rows, stream.layout.columns)

    def __repr__(self) -> str:
        if (patches := self.patches) is not None:
            return shaded((finite(patches) / patches.max()).tolist())
        return drawn(self.rows, self.columns, finite(self.weights).tolist())

    def figure(self) -> Any:
        """The view as a matplotlib figure, which can be changed further."""
        figures = figure_module()
        if self.kind == "positions":
            return figures.positions(encodings(self.trace.model, POSITIONS))
        if self.kind == "grid":
            maps = self.trace.weights(self.layer or "*")
            return figures.grid({path: finite(weights_HTS) for path, weights_HTS in maps.items()})
        if (patches := self.patches) is not None:
            return figures.overlay(image.pixels(self._answers), finite(patches))
        draw = figures.lines if self.kind == "lines" else figures.matrix
        return draw(self.rows, self.columns, finite(self.weights).tolist())

    def save(self, path: Path | str) -> None:
        """Writes the figure in the format given by the suffix of the path."""
        figure_module().save(self.figure(), Path(path))

    def _repr_png_(self) -> bytes | None:
        """The figure for a notebook; without matplotlib, the notebook shows text."""
        if find_spec("matplotlib") is None:
            return None
        buffer = io.BytesIO()
        self.figure().savefig(buffer, format="png", dpi=110, bbox_inches="tight")
        return buffer.getvalue()


def figure_module() -> Any:
    """The module that draws figures; raises `RegardError` without matplotlib."""
    try:
        from regard.explain import figures
    except ImportError:
        raise RegardError("figures need matplotlib; install it with: pip install 'regard[plot]'") from None
    return figures


def drawn(rows: Sequence[str], columns: Sequence[str], weights: Sequence[Sequence[float]]) -> str:
    """A matrix as text: one row per query word, one column per key word."""
    rows, columns = [printable(name) for name in rows], [printable(name) for name in columns]
    margin = max(map(width, rows), default=0)
    lines = [" " * (margin + 2) + "  ".join(columns)]
    for name, row in zip(rows, weights, strict=True):
        cells = [
            SHADES[min(len(SHADES) - 1, round(weight * len(SHADES)))] * width(column)
            for column, weight in zip(columns, row, strict=True)
        ]
        lines.append(" " * (margin - width(name)) + f"{name}  " + "  ".join(cells))
    return "\n".join(line.rstrip() for line in lines)


def shaded(weights: Sequence[Sequence[float]]) -> str:
    """A grid of numbers from 0 to 1 as text: darker means more."""
    last = len(SHADES) - 1
    return "\n".join("".join(SHADES[min(last, round(x * len(SHADES)))] * 2 for x in row).rstrip() for row in weights)


class Viewable:
    """A model with its tokenizers that can be inspected, because it has a `trace` of its inputs."""

    def trace(self, inputs: Inputs, target: str | Sequence[int] | None = None) -> Trace:
        """A trace of the model on its inputs and an output (default: the model's own)."""
        raise NotImplementedError

    def look(
        self,
        inputs: Inputs,
        target: str | None = None,
        *,
        kind: Kind = "matrix",
        layer: str | None = None,
        head: int | None = None,
        words: bool = True,
    ) -> AttentionView:
        """The attention weights, to print, show in a notebook or save; for the arguments see `AttentionView`."""
        return AttentionView(self.trace(inputs, target), kind, layer, head, words)
