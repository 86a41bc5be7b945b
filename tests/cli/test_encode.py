"""The verbs of encoders: `classify`, `tag`, `embed` and `glue`."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

import regard
from commands import invoke, run
from regard import library
from regard.cli.main import app
from regard.models.heads import ClassificationHead
from texts import TEXTS, TOKENIZER, bert


def test_texts_are_classified(models: Path) -> None:
    classifier = regard.load(str(models / "sst2"))
    lines = run("classify", "--model", models / "sst2", *TEXTS).splitlines()
    for line, verdict in zip(lines, classifier.classify(TEXTS), strict=True):
        assert line == f"{verdict.label}\t{verdict.value:.3f}"
    assert run("classify", "--model", models / "sst2", stdin="\n".join(TEXTS) + "\n").splitlines() == lines
    (found,) = (
        json.loads(line) for line in run("classify", "-m", models / "sst2", "--json", "good\tfood").splitlines()
    )
    assert found["label"] in ("negative", "positive")
    rater = regard.load(str(models / "stsb"))
    alone, beside = (rater.classify(["good food"], [second])[0].value for second in (None, "bad food"))
    assert alone != beside
    assert run("classify", "--model", models / "stsb", "good food", "--second", "bad food") == f"{beside:.3f}\n"


def test_the_prediction_is_printed_below_the_attention_matrix(models: Path) -> None:
    label = regard.load(str(models / "sst2")).classify("good food").label
    lines = run("look", "-m", models / "sst2", "good food").splitlines()
    assert lines[0].split() == ["good", "food"]
    assert lines[-2:] == ["", label]
    assert len(run("look", "-m", models / "plain", "good food").splitlines()) == 3  # it predicts nothing
    assert (
        len(run("look", "-m", "en-es", "We eat.", "--target", "Comemos.").splitlines()) == 2
    )  # the rows are the output


def test_a_tab_separates_the_texts_of_a_pair(models: Path) -> None:
    together = json.loads(run("classify", "-m", models / "sst2", "--json", stdin="good\tfood\n"))
    assert (together["text"], together["second"]) == ("good", "food")
    apart = json.loads(run("classify", "-m", models / "sst2", "--json", "good", "--second", "food"))
    assert together == apart


def test_models_of_single_texts_and_of_pairs_are_told_apart(tmp_path: Path) -> None:
    for name, pairs in (("single", False), ("pair", True)):
        model = bert(ClassificationHead(labels=("bad", "good"), pairs=pairs)).float()
        library.save(tmp_path / name, model.config, library.tensors(model), {"text": TOKENIZER}, "")
    with pytest.raises(ValueError, match="trained on single texts, not on pairs; remove the second text"):
        run("classify", "-m", tmp_path / "single", "good", "--second", "food")
    with pytest.raises(ValueError, match="trained on pairs of texts; add a second text"):
        run("classify", "-m", tmp_path / "pair", "good")
    line = json.loads(run("classify", "-m", tmp_path / "single", "--json", stdin="good\tfood\n"))
    assert line["text"] == "good\tfood"
    assert run("classify", "-m", tmp_path / "pair", stdin="good\tfood\n").count("\n") == 1


@pytest.mark.parametrize("name", ["pos", "rnn_tagger"])
def test_words_are_tagged(models: Path, name) -> None:
    expected = regard.load(str(models / name)).tag([["The", "brown", "dog", "ran"]])[0]
    words = ["The", "brown", "dog", "ran"]
    joined = " ".join(f"{word}/{tag}" for word, tag in zip(words, expected, strict=True))
    assert run("tag", "--model", models / name, "The brown dog ran") == joined + "\n"
    lines = "".join(f"{word}\t{tag}\n" for word, tag in zip(words, expected, strict=True)) + "\n"
    assert run("tag", "--model", models / name, "--conll", *["The brown dog ran"] * 2) == lines * 2
    found = json.loads(run("tag", "--model", models / name, "--json", "The brown dog ran"))
    assert found == {"words": ["The", "brown", "dog", "ran"], "tags": expected}


def test_texts_are_embedded(models: Path, tmp_path: Path) -> None:
    (tmp_path / "texts").write_text("\n".join([*TEXTS, ""]) + "\n")
    out = tmp_path / "v.npy"
    output = run(
        "embed",
        "--model",
        models / "plain",
        "--file",
        tmp_path / "texts",
        "-o",
        out,
        "--layers",
        "-2:",
        "--join",
        "sum",
    )
    assert output == f"{out}: 6 vectors of width 8\n"
    encoder = regard.load(str(models / "plain"))
    assert np.array_equal(np.load(out), encoder.embed([*TEXTS, ""], layers=[1, 2], join="sum").numpy())
    lines = run("embed", "--model", models / "guesser", stdin="good food\n").splitlines()
    assert json.loads(lines[0])["text"] == "good food"
    assert run("embed", "--model", models / "guesser", "good food").splitlines() == lines
    run("embed", "--model", models / "plain", "--file", tmp_path / "texts", "-o", tmp_path / "v.parquet")
    table = parquet.read_table(tmp_path / "v.parquet").to_pydict()
    assert table["text"] == [*TEXTS, ""]
    assert np.allclose(table["vector"], encoder.embed([*TEXTS, ""]).numpy())
    run("embed", "--model", models / "plain", "--file", tmp_path / "texts", "-o", tmp_path / "v.json", "--normalise")
    assert np.allclose(np.linalg.norm(json.loads((tmp_path / "v.json").read_text()), axis=1), 1, atol=1e-6)


def test_masks_are_filled(models: Path) -> None:
    text = "the [MASK] dog ran to [MASK]"
    expected = regard.load(str(models / "guesser")).fill(text, 2)
    lines = ["\t".join(f"{each.word} {each.probability:.3f}" for each in mask) for mask in expected]
    assert run("fill", "-m", models / "guesser", "--top-k", 2, text).splitlines() == lines
    found = json.loads(run("fill", "-m", models / "guesser", "--top-k", 2, "--json", text))
    assert found["text"] == text
    for mask, words in zip(found["masks"], expected, strict=True):
        assert [each["word"] for each in mask] == [each.word for each in words]
        assert [each["probability"] for each in mask] == pytest.approx([each.probability for each in words])


def test_truncated_texts_are_reported(models: Path) -> None:
    long = " ".join(["dog"] * 99)
    for arguments in (["embed"], ["classify"]):
        name = "plain" if arguments == ["embed"] else "sst2"
        result = CliRunner().invoke(app, [*arguments, "--model", str(models / name)], input=f"{long}\ndog\n")
        assert "truncated" in result.stderr
        assert result.stderr.endswith(": 1\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["classify", "-m", "plain", "x"],
            "plain is a model for embedding, not for `regard classify`; try `regard embed`",
        ),
        (["tag", "-m", "sst2", "x"], "sst2 is a model for classification, not for `regard tag`; try `regard classify`"),
        (["translate", "-m", "sst2", "x"], "not for `regard translate`; try `regard classify`"),
        (["embed", "-m", "rnn_tagger"], "tagger is a model for word_tagging, not for `regard embed`; try `regard tag`"),
        (["classify", "-m", "sst2", "--second", "x"], "--second needs a text on the command line"),
        (["explore", "-m", "rnn_tagger"], "not for `regard explore`; try `regard tag`"),
        (["look", "-m", "rnn_tagger", "x"], "not for `regard look`; try `regard tag`"),
        (["embed", "-m", "plain", "-o", "nowhere/v.npy"], "nowhere: no such folder"),
        (["embed", "-m", "plain", "--layers", "4:x"], "--layers 4:x: write numbers such as -1 or 1,2, or a range"),
        (["fill", "-m", "guesser", "the dog"], "the text 'the dog' contains no [MASK]; write [MASK] in place of each"),
        (["embed", "-m", "plain", "--layers", "7"], "layers must be from 0 to 2"),
        (
            ["embed", "-m", "plain", "--layers", "-4:"],
            "--layers -4:: the model has layers 0 to 2, or -3 to -1 from the",
        ),
        (["embed", "-m", "plain", "--layers", "2:1"], "--layers 2:1: the range is empty"),
        (["tag", "-m", "pos", "--conll", "--json", "x"], "--conll and --json cannot be combined"),
        (["embed", "-m", "plain", "-o", "v.txt"], "v.txt: unknown format; use .npy, .json or .parquet"),
        (["glue", "plain", "--data", ".", "--tasks", "ax"], "--tasks ax: no such training task"),
    ],
)
def test_wrong_arguments_are_reported(models: Path, monkeypatch, arguments, message) -> None:
    monkeypatch.chdir(models)
    with pytest.raises(ValueError, match=re.escape(message)):
        run(*arguments, stdin="x\n")


def test_glue_prints_a_table(models: Path, tmp_path: Path) -> None:
    for folder, header, rows in (
        ("RTE", "sentence1\tsentence2\tlabel", [f"{text}\tfood\tentailment" for text in TEXTS]),
        ("SST-2", "sentence\tlabel", [f"{text}\t{i % 2}" for i, text in enumerate(TEXTS)]),
    ):
        (tmp_path / folder).mkdir()
        for split in ("train", "dev"):
            (tmp_path / folder / f"{split}.tsv").write_text("\n".join([header, *rows]) + "\n")
    (tmp_path / "SST-2" / "test.tsv").write_text(f"index\tsentence\n0\tgood food\n1\t{'bad food ' * 99}\n")
    command = ["glue", models / "plain", "--data", tmp_path, "--runs", tmp_path / "runs", "--seeds", 2]
    command += ["train.epochs=2", "data.max_length=20"]
    found = json.loads(run(*command, "--tasks", "rte,sst2", "--json"))
    assert found["rte"]["accuracy"]["seeds"] == 2
    # finished runs are not repeated
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/model/model.safetensors")}
    assert len(before) == 4
    result = invoke(*command, "--tasks", "sst2", "--submission", tmp_path / "out")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("runs/*/model/model.safetensors")} == before
    assert "93.5" in result.stdout  # BERT-base
    assert "test.tsv: 1 of 2 texts are too long and were truncated" in result.stderr
    assert "SST-2.tsv: 2 predictions for the leaderboard" in result.stderr
    assert (tmp_path / "out" / "SST-2.tsv").read_text().splitlines()[0] == "index\tprediction"
    assert len((tmp_path / "out" / "SST-2.tsv").read_text().splitlines()) == 3
