"""A small run of any system, derived from the registry without a list of systems."""

import base64
import dataclasses
import io
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from rich.console import Console

from regard import recipe, systems
from regard.config import Config, parse
from regard.systems import System
from regard.training.loop import Training
from regard.training.report import Report
from regard.training.task import Task

WORDS = [
    *("the", "a", "small", "old", "dog", "child", "house", "garden", "eats", "sees", "finds", "runs", "under", "with"),
    *("she", "he", "never", "today"),
]


def picture(seed: int) -> str:
    """A small picture, as a data URL."""
    pixels = np.random.default_rng(seed).integers(0, 256, (9, 14, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


INPUTS = {"text": ("the small dog sees a garden", "she runs"), "image": (picture(1), picture(2))}
"""Two inputs, by medium."""
SIZES = {
    "width": 16, "heads": 2, "ff_width": 24, "layers": 2, "encoder_layers": 2, "decoder_layers": 2, "context": 64,
    "word_width": 8, "feature_width": 4, "dropout": 0.1, "patch": 4,
}  # fmt: skip
"""By the names that all models share."""
CODECS = {"vocab_size": 300, "size": (12, 8)}
TRAIN = {"batch_tokens": 160, "warmup": 2, "validate_every": 2, "checkpoint_every": 2, "learning_rate": 1e-3}


def cases() -> Iterator[tuple[System, type[Task], type[Config]]]:
    """Every task of every system, and every kind of data at least once."""
    seen: set[type[Config]] = set()
    for system in systems.SYSTEMS:
        for task in system.tasks:
            for number, data in enumerate(task.data):
                if not number or data not in seen:
                    yield system, task, data
                seen.add(data)


CASES = list(cases())
NAMES = [f"{system.name}, {task.name}, {data.kind}" for system, task, data in CASES]  # type: ignore[attr-defined]


def write(path: Path, lines: list[str]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def sentences(count: int, seed: int = 1) -> list[list[str]]:
    rng = random.Random(seed)
    return [[rng.choice(WORDS) for _ in range(rng.randint(3, 8))] for _ in range(count)]


def parallel(folder: Path) -> dict[str, Any]:
    rows = [f"{' '.join(words)}\t{' '.join(word[::-1] for word in words)}" for words in sentences(60)]
    return {"train": write(folder / "pairs.tsv", rows)}


def dates(_folder: Path) -> dict[str, Any]:
    return {"pairs": 60}


def documents(folder: Path) -> dict[str, Any]:
    files = [
        write(folder / f"{i}.txt", [f"{' '.join(words).capitalize()}." for words in sentences(60, i)]) for i in range(3)
    ]
    return {"text": files, "max_length": 32}


def table(folder: Path) -> dict[str, Any]:
    rows = [f"{' '.join(words)}\t{'animal' if 'dog' in words else 'thing'}" for words in sentences(60)]
    parts = {"train": rows[:40], "valid": rows[40:]}
    return {name: write(folder / f"{name}.tsv", ["text\tlabel", *some]) for name, some in parts.items()}


def glue(folder: Path) -> dict[str, Any]:
    rows = [f"{' '.join(words)}\t{int('dog' in words)}" for words in sentences(60)]
    for name, some in (("train", rows[:40]), ("dev", rows[40:])):
        write(folder / "SST-2" / f"{name}.tsv", ["sentence\tlabel", *some])
    return {"task": "sst2", "folder": str(folder)}


def conllu(folder: Path) -> dict[str, Any]:
    found = {}
    for seed, name in enumerate(("train", "valid")):
        lines: list[str] = []
        for words in sentences(30, seed):
            lines += ["\t".join([str(i), word, "_", f"T{len(word)}", *["_"] * 6]) for i, word in enumerate(words, 1)]
            lines.append("")
        found[name] = write(folder / f"{name}.conllu", lines)
    return found


def iob(folder: Path) -> dict[str, Any]:
    found = {}
    for seed, name in enumerate(("train", "valid")):
        rows = [[f"{word} {'B-LIFE' if word in ('dog', 'child') else 'O'}" for word in s] for s in sentences(30, seed)]
        found[name] = write(folder / f"{name}.iob", [line for sentence in rows for line in [*sentence, ""]])
    return found


def text(folder: Path) -> dict[str, Any]:
    lines = [f"{' '.join(words).capitalize()}." for words in sentences(200)]
    return {"text": write(folder / "text.txt", lines), "max_length": 16}


def images(folder: Path) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    for number in range(24):
        pixels = rng.integers(0, 256, (18, 14, 3), dtype=np.uint8)
        # the classes differ in brightness
        path = folder / "images" / ("dark" if number % 2 else "light") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels // 4 if number % 2 else 255 - pixels // 4).save(path)
    return {"train": str(folder / "images"), "augment": {"crop": 2, "flip": True, "operations": 1, "mixup": 0.2}}


DATA: dict[str, Callable[[Path], dict[str, Any]]] = {
    f.__name__: f for f in (parallel, dates, documents, table, glue, conllu, iob, text, images)
}
"""By the kind of data. A new kind needs a function here."""


def fields(config: type[Any]) -> set[str]:
    return {field.name for field in dataclasses.fields(config)}


def small_model(config: type[Config], **changes: Any) -> dict[str, Any]:
    """The config of a small model: its kind, and the sizes whose names it has."""
    chosen = {name: value for name, value in SIZES.items() if name in fields(config)}
    return {"kind": config.kind, **chosen, **changes}  # type: ignore[attr-defined]


def small_recipe(system: System, task: type[Task], data: type[Config], folder: Path, /, **changes: Any) -> Any:
    model = {**small_model(system.model), **task.unknown, **changes.pop("model", {})}
    tables: dict[str, Any] = {}
    for configs in system.codecs.values():
        codec = configs[-1]
        kind = recipe._kinds(codec)[0]
        own = {name: value for name, value in CODECS.items() if name in fields(codec)}
        tables[codec.codec.slot] = {"kind": kind, **own}
        model |= parse(codec, tables[codec.codec.slot]).expected()
    train = {**TRAIN, "steps": 4, **changes.pop("train", {})}
    kind = data.kind  # type: ignore[attr-defined]
    assert kind in DATA, f"give tests/small.py small data of kind {kind!r}"
    given = {"kind": kind, **DATA[kind](folder / "data"), **changes.pop("data", {})}
    whole = {"data": given, "model": model, "train": train, "threads": 1}
    return parse(recipe.Recipe, {**whole, **tables, "run": str(folder / "run"), **changes}, "small")


def start(made: Any) -> Training:
    return recipe.training(made, Report(Console(quiet=True)))
