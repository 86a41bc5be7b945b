"""Figures of attention, positions and learning curves as PNG, SVG or PDF (needs `pip install regard[plot]`)."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import matplotlib
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from regard.errors import RegardError
from regard.explain.positions import similarity

MAP = "cividis"  # readable with colour blindness and in greyscale
SIGNED = "PuOr"  # likewise, for positive and negative values
DARK, LIGHT, BRIGHT = "#00224e", "#7f9cc0", "#c8a400"
MAX_SIDE = 30  # approximate maximum side of a figure, in inches
MIN_WEIGHT = 0.02  # weights below this are not drawn as lines
FORMATS = (".pdf", ".png", ".svg")
# fallback fonts, used if installed, for scripts that matplotlib's own font lacks
FONTS = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei"),
    *("PingFang SC", "Hiragino Sans", "Microsoft YaHei", "SimHei", "Arial Unicode MS"),
    *("Noto Sans Arabic", "Noto Naskh Arabic", "Amiri", "Geeza Pro", "Segoe UI"),
    *("Noto Sans Devanagari", "Noto Sans Hebrew", "Noto Sans Thai"),
)


def expect_format(path: Path) -> None:
    """Raises `RegardError` unless the path has the suffix of a supported format."""
    if path.suffix.lower() not in FORMATS:
        raise RegardError(f"{path}: unknown format; use {', '.join(FORMATS)}")


def save(figure: Figure, path: Path) -> None:
    """Writes a figure in the format given by the suffix of the path."""
    expect_format(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, bbox_inches="tight")


def matrix(rows: Sequence[str], columns: Sequence[str], weights: Sequence[Sequence[float]]) -> Figure:
    """An alignment matrix as in Bahdanau et al.: one row per output word, one column per input word."""
    cell = min(0.5, MAX_SIDE / max(len(rows), len(columns), 1))
    figure = Figure(figsize=(1.2 + cell * len(columns), 0.8 + cell * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    if rows and columns:
        axes.imshow(weights, cmap=MAP, vmin=0, vmax=1, aspect="equal")
    axes.set_xticks(range(len(columns)), columns, rotation=45, ha="left", rotation_mode="anchor", family=fonts())
    axes.set_yticks(range(len(rows)), rows, family=fonts())
    axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    return figure


def lines(rows: Sequence[str], columns: Sequence[str], weights: Sequence[Sequence[float]]) -> Figure:
    """Lines from each query word, on the left, to the key words; width and opacity show the weight."""
    height = max(len(rows), len(columns))
    figure = Figure(figsize=(5, min(MAX_SIDE, 0.6 + 0.32 * height)), layout="constrained")
    axes = figure.add_subplot()
    for row, values in enumerate(weights):
        for column, weight in enumerate(values):
            if weight < MIN_WEIGHT:
                continue
            axes.plot([0, 1], [row, column], color=DARK, alpha=min(1.0, weight), linewidth=0.5 + 3 * weight)
    for x, names, side in ((-0.03, rows, "right"), (1.03, columns, "left")):
        for y, name in enumerate(names):
            axes.text(x, y, name, ha=side, va="center", family=fonts())
    axes.set_xlim(-0.6, 1.6)
    axes.set_ylim(height - 0.5, -0.5)
    axes.set_axis_off()
    return figure


def grid(maps: Mapping[str, Tensor]) -> Figure:
    """Small maps of all heads of all layers: one row per attention layer, one column per head."""
    heads = max(len(weights_HTS) for weights_HTS in maps.values())
    cell = min(1.3, MAX_SIDE / max(heads, len(maps)))
    figure = Figure(figsize=(2.2 + cell * heads, 0.4 + cell * len(maps)), layout="constrained")
    for row, (path, weights_HTS) in enumerate(maps.items()):
        for head, weights_TS in enumerate(weights_HTS):
            axes = figure.add_subplot(len(maps), heads, row * heads + head + 1)
            axes.imshow(weights_TS.tolist(), cmap=MAP, vmin=0, vmax=1, aspect="auto")
            axes.set_xticks([])
            axes.set_yticks([])
            if head == 0:
                axes.set_ylabel(path, rotation=0, ha="right", va="center", fontsize=8)
            if row == 0:
                axes.set_title(f"head {head}", fontsize=8)
    return figure


def positions(encoding_TE: Tensor) -> Figure:
    """The position vectors, one per row, and the cosine similarity of two positions by distance."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    largest = float(encoding_TE.abs().max())
    image = left.imshow(encoding_TE.tolist(), cmap=SIGNED, vmin=-largest, vmax=largest, aspect="auto")
    figure.colorbar(image, ax=left, shrink=0.8)
    left.set_xlabel("feature")
    left.set_ylabel("position")
    right.plot(similarity(encoding_TE).tolist(), color=DARK)
    right.set_xlabel("distance")
    right.set_ylabel("mean cosine of two positions")
    return figure


class Curve(Protocol):
    """What a learning curve shows: a loss, and optionally a score."""

    @property
    def loss(self) -> str:
        """The key of the loss in the log; the validation loss has the prefix `valid_`."""
        ...

    @property
    def score(self) -> str | None:
        """The key of the score in the log."""
        ...

    @property
    def label(self) -> str:
        """The display name of the score."""
        ...


def learning_curves(log: Path, curves: Sequence[Curve]) -> Figure:
    """Training loss, validation loss and scores by step."""
    entries = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    figure = Figure(figsize=(7, 4 * len(curves)), layout="constrained")
    for axes, curve in zip(figure.subplots(len(curves), squeeze=False).flat, curves, strict=True):
        _draw_curve(axes, entries, curve)
    return figure


def _draw_curve(axes: Axes, entries: Sequence[dict[str, float]], curve: Curve) -> None:
    drawn = [
        *axes.plot(*_series(entries, curve.loss), color=LIGHT, label="training loss"),
        *axes.plot(*_series(entries, f"valid_{curve.loss}"), color=DARK, marker=".", label="validation loss"),
    ]
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    if curve.score is not None and (values := _series(entries, curve.score))[1]:
        right = axes.twinx()
        drawn += right.plot(*values, color=BRIGHT, marker=".", linestyle="--", label=curve.label)
        right.set_ylabel(curve.label)
        right.set_ylim(bottom=min(0, *values[1]))
    axes.legend(handles=drawn, loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=3, frameon=False)


def bars(values: Mapping[str, float], title: str) -> Figure:
    """A bar chart whose axis starts near the lowest value, so that differences are visible."""
    figure = Figure(figsize=(7, 0.4 * len(values) + 1), layout="constrained")
    axes = figure.add_subplot()
    names = list(values)
    drawn = axes.barh(names, [values[name] for name in names], color=DARK)
    axes.bar_label(drawn, fmt="%.1f", padding=3)
    lowest, highest = min(values.values()), max(values.values())
    axes.set_xlim(max(0.0, lowest - (highest - lowest) - 1), highest + (highest - lowest) / 5 + 1)
    axes.invert_yaxis()
    axes.set_xlabel(title)
    return figure


def _series(entries: Sequence[dict[str, float]], name: str) -> tuple[list[float], list[float]]:
    chosen = [entry for entry in entries if name in entry]
    return [entry["step"] for entry in chosen], [entry[name] for entry in chosen]


@cache
def fonts() -> list[str]:
    """The fonts for words: matplotlib's own, then the installed fallbacks for other scripts."""
    installed = {font.name for font in font_manager.fontManager.ttflist}
    return [*matplotlib.rcParams["font.sans-serif"][:1], *(name for name in FONTS if name in installed)]
