"""Pictures: alignments and learning curves, as PNG, SVG or PDF. Needs matplotlib (`pip install regard[plot]`)."""

import json
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from regard.explain.alignment import Alignment

MAP = "cividis"  # reads the same with and without colour vision, and in grey
FORMATS = (".pdf", ".png", ".svg")


def save(figure: Figure, path: Path) -> None:
    """Writes a figure; the end of the path says in which format."""
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"{path}: no such format for a picture; let it end in {', '.join(FORMATS)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, bbox_inches="tight")


def alignment(found: Alignment) -> Figure:
    """The matrix of Bahdanau's paper: a row for each word written, a column for each word read."""
    rows, columns = len(found.target), len(found.source)
    figure = Figure(figsize=(1.2 + 0.5 * columns, 0.8 + 0.5 * rows), layout="constrained")
    axes = figure.add_subplot()
    if rows and columns:
        axes.imshow(found.weights, cmap=MAP, vmin=0, vmax=1, aspect="equal")
    axes.set_xticks(range(columns), found.source, rotation=45, ha="left", rotation_mode="anchor")
    axes.set_yticks(range(rows), found.target)
    axes.tick_params(length=0, top=False, bottom=False, labeltop=True, labelbottom=False)
    axes.spines[:].set_visible(False)
    return figure


def learning_curves(log: Path) -> Figure:
    """Loss, in training and in validation, and BLEU, by step."""
    entries = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    lines = [
        *axes.plot(*_series(entries, "loss"), color="#7f9cc0", label="loss in training"),
        *axes.plot(*_series(entries, "valid_loss"), color="#00224e", marker=".", label="loss in validation"),
    ]
    axes.set_xlabel("step")
    axes.set_ylabel("loss a token")
    right = axes.twinx()
    lines += right.plot(*_series(entries, "bleu"), color="#c8a400", marker=".", linestyle="--", label="BLEU (greedy)")
    right.set_ylabel("BLEU")
    right.set_ylim(bottom=0)
    axes.legend(handles=lines, loc="upper center", bbox_to_anchor=(0.5, 1.12), ncols=3, frameon=False)
    return figure


def _series(entries: Sequence[dict[str, float]], name: str) -> tuple[list[float], list[float]]:
    chosen = [entry for entry in entries if name in entry]
    return [entry["step"] for entry in chosen], [entry[name] for entry in chosen]
