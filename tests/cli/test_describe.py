"""`regard describe` of trained models."""

import json
from pathlib import Path

import pytest

from commands import invoke, run
from regard import library
from texts import TOKENIZER


def test_a_trained_model_is_described_with_its_purpose(models: Path) -> None:
    found = json.loads(run("describe", models / "sst2", "--json"))
    contents = library.read(str(models / "sst2"))
    assert found["parameters"] == sum(weight.numel() for weight in contents.weights.values())
    assert found["attention"] == ["layers.0.attention", "layers.1.attention"]
    assert (found["task"], found["labels"]) == ("classification", ["negative", "positive"])
    assert found["verbs"][0] == "classify"
    assert found["codecs"] == {"text": {"kind": "wordpiece", "vocab_size": TOKENIZER.vocab_size}}
    lines = run("describe", models / "sst2").splitlines()
    assert lines[:3] == [
        "bert",
        f"task  classification (regard {', '.join(found['verbs'])})",
        "labels  negative, positive",
    ]


def test_bundled_and_converted_models_are_described(models: Path, tmp_path: Path) -> None:
    result = invoke("describe", "en-es")
    assert "task  translation (regard translate, " in result.stdout
    assert "4000×256" in result.stdout  # the true size of the vocabulary
    assert result.stderr == ""
    run("convert", models / "plain", f"hf:{tmp_path / 'theirs'}")
    assert "task  embedding" in run("describe", f"hf:{tmp_path / 'theirs'}")


def test_an_export_is_described(models: Path, tmp_path: Path) -> None:
    pytest.importorskip("ctranslate2")
    run("convert", models / "plain", f"ct2:{tmp_path / 'fast'}")
    assert "task  embedding" in run("describe", f"ct2:{tmp_path / 'fast'}")


def test_a_run_is_described_by_its_model_or_with_overrides_by_its_recipe(models: Path, tmp_path: Path) -> None:
    (tmp_path / "model").symlink_to(models / "rnn_tagger", target_is_directory=True)
    (tmp_path / "recipe.toml").write_text(run("recipes", "translate/dates"))
    assert run("describe", tmp_path).startswith("rnn_tagger\ntask  word_tagging")
    assert run("describe", tmp_path, "model.heads=2").startswith("transformer\npart")
    (tmp_path / "model").unlink()
    assert run("describe", tmp_path).startswith("transformer\npart")
