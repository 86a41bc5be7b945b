import math
from pathlib import Path
from statistics import mean

import pytest

from regard.data.glue import TASKS
from regard.evaluation.glue import REFERENCE, SUBMISSION, average, counted, scores, write_submission


@pytest.mark.parametrize("name", TASKS)
def test_correct_predictions_have_the_best_score_in_every_metric(name) -> None:
    task = TASKS[name]
    gold = list(task.labels) or ["0.5", "3.800", "5"]
    found = scores(task, gold, gold)
    assert tuple(found) == task.metrics
    assert list(found.values()) == pytest.approx([1.0] * len(found))


def test_the_positive_label_of_f1_is_paraphrase() -> None:
    task = TASKS["mrpc"]
    predicted = ["equivalent", "equivalent", "not_equivalent", "not_equivalent"]
    gold = ["equivalent", "not_equivalent", "not_equivalent", "not_equivalent"]
    assert scores(task, predicted, gold) == pytest.approx({"f1": 2 / 3, "accuracy": 3 / 4})


def test_numbers_are_scored_as_numbers() -> None:
    # as strings, 10 would sort before 9
    assert scores(TASKS["stsb"], [1.0, 2.0, 3.0], ["8", "9", "10"]) == pytest.approx({"pearson": 1, "spearman": 1})


def test_an_unknown_label_is_reported_with_its_index() -> None:
    with pytest.raises(ValueError, match="predicted label 2 is 'fine'; the labels of sst2 are negative, positive"):
        scores(TASKS["sst2"], ["positive", "fine"], ["positive", "negative"])
    with pytest.raises(ValueError, match="gold label 1 is '1'"):
        scores(TASKS["sst2"], ["positive"], ["1"])


@pytest.mark.parametrize(
    ("name", "predicted", "answers"),
    [
        ("cola", ["acceptable", "unacceptable"], ["1", "0"]),
        ("sst2", ["negative", "positive"], ["0", "1"]),
        ("mrpc", ["equivalent", "not_equivalent"], ["1", "0"]),
        ("qqp", ["duplicate", "not_duplicate"], ["1", "0"]),
        ("stsb", [-0.2, 2.34567, 7], ["0.000", "2.346", "5.000"]),
        ("mnli", ["neutral", "contradiction", "entailment"], ["neutral", "contradiction", "entailment"]),
        ("mnli-mm", ["contradiction", "neutral"], ["contradiction", "neutral"]),
        ("qnli", ["not_entailment", "entailment"], ["not_entailment", "entailment"]),
        ("rte", ["entailment", "not_entailment"], ["entailment", "not_entailment"]),
        ("wnli", ["not_entailment", "entailment"], ["0", "1"]),
        ("ax", ["neutral", "contradiction"], ["neutral", "contradiction"]),
    ],
)
def test_a_submission_has_the_format_of_the_leaderboard(tmp_path: Path, name, predicted, answers) -> None:
    path = tmp_path / SUBMISSION[name]
    write_submission(path, TASKS[name], predicted)
    lines = ["index\tprediction", *(f"{i}\t{answer}" for i, answer in enumerate(answers))]
    assert path.read_bytes().decode() == "\n".join(lines) + "\n"
    assert list(tmp_path.iterdir()) == [path]


def test_a_submission_with_invalid_predictions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="predicted label 1 is '1'"):
        write_submission(tmp_path / "a.tsv", TASKS["sst2"], ["1"])
    with pytest.raises(ValueError, match="predicted number 2 is nan"):
        write_submission(tmp_path / "a.tsv", TASKS["stsb"], [1.0, math.nan])
    assert not list(tmp_path.iterdir())


def test_the_leaderboard_expects_eleven_files() -> None:
    names = "CoLA SST-2 MRPC QQP STS-B MNLI-m MNLI-mm QNLI RTE WNLI AX"
    assert list(SUBMISSION.values()) == [f"{name}.tsv" for name in names.split()]
    assert list(SUBMISSION) == list(TASKS)


def test_published_results_are_of_known_tasks_and_metrics() -> None:
    for row in REFERENCE.values():
        for name, values in row.items():
            assert set(values) <= set(TASKS[name].metrics)
    assert REFERENCE["BERT-base"]["mnli"] == {"accuracy": 84.6}
    assert REFERENCE["Human"]["mrpc"] == {"f1": 86.3, "accuracy": 80.8}
    assert "ax" not in REFERENCE["Human"]


@pytest.mark.parametrize(
    ("name", "average"),
    [
        ("Pre-OpenAI SOTA", 74.0),
        ("BiLSTM+ELMo+Attn", 71.0),
        ("OpenAI GPT", 75.1),
        ("BERT-base", 79.6),
        ("BERT-large", 82.1),
    ],
)
def test_rows_of_the_paper_have_their_published_average(name, average) -> None:
    values = [value for task in REFERENCE[name].values() for value in task.values()]
    # one of the five was printed a tenth too high
    assert mean(values) == pytest.approx(average, abs=0.06)


@pytest.mark.parametrize(
    ("name", "score"),
    [
        ("MacALBERT + DKM", 90.7),
        ("StructBERT + TAPT", 90.6),
        ("ALBERT + DAAF + NAS", 90.6),
        ("ERNIE", 90.4),
        ("T5", 90.3),
        ("MT-DNN-SMART", 89.9),
        ("Funnel-Transformer (Ensemble)", 89.7),
        ("ELECTRA-Large + Standard Tricks", 89.4),
        ("NEZHA-Large", 89.1),
        ("FreeLB-RoBERTa (ensemble)", 88.4),
        ("HIRE-RoBERTa", 88.3),
        ("RoBERTa", 88.1),
        ("MT-DNN-ensemble", 87.6),
        ("Human", 87.1),
        ("Snorkel MeTaL", 83.2),
    ],
)
def test_rows_of_the_leaderboard_have_their_published_score(name, score) -> None:
    assert len(counted(REFERENCE[name])) == 9
    assert average(REFERENCE[name]) == pytest.approx(score, abs=0.051)


def test_the_average_is_over_the_given_tasks() -> None:
    found = {
        "mrpc": {"f1": 90.0, "accuracy": 80.0},  # 85
        "mnli": {"accuracy": 70.0},
        "mnli-mm": {"accuracy": 72.0},  # both 71
        "ax": {"matthews": 0.0},
        "rte": {"accuracy": 60.0},
    }
    assert average(found) == pytest.approx(72)  # (85 + 71 + 60) / 3
    assert counted(found) == [["mrpc"], ["mnli", "mnli-mm"], ["rte"]]
    assert average({"mnli": found["mnli"], "rte": found["rte"]}) == 65
