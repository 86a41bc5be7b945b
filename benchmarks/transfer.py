"""What pre-training is worth: a BERT fine-tuned on a few texts, compared with the same model from random weights.

    python benchmarks/transfer.py sst2 --model runs/bert --data glue --sizes 1000 10000
    python benchmarks/transfer.py tags --model runs/bert --data ud_ewt

Both have the same tokenizer, texts, steps and dropout. The learning rate and the epoch are selected on held-out
training texts; the reported score is the accuracy on the development set. Results are stored in one file per model and
task, and not measured again.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from harness import machine, measured
from regard import library, recipe
from regard.data import glue
from regard.data.text import lines
from regard.recipe import training as training_of
from regard.store.models import tensors
from regard.training.report import Report

RECIPES = {"sst2": "bert/classify", "tags": "bert/tag"}
HELD_OUT = 2000  # training texts for model selection
RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
STEPS = 2000  # maximum, in whole epochs, at most 10
SIZE = 32  # batch size
WEIGHTS = ("pre-trained", "random")


def texts(task: str, data: Path, split: str) -> list[str]:
    """The examples of a split, as lines of a table (SST-2) or as blocks of CoNLL-U lines (a treebank)."""
    if task == "sst2":
        question = glue.TASKS[task]
        return [f"{e.text}\t{e.label}\n" for e in glue.read(question, glue.find(data, question, split))]
    (path,) = data.glob(f"*-{split}.conllu*")
    return [f"{sentence}\n\n" for sentence in "\n".join(lines(path)).strip().split("\n\n")]


def write(path: Path, task: str, chosen: list[str]) -> None:
    """Write a file for training or evaluation."""
    path.write_text(("text\tlabel\n" if task == "sst2" else "") + "".join(chosen), "utf-8")


def randomized(model: str, seed: int, folder: Path) -> Path:
    """Save the same model and tokenizer with random weights, and return the folder."""
    contents = library.read(model)
    torch.manual_seed(seed)
    weights, path = tensors(contents.config.build()), folder / f"random-{seed}"
    library.save(path, contents.config, weights, contents.codecs, "Random weights.")
    return path


def fine_tune(task: str, model: str | Path, size: int, rate: float, seed: int, run: Path) -> float:
    """Fine-tune, and return the accuracy on the held-out texts after the best epoch."""
    steps = -(-size // SIZE)
    changes = [
        f'data.train="{run.parent / f"{size}.txt"}"', f'data.valid="{run.parent / "kept.txt"}"', f'run="{run}"',
        f'model.init="{model}"', "model.dropout=0.1", f"seed={seed}", f"train.epochs={max(1, min(10, STEPS // steps))}",
        f"train.batch_size={SIZE}", f"train.learning_rate={rate}", f"train.validate_every={steps}",
        "train.checkpoint_every=100000", "threads=1",
    ]  # fmt: skip
    training = training_of(recipe.read(RECIPES[task], changes), Report(Console(quiet=True)))
    training.train()
    return -training.state.best


def accuracy(run: Path) -> float:
    """Accuracy on the development set."""
    command = [sys.executable, "-m", "regard", "evaluate", str(run), "--data", str(run.parent / "dev.txt"), "--json"]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return float(found["accuracy"]) / 100


def main() -> None:
    """Fine-tune the missing cases and print a table of all results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=RECIPES, help="SST-2, or parts of speech")
    parser.add_argument("--model", required=True, help="pre-trained BERT")
    parser.add_argument("--data", type=Path, required=True, help="folder with GLUE, or with a treebank")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000], help="numbers of training texts")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    folder = Path("runs/transfer", options.model.replace("/", "-"), options.task)
    folder.mkdir(parents=True, exist_ok=True)
    train = texts(options.task, options.data, "train")
    random.Random(0).shuffle(train)
    write(folder / "dev.txt", options.task, texts(options.task, options.data, "dev"))
    write(folder / "kept.txt", options.task, train[:HELD_OUT])
    for size in options.sizes:
        write(folder / f"{size}.txt", options.task, train[HELD_OUT : HELD_OUT + size])
    everything = [
        {"size": size, "weights": weights, "rate": rate, "seed": seed}
        for size in options.sizes
        for seed in range(1, options.seeds + 1)
        for rate in RATES
        for weights in WEIGHTS
    ]

    def measure(size: int, weights: str, rate: float, seed: int) -> dict[str, float]:
        model = options.model if weights == "pre-trained" else randomized(options.model, seed, folder)
        run = folder / f"{weights}-{size}-{rate}-{seed}"
        return {"kept": fine_tune(options.task, model, size, rate, seed, run), "dev": accuracy(run)}

    done = measured(folder / "results.jsonl", everything, measure)
    print(f"{machine()}; accuracy on the development set in percent, median of {options.seeds} seeds (min to max)")
    print("| texts | " + " | ".join(WEIGHTS) + " |\n|---|---|---|")
    for size in options.sizes:
        print(f"| {size:,} | " + " | ".join(cell(done, size, weights) for weights in WEIGHTS) + " |")


def cell(done: list[dict[str, Any]], size: int, weights: str) -> str:
    """The scores with the best learning rate."""
    cases = [case for case in done if (case["size"], case["weights"]) == (size, weights)]
    by_rate = {rate: [case for case in cases if case["rate"] == rate] for rate in RATES}
    rate, best = max(by_rate.items(), key=lambda item: statistics.median(case["kept"] for case in item[1]))
    values = [100 * case["dev"] for case in best]
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f}; {rate})"


if __name__ == "__main__":
    main()
