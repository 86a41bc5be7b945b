"""What pre-training is worth: a BERT fine-tuned on a little of SST-2, beside the same model from random weights.

    python benchmarks/transfer.py --model runs/bert --data glue --sizes 1000 3000 10000 --seeds 3

Both have the same tokenizer, texts, steps and dropout. Which learning rate is best, and after which epoch, is decided
for each of them on texts of the training set that neither learns from; what is told is measured on the development set.
Results go into a file, and what is there is not done again.
"""

import argparse
import csv
import random
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from harness import machine, measured
from regard import library, recipe
from regard.data import glue
from regard.data.tables import Example
from regard.tasks.classification import Classifier
from regard.training.loop import Training
from regard.training.report import Report

TASK = glue.TASKS["sst2"]
KEPT = 2000  # texts to decide with
RATES = (1e-4, 3e-4, 1e-3, 3e-3)
STEPS = 2000  # at most, and no more than 10 epochs
SIZE = 32  # texts of a step
WEIGHTS = ("pre-trained", "random")


def tables(data: Path, sizes: Iterable[int], folder: Path) -> None:
    """Writes the texts to decide with and others to learn from; of these, fewer are a part of more."""
    examples = list(glue.read(TASK, glue.find(data, TASK, "train")))
    random.Random(0).shuffle(examples)
    write(folder / "kept.tsv", examples[:KEPT])
    for size in sizes:
        write(folder / f"{size}.tsv", examples[KEPT : KEPT + size])


def write(path: Path, examples: list[Example]) -> None:
    """A table of texts and labels."""
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, delimiter="\t")
        rows.writerows([("text", "label"), *((example.text, example.label) for example in examples)])


def fresh(model: str, seed: int, folder: Path) -> str:
    """A folder with the same model and tokenizer, but random weights."""
    contents = library.read(model)
    torch.manual_seed(seed)
    path = folder / f"random-{seed}"
    library.save(
        path, contents.config, library.tensors(contents.config.build()), contents.tokenizers, "Random weights."
    )
    return str(path)


def tuned(model: str, size: int, rate: float, seed: int, run: Path) -> float:
    """Fine-tunes; gives how much is right of the texts to decide with, after the best epoch."""
    steps = -(-size // SIZE)
    changes = [
        f'data.train="{run.parent / f"{size}.tsv"}"', f'data.valid="{run.parent / "kept.tsv"}"', f'run="{run}"',
        f'model.init="{model}"', "model.dropout=0.1", f"seed={seed}", f"train.epochs={min(10, STEPS // steps)}",
        f"train.batch_size={SIZE}", f"train.learning_rate={rate}", f"train.validate={steps}",
        "train.checkpoint=100000", "threads=1",
    ]  # fmt: skip
    training = Training(recipe.read("bert/classify", changes), Report(Console(quiet=True)))
    training.train()
    return -training.state.best


def right(run: Path, data: Path) -> float:
    """How much of the development set is right."""
    examples = list(glue.read(TASK, glue.find(data, TASK, "dev")))
    verdicts = library.load_as(Classifier, str(run), "classify").classify([example.text for example in examples])
    return statistics.fmean(verdict.said == example.label for verdict, example in zip(verdicts, examples, strict=True))


def main() -> None:
    """Fine-tunes what is not done yet, prints a table of all that is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a pre-trained BERT")
    parser.add_argument("--data", type=Path, required=True, help="the folder of GLUE")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 3000, 10000], help="texts to learn from")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("runs/transfer"), help="where runs and results go")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    tables(options.data, options.sizes, options.folder)
    everything = [
        {"size": size, "weights": weights, "rate": rate, "seed": seed}
        for size in options.sizes
        for seed in range(1, options.seeds + 1)
        for rate in RATES
        for weights in WEIGHTS
    ]

    def measure(size: int, weights: str, rate: float, seed: int) -> dict[str, float]:
        model = options.model if weights == "pre-trained" else fresh(options.model, seed, options.folder)
        run = options.folder / f"{weights}-{size}-{rate}-{seed}"
        return {"kept": tuned(model, size, rate, seed, run), "dev": right(run, options.data)}

    done = measured(options.folder / "results.jsonl", everything, measure)
    print(f"{machine()}; right on the development set, in percent, median of {options.seeds} seeds (least to most)")
    print("| texts | " + " | ".join(WEIGHTS) + " |\n|---|---|---|")
    for size in options.sizes:
        print(f"| {size:,} | " + " | ".join(cell(done, size, weights) for weights in WEIGHTS) + " |")


def cell(done: list[dict[str, Any]], size: int, weights: str) -> str:
    """What the best learning rate gives."""
    lines = [line for line in done if (line["size"], line["weights"]) == (size, weights)]
    by_rate = {rate: [line for line in lines if line["rate"] == rate] for rate in RATES}
    rate, best = max(by_rate.items(), key=lambda item: statistics.median(line["kept"] for line in item[1]))
    values = [100 * line["dev"] for line in best]
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f}; {rate})"


if __name__ == "__main__":
    main()
