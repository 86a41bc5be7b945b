"""`regard glue`: its table, average, and files for the leaderboard; and `regard evaluate` for regression."""

import json
from pathlib import Path

import numpy as np
import pytest

import regard
from commands import invoke, run
from regard import library
from regard.lab.glue import Benchmark
from regard.models.heads import NoHead
from texts import TEXTS, TOKENIZER, bert

ENTAILMENT = ("entailment", "neutral", "contradiction")
SIMILAR = [("good food", "bad food", "1.5"), ("a small child", "the child", "4.000"), ("dog", "bread", "0.25")]


def written(path: Path, header: str, *rows: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n".replace("|", "\t") for line in (header, *rows)))
    return path


def table_rows(first: list[str], second: str) -> list[str]:
    return [f"{i}|{text}|{second}" for i, text in enumerate(first)]


# each set has its own size and its own order of texts
TESTS = {
    "MNLI-m": table_rows(TEXTS, "food"),
    "MNLI-mm": table_rows(TEXTS[::-1][:4], "sad"),
    "AX": table_rows(TEXTS[2:], "a house"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The files that the command writes for MNLI and STS-B: `glue.json`, `stderr.txt`, `runs` and `out`."""
    folder = tmp_path_factory.mktemp("glue")
    model = bert(NoHead()).float()
    library.save(folder / "plain", model.config, library.tensors(model), {"text": TOKENIZER}, "")
    pair = "sentence1|sentence2"
    labelled = [f"{text}|food|{ENTAILMENT[i % 3]}" for i, text in enumerate(TEXTS)]
    for name in ("train", "dev_matched"):
        written(folder / f"MNLI/{name}.tsv", f"{pair}|gold_label", *labelled)
    written(folder / "MNLI/dev_mismatched.tsv", f"{pair}|gold_label", *labelled[:3], "bread|sad|neutral")
    for file, name in {
        "MNLI/test_matched": "MNLI-m",
        "MNLI/test_mismatched": "MNLI-mm",
        "diagnostic/diagnostic": "AX",
    }.items():
        written(folder / f"{file}.tsv", f"index|{pair}", *TESTS[name])
    columns = f"index|genre|filename|year|old_index|source1|source2|{pair}"
    lines = [f"{i}|news|a|2015|3|x|y|{one}|{other}" for i, (one, other, _) in enumerate(SIMILAR)]
    scored = [f"{line}|{score}" for line, (*_, score) in zip(lines, SIMILAR, strict=True)]
    for name in ("train", "dev"):
        written(folder / f"STS-B/{name}.tsv", f"{columns}|score", *scored)
    written(folder / "STS-B/test.tsv", columns, *lines[::-1])
    changes = ["train.epochs=100", "train.learning_rate=0.02", "train.warmup=1", "data.max_length=20"]
    files = ["--data", folder, "--runs", folder / "runs", "--submission", folder / "out"]
    found = invoke("glue", folder / "plain", *changes, *files, "--tasks", "mnli,stsb", "--json")
    (folder / "glue.json").write_text(found.stdout)
    (folder / "stderr.txt").write_text(found.stderr)
    return folder


def answers(folder: Path, name: str) -> list[str]:
    header, *lines = (folder / "out" / f"{name}.tsv").read_text().splitlines()
    assert header == "index\tprediction"
    numbers, target = zip(*(line.split("\t") for line in lines), strict=True)
    assert numbers == tuple(map(str, range(len(lines))))
    return list(target)


def test_each_line_of_a_training_names_its_run(folder: Path) -> None:
    lines = (folder / "stderr.txt").read_text().splitlines()
    validations = [line for line in lines if "valid loss" in line]
    assert {line.partition(": step ")[0] for line in validations} == {"mnli-1", "stsb-1"}
    assert [line for line in lines if "ended by" in line] == [
        f"{run}: ended by train.epochs = 100" for run in ("mnli-1", "stsb-1")
    ]


def test_the_mnli_model_predicts_both_test_sets_and_the_diagnostic_set(folder: Path) -> None:
    assert {path.name for path in (folder / "out").iterdir()} == {"MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv", "STS-B.tsv"}
    model = regard.load(str(folder / "runs/mnli-1"))
    for name, lines in TESTS.items():
        _, first, second = zip(*(line.split("|") for line in lines), strict=True)
        target = answers(folder, name)
        assert target == [verdict.label for verdict in model.classify(first, second)]
        assert len(set(target)) > 1  # otherwise the order could not be checked


def test_similarities_are_submitted_as_numbers_on_the_scale(folder: Path) -> None:
    one, other, _ = zip(*SIMILAR[::-1], strict=True)
    predictions = regard.load(str(folder / "runs/stsb-1")).classify(one, other)
    target = answers(folder, "STS-B")
    assert target == [f"{min(max(verdict.value, 0), 5):.3f}" for verdict in predictions]
    assert len(set(target)) == 3


def test_evaluate_agrees_with_the_table(folder: Path) -> None:
    table = json.loads((folder / "glue.json").read_text())
    for name, model, file in (
        ("stsb", "stsb", "STS-B/dev"),
        ("mnli", "mnli", "MNLI/dev_matched"),
        ("mnli-mm", "mnli", "MNLI/dev_mismatched"),
    ):
        command = ["evaluate", folder / f"runs/{model}-1", f"task={name}", "--data", folder / f"{file}.tsv"]
        found = json.loads(run(*command, "--json"))
        # the order of additions differs with the batches
        expected = {metric: pytest.approx(value["median"], abs=1e-2) for metric, value in table[name].items()}
        assert {metric: found[metric] for metric in expected} == expected
    assert list(table) == ["mnli", "mnli-mm", "stsb", "average"]
    assert table["average"]["tasks"] == ["mnli", "mnli-mm", "stsb"]


def test_a_regression_model_is_evaluated(folder: Path, tmp_path: Path) -> None:
    model = folder / "runs/stsb-1"
    gold = [1.0, 0.5, 4.5, 2.0, 3.0]
    target = [verdict.value for verdict in regard.load(str(model)).classify(TEXTS, ["food"] * 5)]
    rows = [f"{text}|food|{number}" for text, number in zip(TEXTS, gold, strict=True)]
    ranks = [np.argsort(np.argsort(values)) for values in (target, gold)]
    expected = {
        "pearson": 100 * np.corrcoef(target, gold)[0, 1],
        "spearman": 100 * np.corrcoef(*ranks)[0, 1],
        "texts": 5,
        "truncated": 0,
    }
    data = written(tmp_path / "dev.tsv", "sentence1|sentence2|score", *rows)
    columns = ["texts=sentence1,sentence2", "label=score"]
    for question in (["task=stsb"], columns):
        found = json.loads(run("evaluate", model, *question, "--data", data, "--json", "-o", tmp_path / "said"))
        assert found == pytest.approx(expected)
        assert [float(line) for line in (tmp_path / "said").read_text().splitlines()] == pytest.approx(target)
        output = run("evaluate", model, *question, "--data", data)
        assert output.splitlines()[0].split() == ["pearson", f"{expected['pearson']:.1f}"]
    with pytest.raises(
        ValueError, match="the model predicts a number, but the task expects not_entailment, entailment"
    ):
        run("evaluate", model, "task=wnli", "--data", written(tmp_path / "w.tsv", "sentence1|sentence2|label"))


FOUND = {  # by task and seed
    "mrpc": [{"valid_f1": 0.9, "valid_accuracy": 0.7}, {"valid_f1": 0.8, "valid_accuracy": 0.8}],
    "mnli": [{"valid_accuracy": 0.7}, {"valid_accuracy": 0.8}],
    "rte": [{"valid_accuracy": 0.5}, {"valid_accuracy": 0.6}],
}


@pytest.fixture
def results(tmp_path: Path, monkeypatch) -> list[tuple[str, str]]:
    """Results without training; records which run predicts which task."""
    for path in ("MRPC/{}", "MNLI/{}", "RTE/{}", "MNLI/{}_mismatched", "AX/{}"):
        for split in ("train", "dev", "test"):
            written(tmp_path / f"{path.format(split)}.tsv", "")
    submitted: list[tuple[str, str]] = []
    monkeypatch.setattr(Benchmark, "_fine_tune", lambda _, task, __, seed: FOUND[task][seed - 1])
    monkeypatch.setattr(Benchmark, "_evaluate", lambda _, task, __: {"matthews" if task == "ax" else "accuracy": 0.1})
    monkeypatch.setattr(Benchmark, "_submit", lambda _, task, run, __: submitted.append((run.name, task)))
    return submitted


def last_row(table: str) -> list[str]:
    (row,) = (line.split() for line in table.splitlines() if line.startswith("average"))
    return row


@pytest.mark.usefixtures("results")
def test_the_average_is_over_the_tasks_that_were_run(tmp_path: Path) -> None:
    command = ["glue", "any", "--data", tmp_path, "--seeds", 2, "--tasks"]
    # mrpc: medians 85 and 75, so 80; mnli: median 75, and 10 on the other set, so 42.5; rte: median 55; ax: not counted
    found = json.loads(run(*command, "mrpc,mnli,rte", "--json"))
    assert found["average"] == {"score": pytest.approx(177.5 / 3), "tasks": ["mrpc", "mnli", "mnli-mm", "rte"]}
    assert found["ax"]["matthews"]["median"] == pytest.approx(10)
    # the paper of BERT has no accuracy for mrpc; human beings: (83.55 + 92.4 + 93.6) / 3
    table = run(*command, "mrpc,mnli,rte")
    assert last_row(table) == ["average", "3", "of", "9", "59.2", "89.8"]
    assert "over the tasks that were run" in " ".join(table.split())
    # (84.0 + 66.4) / 2 and (86.3 + 70.1) / 2; the rows of tasks themselves stay
    assert last_row(run(*command, "mnli,rte")) == ["average", "2", "of", "9", "48.8", "75.2", "78.2", "93.0"]


def test_the_best_seed_predicts_the_test_set(tmp_path: Path, results) -> None:
    run("glue", "any", "--data", tmp_path, "--seeds", 2, "--tasks", "mrpc,rte", "--submission", tmp_path / "out")
    assert results == [("mrpc-1", "mrpc"), ("rte-2", "rte")]
