"""GLUE's scores, files for its leaderboard, and published results for comparison."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean

from regard.data.glue import SCALE, TASKS, GlueTask
from regard.errors import RegardError
from regard.evaluation import metrics
from regard.folders import write_text

SUBMISSION = {name: f"{task.folder}.tsv" for name, task in TASKS.items()}
"""The name of each task's file for the leaderboard, which expects all of them in one zip archive."""
SUBMISSION |= {"mnli": "MNLI-m.tsv", "mnli-mm": "MNLI-mm.tsv"}

Answers = Sequence[str] | Sequence[float]

_OF_NUMBERS: dict[str, Callable[[Sequence[float], Sequence[float]], float]] = {
    "pearson": metrics.pearson,
    "spearman": metrics.spearman,
}


def scores(task: GlueTask, predicted: Answers, gold: Answers) -> dict[str, float]:
    """All metrics of a task as fractions, the main one first.

    Args:
        predicted: names of labels, or numbers for a regression task.
        gold: the same; numbers may also be strings, as in the files.
    """
    if not task.labels:
        one, other = [float(value) for value in predicted], [float(value) for value in gold]
        return {name: _OF_NUMBERS[name](one, other) for name in task.metrics}
    _check(task, "predicted", predicted)
    _check(task, "gold", gold)
    of_labels: dict[str, Callable[[], float]] = {
        "accuracy": lambda: metrics.accuracy(predicted, gold),
        "f1": lambda: metrics.f1(predicted, gold, task.labels[1]),
        "matthews": lambda: metrics.matthews(predicted, gold),
    }
    return {name: of_labels[name]() for name in task.metrics}


def counted(names: Iterable[str]) -> list[list[str]]:
    """The tasks in GLUE's average, each with its test sets: MNLI is one task with two, and AX does not count."""
    result: dict[str, list[str]] = {}
    for name in names:
        if name != "ax":
            result.setdefault(TASKS[name].folder, []).append(name)
    return list(result.values())


def average(found: Mapping[str, Mapping[str, float]]) -> float:
    """GLUE's score over the given tasks: the mean over tasks of the mean over the metrics of each."""
    return mean(mean(mean(found[name].values()) for name in names) for names in counted(found))


def write_submission(path: Path, task: GlueTask, predicted: Answers) -> None:
    """Writes predictions for a test set in the format of the leaderboard; `SUBMISSION` has the file names."""
    if task.labels:
        _check(task, "predicted", predicted)
        spelled = dict(zip(task.labels, task.spellings or task.labels, strict=True))
        answers = [spelled[str(label)] for label in predicted]
    else:
        numbers = [float(value) for value in predicted]
        answers = [_clipped(i, number) for i, number in enumerate(numbers, start=1)]
    write_text(path, "index\tprediction\n" + "".join(f"{i}\t{answer}\n" for i, answer in enumerate(answers)))


def _check(task: GlueTask, what: str, labels: Answers) -> None:
    for i, label in enumerate(labels, start=1):
        if label not in task.labels:
            raise RegardError(
                f"{what} label {i:,} is {label!r}; the labels of {task.name} are {', '.join(task.labels)}"
            )


def _clipped(place: int, value: float) -> str:
    if value != value:
        raise RegardError(f"predicted number {place:,} is {value}; it cannot be submitted")
    low, high = SCALE
    return f"{min(max(value, low), high):.3f}"


def _published(columns: str, rows: str) -> dict[str, dict[str, dict[str, float]]]:
    """Parses the rows of a printed table: a name, then a number or a dash for each `task.metric`."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    keys = [column.split(".") for column in columns.split()]
    for row in rows.strip().splitlines():
        name, *values = row.replace("/", " ").rsplit(maxsplit=len(keys))
        for (task, metric), value in zip(keys, values, strict=True):
            if value != "-":
                found.setdefault(name, {}).setdefault(task, {})[metric] = float(value)
    return found


REFERENCE = {
    # Devlin et al. 2018, table 1: results on the test sets.
    **_published(
        "mnli.accuracy mnli-mm.accuracy qqp.f1 qnli.accuracy sst2.accuracy cola.matthews stsb.spearman mrpc.f1 "
        "rte.accuracy",
        """
Pre-OpenAI SOTA   80.6/80.1  66.1  82.3  93.2  35.0  81.0  86.0  61.7
BiLSTM+ELMo+Attn  76.4/76.1  64.8  79.8  90.4  36.0  73.3  84.9  56.8
OpenAI GPT        82.1/81.4  70.3  87.4  91.3  45.4  80.0  82.3  56.0
BERT-base         84.6/83.4  71.2  90.5  93.5  52.1  85.8  88.9  66.4
BERT-large        86.7/85.9  72.1  92.7  94.9  60.5  86.5  89.3  70.1
""",
    ),
    # gluebenchmark.com/leaderboard, when human performance was at rank 14.
    **_published(
        "cola.matthews sst2.accuracy mrpc.f1 mrpc.accuracy stsb.pearson stsb.spearman qqp.f1 qqp.accuracy "
        "mnli.accuracy mnli-mm.accuracy qnli.accuracy rte.accuracy wnli.accuracy ax.matthews",
        """
MacALBERT + DKM                  74.8  97.0  94.5/92.6  92.8/92.6  74.7/90.6  91.3  91.1  97.8  92.0  94.5  52.6
StructBERT + TAPT                75.3  97.3  93.9/91.9  93.2/92.7  74.8/91.0  90.9  90.7  97.4  91.2  94.5  49.1
ALBERT + DAAF + NAS              73.5  97.2  94.0/92.0  93.0/92.4  76.1/91.0  91.6  91.3  97.5  91.7  94.5  51.2
ERNIE                            74.4  97.5  93.5/91.4  93.0/92.6  75.2/90.9  91.4  91.0  96.6  90.9  94.5  51.7
T5                               71.6  97.5  92.8/90.4  93.1/92.8  75.1/90.6  92.2  91.9  96.9  92.8  94.5  53.1
MT-DNN-SMART                     69.5  97.5  93.7/91.6  92.9/92.5  73.9/90.2  91.0  90.8  99.2  89.7  94.5  50.2
Funnel-Transformer (Ensemble)    70.5  97.5  93.4/91.2  92.6/92.3  75.4/90.7  91.4  91.1  95.8  90.0  94.5  51.6
ELECTRA-Large + Standard Tricks  71.7  97.1  93.1/90.7  92.9/92.5  75.6/90.8  91.3  90.8  95.8  89.8  91.8  50.7
NEZHA-Large                      69.9  97.3  93.3/91.0  92.4/91.9  74.2/90.6  91.0  90.7  95.7  88.7  93.2  47.9
FreeLB-RoBERTa (ensemble)        68.0  96.8  93.1/90.8  92.3/92.1  74.8/90.3  91.1  90.7  95.6  88.7  89.0  50.1
HIRE-RoBERTa                     68.6  97.1  93.0/90.7  92.4/92.0  74.3/90.2  90.7  90.4  95.5  87.9  89.0  49.3
RoBERTa                          67.8  96.7  92.3/89.8  92.2/91.9  74.3/90.2  90.8  90.2  95.4  88.2  89.0  48.7
MT-DNN-ensemble                  68.4  96.5  92.7/90.3  91.1/90.7  73.7/89.9  87.9  87.4  96.0  86.3  89.0  42.8
Human                            66.4  97.8  86.3/80.8  92.7/92.6  59.5/80.4  92.0  92.8  91.2  93.6  95.9  -
Snorkel MeTaL                    63.8  96.2  91.5/88.5  90.1/89.7  73.1/89.9  87.6  87.2  93.9  80.9  65.1  39.9
""",
    ),
}
"""Published results on the test sets by system, task and metric, in percent as published."""
