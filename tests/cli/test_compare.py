"""`regard compare`: models of every task that can be evaluated, on the same test set."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from commands import run
from completers import TOKENIZERS, gpt2
from regard import library
from regard.evaluation.language import BLOCK
from regard.models.heads import ClassificationHead, TaggingHead
from texts import TEXTS, TOKENIZER, bert


def compared(*arguments: object) -> dict[str, Any]:
    return {
        each["metric"]: each for each in json.loads(run("compare", *arguments, "--samples", "100", "--json"))["metrics"]
    }


def scores(comparison: dict[str, Any]) -> list[float]:
    return [each["score"] for each in comparison["models"]]


def opposite(folder: Path, head: Any) -> str:
    """A model of two labels that predicts the one that the model in `models` does not predict."""
    model: Any = bert(head).float()
    model.head[1].weight.data.neg_()
    model.head[1].bias.data.neg_()
    library.save(folder, model.config, library.tensors(model), {"text": TOKENIZER}, "")
    return str(folder)


def test_classifiers_are_compared_by_the_metrics_of_the_task(models: Path, tmp_path: Path) -> None:
    other = opposite(tmp_path / "other", ClassificationHead(labels=("negative", "positive")))
    labels = [prediction.label for prediction in regard.load(other, regard.Classifier).classify(TEXTS)]
    rows = [f"{text}\t{int(label == 'positive')}" for text, label in zip(TEXTS, labels, strict=True)] * 8
    (tmp_path / "dev.tsv").write_text("\n".join(["sentence\tlabel", *rows]) + "\n")
    arguments = ["task=sst2", "--data", tmp_path / "dev.tsv"]
    found = compared(models / "sst2", other, models / "sst2", *arguments)["accuracy"]
    assert json.loads(run("evaluate", models / "sst2", *arguments, "--json"))["accuracy"] == 0
    assert scores(found) == [0, 100, 0]
    assert [each["model"] for each in found["models"]] == [str(models / "sst2"), other, str(models / "sst2")]
    assert [each["p_value"] for each in found["models"]] == [None, 1 / 101, 1.0]
    assert found["signature"] is None
    assert not found["lower_is_better"]


def test_taggers_of_different_kinds_are_compared_by_accuracy_and_f1(models: Path, tmp_path: Path) -> None:
    words = [f"{i}\t{word}\t_\tNOUN" + "\t_" * 6 for i, word in enumerate(TEXTS[0].split(), start=1)]
    (tmp_path / "dev.conllu").write_text(("\n".join(words) + "\n\n") * 6)
    found = compared(models / "pos", models / "rnn_tagger", "--data", tmp_path / "dev.conllu")
    assert found.keys() == {"accuracy", "macro F1"}
    for metric, key in (("accuracy", "accuracy"), ("macro F1", "macro_f1")):
        alone = [
            json.loads(run("evaluate", models / name, "--data", tmp_path / "dev.conllu", "--json"))[key]
            for name in ("pos", "rnn_tagger")
        ]
        assert scores(found[metric]) == pytest.approx(alone)


def test_taggers_of_spans_are_compared_by_f1_of_exact_spans(tmp_path: Path) -> None:
    labels = ("B-PER", "O")
    model = bert(TaggingHead(labels=labels)).float()
    library.save(tmp_path / "names", model.config, library.tensors(model), {"text": TOKENIZER}, "")
    other = opposite(tmp_path / "other", TaggingHead(labels=labels))
    lines = [f"{word} {labels[i % 2]}" for i, word in enumerate(TEXTS[0].split())]
    (tmp_path / "dev.iob").write_text(("\n".join(lines) + "\n\n") * 6)
    found = compared(tmp_path / "names", other, "--data", tmp_path / "dev.iob")
    assert found.keys() == {"F1", "accuracy"}
    for metric, comparison in found.items():
        alone = [
            json.loads(run("evaluate", name, "--data", tmp_path / "dev.iob", "--json"))[metric.lower()]
            for name in (tmp_path / "names", other)
        ]
        assert scores(comparison) == pytest.approx(alone)


def test_language_models_with_different_tokenizers_are_compared_block_by_block(tmp_path: Path) -> None:
    text = "ROMEO: O soft, what light! " * 90
    (tmp_path / "text").write_text(text)
    names = []
    for kind, tokenizer in TOKENIZERS.items():
        names.append(str(tmp_path / kind))
        model = gpt2(tokenizer).float()
        library.save(tmp_path / kind, model.config, library.tensors(model), {"text": tokenizer}, "")
    completers = [regard.load(name, regard.Completer) for name in names]
    blocks = [each.losses(text).blocks() for each in completers]
    assert {len(each) for each in blocks} == {-(-len(text) // BLOCK)}
    assert all(each[:, 1].sum() == len(text) for each in blocks)
    assert all(np.abs(each[:-1, 1] - BLOCK).max() < 20 for each in blocks)  # bytes of the longest token
    (found,) = compared(*names, "--data", tmp_path / "text").values()
    assert found["metric"] == "bits per byte"
    assert found["lower_is_better"]
    assert scores(found) == pytest.approx([each.measure(text).bits_per_byte for each in completers])


def test_the_table_says_which_model_is_better(models: Path, tmp_path: Path) -> None:
    right = opposite(tmp_path / "right", TaggingHead(labels=("NOUN", "VERB")))
    tags = regard.load(right, regard.Tagger).tag([TEXTS[0].split()] * 30)
    sentences = [
        "".join(
            f"{i}\t{word}\t_\t{tag}" + "\t_" * 6 + "\n"
            for i, (word, tag) in enumerate(zip(TEXTS[0].split(), row, strict=True), 1)
        )
        for row in tags
    ]
    (tmp_path / "dev.conllu").write_text("\n".join(sentences) + "\n")
    for first, second, verdict in ((models / "pos", right, "better"), (right, models / "pos", "worse")):
        lines = run("compare", first, second, "--data", tmp_path / "dev.conllu").splitlines()
        assert lines[0].split() == ["metric", "model", "score", "p"]
        assert lines[1].split()[-1] == "baseline"
        assert lines[2].split()[-1] == verdict
        assert float(lines[2].split()[-2]) < 0.05
    same = run("compare", right, right, "--data", tmp_path / "dev.conllu").splitlines()
    assert same[2].endswith("1.000  no significant difference")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sst2"], "^compare needs at least two models, got 1; to score one, use regard evaluate$"),
        (["sst2", "beam=1"], "^compare needs at least two models, got 1"),
        (["sst2", "pos", "--data", "file"], "^sst2 is a classifier, pos is a tagger; compare models of one task$"),
        (["en-es", "en-es", "--data", "file"], "^a translator is evaluated with --source and --reference, not with"),
        (
            ["pos", "rnn_tagger", "task=sst2", "--data", "file"],
            'task = "sst2": no such key; known keys here are kind, column',
        ),
        (["plain", "pos", "--data", "file"], "plain is a model for embedding, not for `regard compare`"),
    ],
)
def test_a_wrong_comparison_is_reported(models: Path, monkeypatch, arguments, message) -> None:
    (models / "file").write_text("text\tlabel\ngood food\tpositive\n")
    monkeypatch.chdir(models)
    with pytest.raises(ValueError, match=message):
        run("compare", *arguments)
