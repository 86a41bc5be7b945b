"""Learning rates and epochs for fine-tuning small BERTs of one's own, pre-trained for minutes.

    python benchmarks/small_bert.py sst2 --models runs/bert-tiny runs/bert-mini --data glue
    python benchmarks/small_bert.py tags --models runs/bert-tiny runs/bert-mini --data ud_ewt --dev 1e-3 10

Settings are compared on texts of the training set that no run learns from, after the best epoch. `--dev` measures one
setting on the development set; give it once, when the choice is made. Results go into a file for each task, and what is
there is not done again.
"""

import argparse
import json
import random
from pathlib import Path
from typing import Any

from rich.console import Console

from harness import machine, measured
from regard import recipe
from regard.recipe import training as training_of
from regard.training.report import Report
from transfer import RECIPES, accuracy, texts, write

KEPT = 1000  # texts to decide with
SIZE = 32  # texts of a step
SETTINGS = ((5e-5, 3), (1e-4, 3), (1e-3, 3), (3e-4, 10), (1e-3, 10), (3e-3, 10))  # learning rate, epochs


def tuned(task: str, model: str, rate: float, epochs: int, count: int, folder: Path) -> float:
    """Fine-tunes by the bundled recipe; gives the accuracy on the texts to decide with, after the best epoch."""
    run, steps = folder / f"{Path(model).name}-{rate:g}-{epochs}", -(-count // SIZE)
    changes = [
        f'data.train="{folder / "train.txt"}"', f'data.valid="{folder / "kept.txt"}"', f'run="{run}"',
        f'model.init="{model}"', f"train.epochs={epochs}", f"train.batch_size={SIZE}", f"train.learning_rate={rate}",
        f"train.validate_every={steps}", "train.checkpoint_every=100000", "threads=1",
    ]  # fmt: skip
    training = training_of(recipe.read(RECIPES[task], changes), Report(Console(quiet=True)))
    training.train()
    return -training.state.best


def main() -> None:
    """Fine-tunes with the settings that are missing, and prints a table of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", choices=RECIPES, help="SST-2, or parts of speech")
    parser.add_argument("--models", nargs="+", required=True, help="runs of bert/pretrain")
    parser.add_argument("--data", type=Path, required=True, help="the folder of GLUE, or of a treebank")
    parser.add_argument("--count", type=int, default=2000, help="texts to learn from")
    parser.add_argument("--setting", nargs=2, action="append", metavar=("RATE", "EPOCHS"), help="only these")
    parser.add_argument("--dev", nargs=2, action="append", default=[], metavar=("RATE", "EPOCHS"))
    options = parser.parse_args()
    folder = Path("runs/small-bert", options.task)
    folder.mkdir(parents=True, exist_ok=True)
    train = texts(options.task, options.data, "train")
    random.Random(0).shuffle(train)
    write(folder / "dev.txt", options.task, texts(options.task, options.data, "dev"))
    write(folder / "kept.txt", options.task, train[:KEPT])
    write(folder / "train.txt", options.task, train[KEPT : KEPT + options.count])

    def measure(model: str, rate: float, epochs: int) -> dict[str, float]:
        return {"kept": tuned(options.task, model, rate, epochs, options.count, folder)}

    def judge(model: str, rate: float, epochs: int) -> dict[str, float]:
        return {"dev": accuracy(folder / f"{Path(model).name}-{rate:g}-{epochs}")}

    def cases(settings: Any) -> list[dict[str, Any]]:
        return [{"model": m, "rate": float(r), "epochs": int(e)} for m in options.models for r, e in settings]

    done = {"kept": measured(folder / "results.jsonl", cases(options.setting or SETTINGS), measure)}
    done["dev"] = measured(folder / "dev.jsonl", cases(options.dev), judge)
    print(f"{machine()}; {options.count:,} texts, accuracy in percent")
    for part, found in done.items():
        settings = sorted({(case["epochs"], case["rate"]) for case in found})
        print(f"| {part} | " + " | ".join(f"{rate:g}, {epochs} epochs" for epochs, rate in settings) + " |")
        print("|---" * (len(settings) + 1) + "|")
        for model in options.models:
            values = {(c["epochs"], c["rate"]): 100 * c[part] for c in found if c["model"] == model}
            config = json.loads((Path(model) / "model" / "config.json").read_text("utf-8"))["model"]
            name = f"{config['layers']} layers of width {config['width']}"
            print(
                f"| {name} | " + " | ".join(f"{values[each]:.1f}" if each in values else "" for each in settings) + " |"
            )


if __name__ == "__main__":
    main()
