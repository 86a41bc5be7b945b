import io
import json
from math import exp, log
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from typer.testing import CliRunner

import regard
from regard.cli.main import app
from regard.codecs.gpt2 import ByteBpe, CharacterTokenizer
from regard.config import ConfigError
from regard.recipe import read
from regard.recipe import training as training_of
from regard.tasks.completion import Completer
from regard.training.loop import Training
from regard.training.report import Report

LINE = "one, two, three, four, five, six, seven; all good children go to heaven.\n"
SMALL = ["model.width=32", "model.heads=2", "model.ff_width=64", "model.layers=1", "model.context=16", "threads=1"]


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("text") / "input.txt"
    path.write_text(LINE * 40)
    return path


def start(name: str, run: Path, *changes: str, console: Console | None = None) -> Training:
    begins = any(change.startswith("model.init") for change in changes)  # sizes come from the initial model
    small = [change for change in SMALL if not (begins and change.startswith("model"))]
    return training_of(read(name, [f"run={run}", *small, *changes]), Report(console or Console(quiet=True)))


def log_of(run: Path) -> list[dict]:
    return [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def trained(text: Path, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "characters"
    changes = ["train.steps=120", "train.validate_every=60", "train.learning_rate=1e-2", "train.warmup=10"]
    start("gpt2/characters", run, f"data.text={text}", *changes).train()
    return run


def test_a_repetitive_text_is_learned(trained: Path) -> None:
    values = [line for line in log_of(trained) if "valid_loss" in line]
    assert values[-1]["valid_loss"] < 0.2 * log(len(set(LINE)))  # the loss before training
    assert values[-1]["valid_perplexity"] == pytest.approx(exp(values[-1]["valid_loss"]))
    # one byte per character
    assert values[-1]["valid_bits_per_byte"] == pytest.approx(values[-1]["valid_loss"] / log(2))


def test_a_trained_model_completes_and_is_evaluated(trained: Path, text: Path, tmp_path: Path) -> None:
    opened = regard.load(str(trained))
    assert isinstance(opened, Completer)
    assert isinstance(opened.tokenizer, CharacterTokenizer)
    (tmp_path / "valid.txt").write_text(LINE)
    expected = opened.measure(LINE)
    assert expected.loss < 0.5
    found = CliRunner().invoke(app, ["evaluate", str(trained), "--data", str(tmp_path / "valid.txt"), "--json"])
    assert json.loads(found.stdout) == pytest.approx(vars(expected))
    found = CliRunner().invoke(app, ["evaluate", str(trained), "--data", str(tmp_path / "valid.txt")])
    assert f"bits per byte  {expected.bits_per_byte:8.4f}   {len(LINE)} bytes" in found.stdout
    found = CliRunner().invoke(app, ["evaluate", str(trained), "--source", str(text)])
    assert "a language model is evaluated with --data, not with --source" in str(found.exception)


@pytest.mark.parametrize("name", ["gpt2/characters", "gpt2/own-text"])
def test_a_resumed_run_is_bit_identical(text: Path, tmp_path: Path, name) -> None:
    changes = [
        f"data.text={text}",
        "train.checkpoint_every=2",
        "train.validate_every=2",
        "train.epochs=1000",
        "model.dropout=0.1",
    ]
    changes += ["train.schedule=constant", "train.batch_size=60"]
    changes += ["tokenizer.vocab_size=270"] if name == "gpt2/own-text" else []
    for run, steps in (("uninterrupted", [5]), ("resumed", [2, 5])):
        for step in steps:
            training = start(name, tmp_path / run, *changes, f"train.steps={step}")
            training.train()
    assert training.state.epoch > 0  # it resumed within an epoch, and reached the next
    one, other = (load_file(tmp_path / run / "last/model.safetensors") for run in ("uninterrupted", "resumed"))
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_a_character_vocabulary_covers_training_and_validation_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ab" * 100 + "é\n" * 10)
    training = start("gpt2/characters", tmp_path / "run", f"data.text={tmp_path / 'a.txt'}", "model.context=4")
    assert training.task.config.vocab_size == 4
    assert training.counts == [
        {"text": "training", "characters": 198, "tokens": 198},
        {"text": "validation", "characters": 22, "tokens": 22},
    ]
    # the windows have 20 targets: b, é ten times, and a line break after all of these but the last
    assert training.task.bytes_per_token == 30 / 20


def test_folders_are_read_and_byte_pairs_learned(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    for name in "abc":
        (notes / f"{name}.txt").write_text(LINE * 5)
    console = Console(file=io.StringIO(), width=200)
    small = [f"data.text={notes}/", "tokenizer.vocab_size=300"]
    task = start("gpt2/own-text", tmp_path / "run", *small, console=console).task
    assert isinstance(task.tokenizer, ByteBpe)
    assert task.config.vocab_size == task.tokenizer.vocab_size <= 300
    ends = (np.asarray(task.batches.examples.tokens) == task.tokenizer.end).sum()
    assert ends == 2
    assert "learning a vocabulary of 300 tokens" in console.file.getvalue()
    assert "training: 985 characters" in console.file.getvalue()


def test_the_vocabulary_files_of_gpt_2_are_read(text: Path, tmp_path: Path) -> None:
    own = json.loads(ByteBpe.train(280, [LINE]).to_json())["model"]
    folder = tmp_path / "files"
    folder.mkdir()
    changes = [f"data.text={text}", f"tokenizer.files={folder}"]
    with pytest.raises(ValueError, match=r"files: has neither vocab\.json with merges\.txt nor encoder\.json with vo"):
        start("gpt2/own-text", tmp_path / "run", *changes)
    (folder / "vocab.json").write_text(json.dumps({**own["vocab"], "<|endoftext|>": len(own["vocab"])}))
    merges = [" ".join(pair) if isinstance(pair, list) else pair for pair in own["merges"]]
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges]) + "\n")
    tokenizer = start("gpt2/own-text", tmp_path / "run", *changes).task.tokenizer
    assert tokenizer.decode(tokenizer.encode([LINE])) == [LINE]


def test_windows_may_be_shorter_than_the_context(text: Path, tmp_path: Path) -> None:
    training = start("gpt2/characters", tmp_path / "run", f"data.text={text}", "data.max_length=8")
    assert next(training.batches).tokens_BT.shape == (12, 8)
    assert training.model.limit == 16
    with pytest.raises(ValueError, match="a text has 17 tokens, end token included, but the model's limit is 16"):
        start("gpt2/characters", tmp_path / "other", f"data.text={text}", "data.max_length=17")


def test_training_is_initialised_from_a_model_and_its_tokenizer(trained: Path, text: Path, tmp_path: Path) -> None:
    recipe = read("gpt2/own-text", [f"model.init={trained}"])
    assert recipe.tokenizer.kind == "characters"
    changes = [f"data.text={text}", f"model.init={trained}", "train.steps=1", "train.learning_rate=1e-30"]
    training = start("gpt2/own-text", tmp_path / "run", *changes)
    training.train()
    assert training.task.tokenizer.to_json() == CharacterTokenizer.load(trained / "codecs" / "tokenizer.json").to_json()
    old, new = (load_file(run / "model" / "model.safetensors") for run in (trained, tmp_path / "run"))
    assert all(torch.allclose(old[name], new[name], atol=1e-6) for name in old)


def test_too_little_text_is_an_error_that_names_the_part(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a" * 40)
    with pytest.raises(ValueError, match=r"the validation text has 4 tokens, but a window of 16 and"):
        start("gpt2/characters", tmp_path / "run", f"data.text={tmp_path / 'a.txt'}")
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(ValueError, match="the text is empty; there are no characters to learn"):
        start("gpt2/characters", tmp_path / "other", f"data.text={tmp_path / 'a.txt'}")


def test_incompatible_kinds_are_reported() -> None:
    with pytest.raises(ConfigError, match="a model of kind 'gpt2' requires characters or byte_pairs"):
        read("gpt2/characters", ["tokenizer.kind=bpe"])
    with pytest.raises(ConfigError, match="data of kind 'text' require model.kind = gpt2"):
        read("gpt2/own-text", ["model.kind=bert"])
    assert read("gpt2/own-text", ["tokenizer.vocab_size=500"]).model.vocab_size == 500
