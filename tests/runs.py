"""Small runs that translate dates."""

from pathlib import Path

from rich.console import Console

from regard.recipe import Recipe, read
from regard.recipe import training as training_of
from regard.training.loop import Training
from regard.training.report import Report

SMALL = [
    "data.pairs=300", "tokenizer.vocab_size=300", "model.width=16", "model.ff_width=16", "model.dropout=0.2",
    "train.epochs=2", "train.batch_tokens=300", "train.validate_every=10", "train.checkpoint_every=7", "train.warmup=5",
    "train.label_smoothing=0.1", "train.accumulate=2", "threads=1",
]  # fmt: skip


def recipe(run: Path, *changes: str) -> Recipe:
    begins = any(change.startswith("model.init=") for change in changes)  # the tokenizer is that of the initial model
    small = [change for change in SMALL if not (begins and change.startswith("tokenizer"))]
    return read("translate/dates", [*small, f"run={run}", *changes])


def start(run: Path, *changes: str) -> Training:
    return training_of(recipe(run, *changes), Report(Console(quiet=True)))


def finish(run: Path, *changes: str) -> Training:
    training = start(run, *changes)
    training.train()
    return training


def weights(run: Path, name: str = "last") -> bytes:
    return (run / name / "model.safetensors").read_bytes()


def custom_recipe(folder: Path, pairs: int, *changes: str) -> Recipe:
    rows = [f"the {i} is {i}\tel {i} es {i}" for i in range(pairs)]
    (folder / "mine.tsv").write_text("".join(f"{row}\n" for row in rows))
    small = [change for change in SMALL if not change.startswith("data")]
    return read(
        "translate/transformer", [*small, f"data.train={folder / 'mine.tsv'}", f"run={folder / 'run'}", *changes]
    )
