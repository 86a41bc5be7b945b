"""Figures of attention, positions and learning curves as PNG, SVG or PDF (needs `pip install regard[plot]`)."""

import json
import logging
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from regard.errors import RegardError
from regard.explain.characters import MISSING, printable
from regard.explain.positions import similarity

MAP = "cividis"  # readable with colour blindness and in greyscale
SIGNED = "PuOr"  # likewise, for positive and negative values
DARK, LIGHT, BRIGHT = "#00224e", "#7f9cc0", "#c8a400"
STYLES = ("-", "--", ":", "-.")
MAX_SIDE = 30  # approximate maximum side of a figure, in inches
MIN_WEIGHT = 0.02  # weights below this are not drawn as lines
FORMATS = (".pdf", ".png", ".svg")
# for characters that matplotlib's own font lacks, these fonts are tried before others
PREFERRED = (
    *("Noto Sans CJK SC", "Noto Sans CJK JP", "Source Han Sans SC", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei"),
    *("PingFang SC", "Hiragino Sans", "Microsoft YaHei", "SimHei", "Arial Unicode MS"),
    *("Noto Sans Arabic", "Noto Naskh Arabic", "Amiri", "Geeza Pro", "Segoe UI"),
    *("Noto Sans Devanagari", "Noto Sans Hebrew", "Noto Sans Thai"),
)
MAX_REPORTED = 20  # maximum number of missing characters that a message lists

log = logging.getLogger("regard.explain")


def expect_format(path: Path, *others: str) -> None:
    """Raises `RegardError` unless the path has the suffix of a supported format, or one of the others."""
    if path.suffix.lower() not in (*FORMATS, *others):
        raise RegardError(f"{path}: unknown format; use {', '.join((*FORMATS, *others))}")


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
    names, style = lettered([*rows, *columns])
    top, left = names[len(rows) :], names[: len(rows)]
    axes.set_xticks(range(len(top)), top, rotation=45, ha="left", rotation_mode="anchor", **style)
    axes.set_yticks(range(len(left)), left, **style)
    axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    return figure


def overlay(pixels: npt.NDArray[np.uint8], weights: Tensor) -> Figure:
    """A picture, and the same with the attention to each of its patches over it; `weights` are rows × columns."""
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes in (left, right):
        axes.imshow(pixels, cmap="gray", vmin=0, vmax=255)
        axes.set_axis_off()
    height, width = pixels.shape[:2]
    extent = (-0.5, width - 0.5, height - 0.5, -0.5)
    shown = right.imshow(weights.tolist(), cmap=MAP, vmin=0, extent=extent, alpha=0.65, interpolation="nearest")
    figure.colorbar(shown, ax=right, shrink=0.8, label="attention")
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
    names, style = lettered([*rows, *columns])
    for x, side, labels in ((-0.03, "right", names[: len(rows)]), (1.03, "left", names[len(rows) :])):
        for y, name in enumerate(labels):
            axes.text(x, y, name, ha=side, va="center", **style)
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


def compared_curves(runs: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]], by: str) -> Figure:
    """The curves of several runs: one panel per metric, one line per run."""
    metrics = list(dict.fromkeys(metric for curves in runs.values() for metric in curves))
    columns = min(2, len(metrics))
    rows = -(-len(metrics) // columns)
    figure = Figure(figsize=(5.5 * columns, 3 * rows + 0.3 * len(runs)), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).flat)
    # the brightest colours of the map are hard to see on white
    colours = matplotlib.colormaps[MAP](np.linspace(0, 0.85, len(runs)))
    names, style = lettered(list(runs))
    handles = []
    for i, (curves, name) in enumerate(zip(runs.values(), names, strict=True)):
        look = {"color": colours[i], "linestyle": STYLES[i % len(STYLES)], "label": name}
        handles.append(Line2D([], [], **look))
        for axes, metric in zip(panels, metrics, strict=False):
            if metric in curves:
                axes.plot(*zip(*curves[metric], strict=True), marker="" if metric == "loss" else ".", **look)
    for axes, metric in zip(panels, metrics, strict=False):
        axes.set_title("training loss" if metric == "loss" else metric.replace("_", " "))
        axes.set_xlabel(by)
    for axes in panels[len(metrics) :]:
        axes.set_axis_off()
    legend = figure.legend(handles=handles, loc="outside upper left", frameon=False)
    for text in legend.get_texts():
        text.set(**style)
    return figure


class Estimate(Protocol):
    """A mean and its 95 % interval."""

    @property
    def mean(self) -> float:
        """The mean."""
        ...

    @property
    def low(self) -> float:
        """The lower end of the interval."""
        ...

    @property
    def high(self) -> float:
        """The upper end of the interval."""
        ...


def dots(values: Mapping[str, Estimate], title: str) -> Figure:
    """A dot plot of means with their 95 % intervals; unlike bars, dots need no axis from 0."""
    figure = Figure(figsize=(7, 0.4 * len(values) + 1), layout="constrained")
    axes = figure.add_subplot()
    names, style = lettered(list(values))
    for row, value in enumerate(values.values()):
        axes.plot([value.low, value.high], [row, row], color=LIGHT, linewidth=3)
        axes.plot(value.mean, row, "o", color=DARK)
        axes.annotate(f"{value.mean:.1f}", (value.mean, row), (0, 6), textcoords="offset points", ha="center")
    axes.set_yticks(range(len(names)), names, **style)
    axes.set_ylim(len(names) - 0.5, -0.8)
    axes.margins(x=0.1)
    axes.grid(axis="x", alpha=0.3)
    low, high = axes.get_xlim()
    axes.set_xlabel(f"{title} (95 % intervals; axis from {low:.1f} to {high:.1f})")
    return figure


def _series(entries: Sequence[dict[str, float]], name: str) -> tuple[list[float], list[float]]:
    chosen = [entry for entry in entries if name in entry]
    return [entry["step"] for entry in chosen], [entry[name] for entry in chosen]


def lettered(labels: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """The labels as they can be drawn, and their text properties. `$` is a dollar sign, not mathematics."""
    shown = [printable(label) for label in labels]
    names, missing = fonts("".join(shown))
    if missing:
        _report("".join(letter for letter in dict.fromkeys("".join(shown)) if letter in missing))
        shown = ["".join(MISSING if letter in missing else letter for letter in label) for label in shown]
    return shown, {"family": names, "parse_math": False}


def fonts(text: str) -> tuple[list[str], set[str]]:
    """Matplotlib's own font and others for the characters that it lacks; and the characters that no font has."""
    default = font_manager.findfont(matplotlib.rcParams["font.sans-serif"][0])
    names, missing = [matplotlib.rcParams["font.sans-serif"][0]], set(text) - _characters(default)
    for name, path in _installed() if missing else ():
        if found := missing & _characters(path):
            names.append(name)
            missing -= found
    return names, missing


@cache
def _installed() -> list[tuple[str, str]]:
    """The names and files of all fonts, preferred ones first, including those that matplotlib's cache does not know."""
    manager = font_manager.fontManager
    known = {font.fname for font in manager.ttflist}
    for path in set(font_manager.findSystemFonts()) - known:
        _add(path)
    order = {name: place for place, name in enumerate(PREFERRED)}
    fonts = sorted(manager.ttflist, key=lambda font: (order.get(font.name, len(order)), font.name, font.fname))
    # matplotlib's font of last resort has a sign for every character, which is none of any script
    return [(font.name, font.fname) for font in fonts if not font.name.startswith("Last Resort")]


def _add(path: str) -> None:
    try:
        font_manager.fontManager.addfont(path)
    except (OSError, RuntimeError):  # not a font that matplotlib can use
        return


@cache
def _characters(path: str) -> frozenset[str]:
    """The characters of a font file; none if matplotlib cannot draw it, as with bitmap fonts."""
    try:
        font = font_manager.get_font(path)
    except (OSError, RuntimeError):
        return frozenset()
    return frozenset(map(chr, font.get_charmap())) if font.scalable else frozenset()


@cache
def _report(missing: str) -> None:
    """Names missing characters once."""
    more = f" and {len(missing) - MAX_REPORTED} more" if len(missing) > MAX_REPORTED else ""
    log.warning(
        "no installed font has %s%s, shown as %s; install a font for this script, such as Noto Sans CJK for Chinese",
        missing[:MAX_REPORTED],
        more,
        MISSING,
    )
