"""The lectures' comparison under equal conditions: RNN with and without attention, convolution, Transformer.

    python benchmarks/architectures.py --data multi30k

Same data (Multi30k, English to German), same tokenizer, same 15 minutes on two cores, each model with the best of the
same three learning rates, by validation loss. The number of steps in 15 minutes is measured once, on an idle machine,
with the models taking turns (runs/architectures/speeds.json), so other processes may run during training. Interrupted
runs resume; `--only` selects some of the models.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure
from rich.console import Console

import regard
from harness import interleave, machine, multi30k
from regard import recipe
from regard.data.text import pairs
from regard.evaluation import bleu
from regard.explain import figures
from regard.recipe import training as training_of
from regard.training.loop import Training
from regard.training.report import Report

MODELS = {
    "RNN, no attention": ["translate/rnn", "model.attention=none"],
    "RNN, Bahdanau's attention": ["translate/rnn", "model.attention=additive"],
    "convolution": ["translate/conv"],
    "Transformer": ["translate/transformer", "model.preset=small"],
}
RATES = (3e-4, 1e-3, 3e-3)
SHARED = [
    "tokenizer.vocab_size=6000", "tokenizer.joint=true", "model.width=256", "model.dropout=0.2",
    "train.batch_tokens=2000", "train.warmup=400", "train.schedule=linear", "train.cooldown=0.0",
    "train.label_smoothing=0.1",
    "train.ema=0.999", "train.validate_every=400", "train.checkpoint_every=400", "seed=1",
]  # fmt: skip
SPEED_STEPS = 5  # per measurement of speed
LENGTHS = ((1, 8), (9, 11), (12, 14), (15, 18), (19, 99))  # words in the source


def folder(model: str, rate: float) -> Path:
    """The folder of a run."""
    return Path("runs/architectures") / f"{model.replace(', ', '-').replace(' ', '-')}-{rate:g}"


def recipe_of(model: str, data: Path) -> list[str]:
    """The recipe of a model and its overrides."""
    return [*MODELS[model], *SHARED, *multi30k(data), "train.epochs=1000"]


def speeds(data: Path) -> dict[str, float]:
    """Steps per minute of each model, measured once."""
    path = Path("runs/architectures/speeds.json")
    if not path.exists():
        with tempfile.TemporaryDirectory() as aside:
            contenders: dict[str, Callable[[], None]] = {}
            for model in MODELS:
                name, *changes = recipe_of(model, data)
                chosen = recipe.read(name, [*changes, f"run={aside}/{len(contenders)}"])
                contenders[model] = partial(few_steps, training_of(chosen, Report(Console(quiet=True))))
            seconds = interleave(contenders)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(
            json.dumps({model: 60 * SPEED_STEPS / statistics.median(s) for model, s in seconds.items()}), "utf-8"
        )
    found: dict[str, float] = json.loads(path.read_text("utf-8"))
    return found


def few_steps(training: Training) -> None:
    """Run a few training steps."""
    for _ in range(SPEED_STEPS):
        training.step([next(training.batches)], 1e-4)


def train(model: str, rate: float, data: Path, steps: int) -> None:
    """Train or resume a run, unless it is finished."""
    print(f"{model}, learning rate {rate:g}, {steps:,} steps", flush=True)
    if (folder(model, rate) / "last").exists():
        return
    budget = [f"train.steps={steps}", f"train.learning_rate={rate}", f"run={folder(model, rate)}"]
    command = [sys.executable, "-m", "regard", "train", *recipe_of(model, data), *budget]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def best(run: Path) -> float:
    """The lowest validation loss of a run."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
    return min(float(line["valid_loss"]) for line in lines if "valid_loss" in line)


def main() -> None:
    """Train, test, print tables and plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with Multi30k")
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--only", choices=MODELS, nargs="+", default=list(MODELS))
    options = parser.parse_args()
    for model in options.only:
        for rate in RATES:
            train(model, rate, options.data, round(options.minutes * speeds(options.data)[model]))
    tests = list(pairs(options.data / "test_2016_flickr.en.gz", options.data / "test_2016_flickr.de.gz"))
    print(f"{machine()}, {options.minutes:g} minutes each")
    spans = [f"{low}–{high}" if high < 99 else f"{low} and more" for low, high in LENGTHS]
    print(f"| | parameters | learning rate | valid loss | BLEU | chrF | {' | '.join(f'{s} words' for s in spans)} |")
    print("|---" * (6 + len(spans)) + "|")
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    for model in options.only:
        rate = min(RATES, key=lambda rate: best(folder(model, rate)))
        run = folder(model, rate)
        translator = regard.load(str(run), regard.Translator)
        found = [translations[0].text for translations in translator.translate([source for source, _ in tests])]
        scores = bleu.score(found, [target for _, target in tests])
        by_length = []
        for low, high in LENGTHS:
            chosen = [i for i, (source, _) in enumerate(tests) if low <= len(source.split()) <= high]
            by_length.append(bleu.score([found[i] for i in chosen], [tests[i][1] for i in chosen]).bleu)
        parameters = sum(p.numel() for p in translator.model.parameters())
        cells = [
            f"{parameters / 1e6:.1f} M",
            f"{rate:g}",
            f"{best(run):.3f}",
            f"{scores.bleu:.1f}",
            f"{scores.chrf:.1f}",
        ]
        print(f"| {model} | {' | '.join([*cells, *(f'{value:.1f}' for value in by_length)])} |", flush=True)
        axes.plot(spans, by_length, marker="o", label=f"{model} ({scores.bleu:.1f})")
    axes.set_xlabel("words in the source")
    axes.set_ylabel("BLEU")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    figures.save(figure, Path("runs/architectures/by-length.png"))


if __name__ == "__main__":
    main()
