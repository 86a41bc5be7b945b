"""Regression guard: records the output of every recipe and verb, and compares it after a refactoring.

    python benchmarks/guard.py record before.json
    python benchmarks/guard.py compare before.json

It records 50 losses and the tensor names of each recipe on small synthetic data, the JSON output of each verb, the
number of tests, and the number of assertions in them. Everything goes through the command line, so modules may move.
Nothing is timed.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import safe_open
from typer.testing import CliRunner

STEPS = 50
ROOT = Path(__file__).parents[1]
WORDS = [
    *(
        "the",
        "a",
        "small",
        "old",
        "brown",
        "happy",
        "dog",
        "child",
        "house",
        "garden",
        "bread",
        "stone",
        "eats",
        "sees",
    ),
    *("finds", "runs", "to", "in", "under", "with", "and", "she", "he", "they", "quickly", "slowly", "never", "today"),
]
TAGS = ("DET", "ADJ", "NOUN", "VERB", "ADP", "PRON", "ADV")
SMALL = [
    "train.steps=50",
    "train.epochs=1000",
    "train.validate_every=50",
    "train.checkpoint_every=50",
    "threads=1",
    "train.warmup=5",
]
SHAPE = ["model.width=16", "model.heads=2", "model.ff_width=24"]
RECIPES: dict[str, list[str]] = {
    "translate/dates": ["data.pairs=300", "tokenizer.vocab_size=300", "train.batch_tokens=300", *SHAPE],
    "translate/transformer": ["data.train=pairs.tsv", "tokenizer.vocab_size=300", "train.batch_tokens=300", *SHAPE],
    "translate/rnn": ["data.train=pairs.tsv", "tokenizer.vocab_size=300", "train.batch_tokens=300", "model.width=16"],
    "translate/conv": ["data.train=pairs.tsv", "tokenizer.vocab_size=300", "train.batch_tokens=300", "model.width=16"],
    "bert/pretrain": [
        'data.text=["one.txt","two.txt","three.txt"]', "tokenizer.vocab_size=120", "data.max_length=48",
        "train.batch_tokens=300", *SHAPE,
    ],
    "bert/classify": ["data.train=table.tsv", "data.valid=table-valid.tsv", "tokenizer.vocab_size=120", *SHAPE],
    "bert/glue": ["task=sst2", "tokenizer.vocab_size=120", *SHAPE],
    "bert/tag": ["data.train=train.conllu", "data.valid=dev.conllu", "tokenizer.vocab_size=120", *SHAPE],
    "tag/rnn": ["data.train=train.conllu", "data.valid=dev.conllu", "model.width=16"],
    "gpt2/characters": ["data.text=one.txt", "model.layers=2", *SHAPE],
    "gpt2/ten-minutes": ["data.text=one.txt", "model.layers=2", *SHAPE],
    "gpt2/own-text": [
        "data.text=one.txt", "tokenizer.vocab_size=300", "data.max_length=32", "model.layers=2",
        "train.batch_tokens=300",
        *SHAPE,
    ],
}  # fmt: skip
FINE_TUNED = {"sst2 after pre-training": ["bert/glue", "task=sst2", "model.init=runs/bert/pretrain"]}
TEXT = "The small dog never sees the old garden."
VERBS: dict[str, list[str]] = {
    "translate": ["translate", "--json", "--align", "--n-best", "2", TEXT, "Where is he?"],
    "translate, sampled": ["translate", "--json", "--sample", "--seed", "3", TEXT],
    **{
        f"translate with {name}": ["translate", "--model", f"runs/translate/{name}", "--json", TEXT]
        for name in ("dates", "transformer", "rnn", "conv")
    },
    "complete": [
        "complete", "--model", "runs/gpt2/own-text", "--json", "--samples", "2",
        "--max-tokens", "8", "the dog",
    ],
    "complete, beam": [
        "complete", "--model", "runs/gpt2/characters", "--json", "--beam", "2",
        "--max-tokens", "8", "the",
    ],
    "classify": ["classify", "--model", "runs/bert/classify", "--json", TEXT],
    "tag": ["tag", "--model", "runs/bert/tag", "--json", TEXT],
    "tag, recurrent": ["tag", "--model", "runs/tag/rnn", "--json", TEXT],
    "embed": ["embed", "--model", "runs/bert/pretrain", "--file", "table.txt"],
    "evaluate a translator": [
        "evaluate", "runs/translate/rnn", "--json", "--source", "source.txt", "--reference", "target.txt",
    ],
    "evaluate a classifier": ["evaluate", "runs/bert/classify", "--json", "--data", "table-valid.tsv"],
    "evaluate a tagger": ["evaluate", "runs/bert/tag", "--json", "--data", "dev.conllu"],
    "evaluate a recurrent tagger": ["evaluate", "runs/tag/rnn", "--json", "--data", "dev.conllu"],
    "score": ["score", "runs/translate/rnn", "--json", "--align", "--source", "source.txt", "--target", "target.txt"],
    "compare": [
        "compare", "runs/translate/rnn", "runs/translate/conv", "--json", "--source", "source.txt", "--reference",
        "target.txt", "--samples", "100",
    ],
    "describe": ["describe", "bert/pretrain", "--json"],
    "recipes": ["recipes", "--json"],
    "look": ["look", TEXT],
    "look at a BERT": ["look", "--model", "runs/bert/pretrain", "the [MASK] sees"],
    "lab layers": [
        "lab", "layers", "--model", "runs/bert/pretrain", "--train", "train.conllu", "--valid", "dev.conllu",
    ],
}  # fmt: skip


def main() -> None:
    """Record the current output, or compare it with a record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    file = options.file.resolve()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["REGARD_CACHE"] = f"{folder}/cache"
        os.chdir(folder)
        found = {"recipes": recipes(), "verbs": verbs(), "tests": tests()}
    if options.what == "record":
        file.write_text(json.dumps(found, indent=1))
        print(f"{file}: recorded")
        return
    before = json.loads(file.read_text())
    differing = [line for line in differences(before, json.loads(json.dumps(found))) if line]
    print("\n".join(differing) or "no differences")
    sys.exit(bool(differing))


def recipes() -> dict[str, Any]:
    """Losses and tensors of each recipe, trained for a few steps."""
    write_data()
    from regard.training import loop

    loop.LOG_EVERY = 1
    jobs = {name: [name, *changes, f"run=runs/{name}"] for name, changes in RECIPES.items()}
    jobs |= {name: [*changes, f"run=runs/{name}"] for name, changes in FINE_TUNED.items()}
    found: dict[str, Any] = {}
    for name, arguments in jobs.items():
        command("train", *arguments, *SMALL)
        lines = [json.loads(line) for line in Path(f"runs/{name}/log.jsonl").read_text().splitlines()]
        with safe_open(f"runs/{name}/model/model.safetensors", "pt") as file:
            tensors = {key: file.get_slice(key).get_shape() for key in sorted(file.keys())}
        found[name] = {
            "losses": [line["loss"] for line in lines if "rate" in line],
            "validation": [{k: v for k, v in line.items() if k != "step"} for line in lines if "valid_loss" in line],
            "tensors": tensors,
        }
        print(name, found[name]["losses"][-1], flush=True)
    return found


def verbs() -> dict[str, Any]:
    """The output of each verb."""
    found: dict[str, Any] = {}
    for name, arguments in VERBS.items():
        printed = command(*arguments)
        try:
            found[name] = [json.loads(line) for line in printed.splitlines()]
        except ValueError:
            try:
                found[name] = json.loads(printed)
            except ValueError:
                found[name] = printed.splitlines()
    return found


def tests() -> dict[str, int]:
    """Number of tests, and number of assertions in their source."""
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    texts = [path.read_text() for path in sorted((ROOT / "tests").rglob("*.py"))]
    asserting = re.compile(r"\bassert\b|assert_same\(|pytest\.raises|expect\(")
    return {
        "tests": sum("::" in line for line in listed.stdout.splitlines()),
        "assertions": sum(len(asserting.findall(text)) for text in texts),
    }


def command(*arguments: str) -> str:
    """The output of a command."""
    from regard.cli.main import app

    result = CliRunner().invoke(app, list(arguments))
    if result.exit_code:
        raise SystemExit(f"regard {' '.join(arguments)}: {result.output}\n{result.exception!r}") from result.exception
    return result.stdout


def differences(before: Any, now: Any, path: str = "") -> list[str]:
    """Differences between two records; more tests and more keys than before are allowed."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        found = [f"{path}: {key} is missing" for key in before if key not in now]
        return found + [d for key in before if key in now for d in differences(before[key], now[key], f"{path}/{key}")]
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [d for i, pair in enumerate(zip(before, now, strict=True)) for d in differences(*pair, f"{path}/{i}")]
    if path.startswith("/tests"):
        return [f"{path}: {before} before, {now} now"] if now < before else []
    if isinstance(before, float) and isinstance(now, float):
        return [] if abs(before - now) <= 1e-5 * max(1.0, abs(before)) else [f"{path}: {before} before, {now} now"]
    return [] if before == now else [f"{path}: {before!r} before, {now!r} now"]


def write_data() -> None:
    """Write small synthetic data of every kind, the same each time."""
    rng = random.Random(1)

    def sentence(count: int | None = None) -> list[str]:
        return [rng.choice(WORDS) for _ in range(count or rng.randint(3, 9))]

    def write(name: str, lines: list[str]) -> None:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))

    pairs = [sentence() for _ in range(200)]
    sources, targets = [" ".join(p) for p in pairs], [" ".join(word[::-1] for word in p) for p in pairs]
    write("pairs.tsv", [f"{one}\t{other}" for one, other in zip(sources, targets, strict=True)])
    write("source.txt", sources[:12])
    write("target.txt", targets[:12])
    for name in ("one", "two", "three"):
        write(f"{name}.txt", [f"{' '.join(sentence()).capitalize()}." for _ in range(120)])
    labelled = [(text := sentence(), "animal" if "dog" in text else "thing") for _ in range(80)]
    rows = [f"{' '.join(text)}\t{label}" for text, label in labelled]
    write("table.tsv", ["text\tlabel", *rows[:60]])
    write("table-valid.tsv", ["text\tlabel", *rows[60:]])
    write("table.txt", [" ".join(text) for text, _ in labelled[:3]])
    numbered = [f"{' '.join(text)}\t{int(label == 'animal')}" for text, label in labelled]
    write("glue/SST-2/train.tsv", ["sentence\tlabel", *numbered[:60]])
    write("glue/SST-2/dev.tsv", ["sentence\tlabel", *numbered[60:]])
    for name, count in (("train", 60), ("dev", 20)):
        lines: list[str] = []
        for _ in range(count):
            for number, word in enumerate(sentence(), start=1):
                tag = TAGS[WORDS.index(word) % len(TAGS)]
                lines.append("\t".join([str(number), word, "_", tag, *["_"] * 6]))
            lines.append("")
        write(f"{name}.conllu", lines)


if __name__ == "__main__":
    main()
