"""Training on files of one's own: JSONL and IOB, with and without a validation file."""

import io
import json
import random
import re
from pathlib import Path

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file

import regard
import small
from commands import run as command
from regard import library
from regard.models.heads import PretrainingHead
from regard.recipe import read
from regard.recipe import training as training_of
from regard.training.loop import Training
from regard.training.report import Report
from texts import TOKENIZER, bert

NAMES, PLACES = ["Ann Lee", "Peter", "Maria Garcia"], ["Rome", "New York"]


def start(name: str, run: Path, *changes: str) -> Training:
    return training_of(read(name, [f"run={run}", "threads=1", *changes]), Report(Console(quiet=True)))


@pytest.fixture(scope="module")
def names(tmp_path_factory) -> Path:
    """Sentences with names, as an IOB file; none occurs twice."""
    rng = random.Random(1)
    lines: list[str] = []
    for i in range(80):
        parts = ((rng.choice(NAMES), "I-PER"), (f"saw {i}", "O"), (rng.choice(PLACES), "I-LOC"))
        lines += [f"{word} {tag}" for words, tag in parts for word in words.split()] + [""]
    path = tmp_path_factory.mktemp("iob") / "names.iob"
    path.write_text("\n".join(lines))
    return path


def test_names_are_learned_from_an_iob_file_and_judged_by_their_spans(names: Path, tmp_path: Path) -> None:
    changes = ["data.kind=iob", f"data.train={names}", "model.width=32", "train.steps=60", "train.validate_every=20"]
    training = start("tag/rnn", tmp_path / "run", *changes, "train.ema=0.5", "train.warmup=5")
    training.train()
    assert training.task.labels == ("B-LOC", "B-PER", "I-LOC", "I-PER", "O")
    assert training.task.curves[0].score == "valid_f1"
    logged = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert max(line["valid_f1"] for line in logged if "valid_f1" in line) == -training.state.best == 1
    tagger = regard.load(str(tmp_path / "run"))
    assert tagger.tag([["Peter", "saw", "2", "New", "York"]]) == [["B-PER", "O", "O", "B-LOC", "I-LOC"]]
    found = json.loads(command("evaluate", tmp_path / "run", "--data", names, "--json"))
    assert found["f1"] == 100
    assert found["types"]["PER"]["count"] == 80


def test_a_resumed_run_without_a_validation_file_is_bit_identical(names: Path, tmp_path: Path) -> None:
    changes = ["data.kind=iob", f"data.train={names}", "model.width=16", "train.checkpoint_every=2"]
    changes += ["train.schedule=constant", "train.validate_every=2"]
    for run, steps in (("straight", [4]), ("resumed", [2, 4])):
        for step in steps:
            training = start("tag/rnn", tmp_path / run, *changes, f"train.steps={step}")
            assert len(training.task.valid_sentences) == 8
            training.train()
    one, other = (load_file(tmp_path / run / "last/model.safetensors") for run in ("straight", "resumed"))
    assert all(torch.equal(one[key], other[key]) for key in one)
    with pytest.raises(ValueError, match=r"another recipe \(different: data\.hold_out\)"):
        start("tag/rnn", tmp_path / "resumed", *changes, "data.hold_out=3", "train.steps=6")


@pytest.mark.parametrize(("kind", "changes"), [("parallel", {}), ("text", {}), ("table", {"valid": None})])
def test_the_log_says_that_validation_data_were_split_from_training(tmp_path: Path, kind, changes) -> None:
    system, task, data = next(case for case in small.CASES if case[2].kind == kind)
    written = io.StringIO()
    made = small.small_recipe(system, task, data, tmp_path, data=changes)
    training_of(made, Report(Console(file=written, width=200)))
    assert re.search(
        r"validation: .* split from training.*; give (others|another text) with data\.valid", written.getvalue()
    )


@pytest.mark.parametrize("name", ["bert/classify", "bert/tag"])
def test_a_high_learning_rate_for_a_wide_initial_model_is_noted(names, tmp_path: Path, monkeypatch, name) -> None:
    model = bert(PretrainingHead()).float()
    library.save(tmp_path / "model", model.config, library.tensors(model), {"text": TOKENIZER}, "")
    (tmp_path / "a.tsv").write_text("text\tlabel\n" + "".join(f"dog {i}\t{i % 2}\n" for i in range(20)))
    changes = [f"data.train={tmp_path}/a.tsv"] if name == "bert/classify" else ["data.kind=iob", f"data.train={names}"]

    def noted(run: str, *more: str) -> bool:
        written = io.StringIO()
        made = read(name, [f"run={tmp_path / run}", "threads=1", *changes, f"model.init={tmp_path / 'model'}", *more])
        training_of(made, Report(Console(file=written, width=200)))
        return "for a large pre-trained model, set train.learning_rate=5e-5" in written.getvalue()

    assert not noted("narrow")
    monkeypatch.setattr("regard.tasks.fine_tuning.SMALL_WIDTH", 4)
    assert noted("wide")
    assert not noted("low", "train.learning_rate=5e-5")


@pytest.mark.parametrize("name", ["bert/classify", "roformer/classify"])
def test_a_classifier_is_trained_and_evaluated_on_json_lines(tmp_path: Path, name) -> None:
    rows = [{"label": i % 2, "text": f"{'good' if i % 2 else 'bad'} film number {i}"} for i in range(40)]
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    small = ["model.width=16", "model.ff_width=16", "tokenizer.vocab_size=60", "train.steps=2"]
    training = start(name, tmp_path / "run", f"data.train={path}", *small)
    assert [count["kept"] for count in training.counts] == [36, 4]
    training.train()
    found = json.loads(command("evaluate", tmp_path / "run", "--data", path, "--json"))
    assert found["texts"] == 40
    assert regard.load(str(tmp_path / "run")).labels == ("0", "1")
