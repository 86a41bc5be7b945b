"""Fine-tuning on GLUE: Regard beside Hugging Face's model in a plain loop, same weights, same settings, several seeds.

    python benchmarks/finetune.py --model all-MiniLM-L6-v2 --data glue --tasks mrpc cola rte stsb --seeds 5

Both: batches of 32 texts, AdamW, 5e-5 that rises for 50 steps and falls linearly to zero, three epochs, the best of a
validation after each epoch. Theirs pads each batch to its longest text; ours also puts texts of like length together.
Results go into runs/finetune/results.jsonl, and what is there is not done again. Minutes are those of processors,
summed over threads, so that other work on the machine does not count.
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

from harness import machine
from regard import recipe
from regard.data import glue
from regard.data.tables import Example
from regard.evaluation.glue import scores
from regard.training.loop import Training
from regard.training.report import Report

RESULTS = Path("runs/finetune/results.jsonl")
EPOCHS, SIZE, RATE, WARMUP, LONGEST = 3, 32, 5e-5, 50, 128


def ours(model: str, data: Path, task: str, seed: int) -> dict[str, float]:
    """The best validation of a run of ours."""
    count = len(list(glue.read(glue.TASKS[task], glue.find(data, glue.TASKS[task], "train"))))
    run = Path(f"runs/finetune/{task}-{seed}")
    changes = [
        f"task={task}", f'data.folder="{data}"', f'model.init="hf:{model}"', f"seed={seed}", f'run="{run}"',
        f"train.epochs={EPOCHS}", f"train.batch_size={SIZE}", f"train.learning_rate={RATE}", f"train.warmup={WARMUP}",
        f"train.validate={-(-count // SIZE)}", "train.checkpoint=100000", "train.batch_tokens=100000",
        f"data.longest={LONGEST}",
    ]  # fmt: skip
    training = Training(recipe.read("bert/glue", changes), Report(Console(quiet=True)))
    training.train()
    logged = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
    best = min((line for line in logged if "valid_loss" in line), key=training.task.worth)
    return {name: best[f"valid_{name}"] for name in glue.TASKS[task].metrics}


def theirs(model: str, data: Path, task: str, seed: int) -> dict[str, float]:
    """The same with Hugging Face's model."""
    question = glue.TASKS[task]
    train, dev = (list(glue.read(question, glue.find(data, question, split))) for split in ("train", "dev"))
    torch.manual_seed(seed)
    tokenizer = AutoTokenizer.from_pretrained(model)
    network = AutoModelForSequenceClassification.from_pretrained(model, num_labels=len(question.labels) or 1)

    def encode(examples: list[Example]) -> Any:
        second = None if examples[0].second is None else [str(e.second) for e in examples]
        return tokenizer(
            [e.text for e in examples], second, truncation=True, max_length=LONGEST, padding=True, return_tensors="pt"
        )

    def answers(examples: list[Example]) -> torch.Tensor:
        return torch.tensor(
            [question.labels.index(str(e.label)) if question.labels else float(str(e.label)) for e in examples]
        )

    def batches(order: list[int]) -> Iterator[list[Example]]:
        return ([train[i] for i in order[begin : begin + SIZE]] for begin in range(0, len(order), SIZE))

    optimizer = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=0.01)
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
        said: list[Any] = []
        with torch.no_grad():
            for begin in range(0, len(dev), 64):
                logits = network(**encode(dev[begin : begin + 64])).logits
                said += [question.labels[i] for i in logits.argmax(1)] if question.labels else logits[:, 0].tolist()
        found = scores(question, said, [str(e.label) for e in dev])
        first = question.metrics[0]
        best = max(best or found, found, key=lambda values: values[first])
    return best


def main() -> None:
    """Fine-tunes what is not done yet, prints a table of all that is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a folder of Hugging Face's with BERT weights")
    parser.add_argument("--data", type=Path, required=True, help="the folder of GLUE")
    parser.add_argument("--tasks", nargs="+", default=["mrpc", "cola", "rte", "stsb"])
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.touch()
    done = [json.loads(line) for line in RESULTS.read_text("utf-8").splitlines()]
    for seed in range(1, options.seeds + 1):
        for task in options.tasks:
            for system, tune in (("Regard", ours), ("Hugging Face", theirs)):
                key = {"system": system, "task": task, "seed": seed}
                if any(key.items() <= line.items() for line in done):
                    continue
                start = time.process_time()
                found = tune(options.model, options.data, task, seed)
                line = {**key, **found, "minutes": (time.process_time() - start) / 60}
                done.append(line)
                with RESULTS.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
                print(line, flush=True)
    print(f"{machine()}; median (least to most) over seeds, in percent")
    print("| | metric | Regard | Hugging Face | minutes, ours | theirs |\n|---|---|---|---|---|---|")
    for task in options.tasks:
        for metric in glue.TASKS[task].metrics:
            cells, minutes = [], []
            for system in ("Regard", "Hugging Face"):
                chosen = [line for line in done if line["task"] == task and line["system"] == system]
                values = [100 * line[metric] for line in chosen]
                cells.append(f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})")
                minutes.append(f"{statistics.median(line['minutes'] for line in chosen):.1f}")
            print(f"| {task} | {metric} | {' | '.join(cells)} | {' | '.join(minutes)} |")


if __name__ == "__main__":
    main()
