"""Fine-tuning on GLUE: Regard compared with Hugging Face's model in a plain loop, same weights, several seeds.

    python benchmarks/finetune.py --model all-MiniLM-L6-v2 --data glue --tasks mrpc cola rte stsb --seeds 5

Both: batches of 32 texts of similar length, fused AdamW, a learning rate of 5e-5 with 50 steps of warm-up and linear
decay to zero, three epochs, the best validation score. Hugging Face's loop groups texts by length as its
Trainer can. Results are stored in a file and not measured again, so the work can be split (`--system`) and resumed:
`--results benchmarks/finetune.jsonl` has the results so far. Minutes are CPU time, summed over threads, so other
processes on the machine do not count.
"""

import argparse
import json
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch.nn import functional as F
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from harness import machine, measured
from regard import recipe
from regard.data import glue
from regard.data.tables import Example
from regard.evaluation.glue import scores
from regard.recipe import training as training_of
from regard.training.report import Report

EPOCHS, SIZE, RATE, WARMUP, MAX_LENGTH = 3, 32, 5e-5, 50, 128


def ours(model: str, data: Path, task: str, seed: int) -> dict[str, float]:
    """The best validation scores of a Regard run."""
    count = len(list(glue.read(glue.TASKS[task], glue.find(data, glue.TASKS[task], "train"))))
    run = Path(f"runs/finetune/{task}-{seed}")
    changes = [
        f"task={task}", f'data.folder="{data}"', f'model.init="hf:{model}"', f"seed={seed}", f'run="{run}"',
        f"train.epochs={EPOCHS}", f"train.batch_size={SIZE}", f"train.learning_rate={RATE}", f"train.warmup={WARMUP}",
        f"train.validate_every={-(-count // SIZE)}", "train.checkpoint_every=100000", "train.batch_tokens=100000",
        f"data.max_length={MAX_LENGTH}",
    ]  # fmt: skip
    training = training_of(recipe.read("bert/glue", changes), Report(Console(quiet=True)))
    training.train()
    logged = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
    best = min((line for line in logged if "valid_loss" in line), key=training.task.selection_loss)
    return {name: best[f"valid_{name}"] for name in glue.TASKS[task].metrics}


def theirs(model: str, data: Path, task: str, seed: int) -> dict[str, float]:
    """The best validation scores of Hugging Face's model."""
    question = glue.TASKS[task]
    train, dev = (list(glue.read(question, glue.find(data, question, split))) for split in ("train", "dev"))
    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModelForSequenceClassification.from_pretrained(model, num_labels=len(question.labels) or 1)

    def encode(examples: list[Example]) -> Any:
        second = None if examples[0].second is None else [str(e.second) for e in examples]
        return tokenizer(
            [e.text for e in examples],
            second,
            truncation=True,
            max_length=MAX_LENGTH,
            padding=True,
            return_tensors="pt",
        )

    def answers(examples: list[Example]) -> torch.Tensor:
        return torch.tensor(
            [question.labels.index(str(e.label)) if question.labels else float(str(e.label)) for e in examples]
        )

    def batches(order: list[int]) -> Iterator[list[Example]]:
        for begin in range(0, len(order), 50 * SIZE):
            alike = sorted(order[begin : begin + 50 * SIZE], key=lambda i: -lengths[i])
            yield from ([train[i] for i in alike[first : first + SIZE]] for first in range(0, len(alike), SIZE))

    lengths = encode(train)["attention_mask"].sum(1).tolist()
    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.01, fused=True)
    steps = EPOCHS * -(-len(train) // SIZE)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1.0, (step + 1) / (WARMUP + 1)) * (1 - step / steps)
    )
    best: dict[str, float] = {}
    for _ in range(EPOCHS):
        network.train()
        for batch in batches(torch.randperm(len(train)).tolist()):
            logits = network(**encode(batch)).logits
            gold = answers(batch)
            loss = F.cross_entropy(logits, gold) if question.labels else F.mse_loss(logits[:, 0], gold)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        network.eval()
        predictions: list[Any] = []
        with torch.no_grad():
            for begin in range(0, len(dev), 64):
                logits = network(**encode(dev[begin : begin + 64])).logits
                predictions += (
                    [question.labels[i] for i in logits.argmax(1)] if question.labels else logits[:, 0].tolist()
                )
        found = scores(question, predictions, [str(e.label) for e in dev])
        first = question.metrics[0]
        best = max(best or found, found, key=lambda values: values[first])
    return best


SYSTEMS = {"Regard": ours, "Hugging Face": theirs}


def main() -> None:
    """Fine-tune the missing cases and print a table of all results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="Hugging Face folder with BERT weights")
    parser.add_argument("--data", type=Path, required=True, help="folder with GLUE")
    parser.add_argument("--tasks", nargs="+", default=["mrpc", "cola", "rte", "stsb"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--system", choices=SYSTEMS, action="append", help="run only this one; default: both")
    parser.add_argument("--results", type=Path, default=Path("runs/finetune/results.jsonl"))
    options = parser.parse_args()
    everything = [
        {"system": system, "task": task, "seed": seed}
        for seed in range(1, options.seeds + 1)
        for task in options.tasks
        for system in options.system or SYSTEMS
    ]

    def measure(system: str, task: str, seed: int) -> dict[str, float]:
        start = time.process_time()
        found = SYSTEMS[system](options.model, options.data, task, seed)
        return {**found, "minutes": (time.process_time() - start) / 60}

    done = measured(options.results, everything, measure)
    print(f"{machine()}; median (minimum to maximum) over seeds, in percent")
    print("| | metric | Regard | Hugging Face | minutes, Regard | minutes, Hugging Face |\n|---|---|---|---|---|---|")
    for task in options.tasks:
        by_system = {
            name: [line for line in done if (line["task"], line["system"]) == (task, name)] for name in SYSTEMS
        }
        if not all(by_system.values()):
            continue
        minutes = " | ".join(
            f"{statistics.median(line['minutes'] for line in each):.1f}" for each in by_system.values()
        )
        for metric in glue.TASKS[task].metrics:
            values = [[100 * line[metric] for line in each] for each in by_system.values()]
            cells = " | ".join(f"{statistics.median(each):.1f} ({min(each):.1f} to {max(each):.1f})" for each in values)
            print(f"| {task}, {'/'.join(str(len(each)) for each in values)} seeds | {metric} | {cells} | {minutes} |")


if __name__ == "__main__":
    main()
