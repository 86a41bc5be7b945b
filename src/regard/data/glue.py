"""The tasks of GLUE (Wang et al. 2018): what each asks, where its files are, and how to read them.

Files are read as GLUE gives them, each task with columns of its own, or as plain tables with the columns `sentence`, or
`sentence1` and `sentence2`, and `label`. Some files spell labels 0 and 1; here every label has a name, and its place in
`GlueTask.labels` is its number. Names and numbers are those of Hugging Face's copy of GLUE, so that models tuned
elsewhere mean the same by them.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from regard.data.tables import Columns, Example, TableRow, rows
from regard.errors import RegardError

SCALE = (0.0, 5.0)  # of STS-B: from nothing in common to the same meaning


@dataclass(frozen=True, kw_only=True)
class GlueTask:
    """One task: a question about a text or about two, the files that ask it, and what counts as a good answer."""

    name: str
    folder: str
    elsewhere: tuple[str, ...] = ()
    """Other names that the folder goes by."""
    texts: tuple[str, ...]
    """The column of the text, or of both, in GLUE's own files."""
    label: str = "label"
    """The column of the label in GLUE's own files."""
    labels: tuple[str, ...]
    """In the order of their numbers; F1 is about the second. None at all: a number in `SCALE` is asked for."""
    spellings: tuple[str, ...] = ()
    """The labels as files and leaderboard spell them, in the same order, where they do not use the names."""
    metrics: tuple[str, ...]
    """The first decides which of two models is better."""
    train: tuple[str, ...] = ("train",)
    """Names of the file, without `.tsv`; the first that is there counts. None at all: there is no such set."""
    dev: tuple[str, ...] = ("dev",)
    test: tuple[str, ...] = ("test",)
    bare: tuple[str, ...] = ()
    """The columns of files whose first line does not name them."""
    torn: bool = False
    """Some labelled lines were broken in two: those with too few columns are left out, and their number is told."""


PAIR = ("sentence1", "sentence2")
ENTAILMENT = ("entailment", "neutral", "contradiction")
BINARY = ("0", "1")

TASKS = {
    task.name: task
    for task in (
        GlueTask(
            name="cola",
            folder="CoLA",
            texts=("sentence",),
            labels=("unacceptable", "acceptable"),
            spellings=BINARY,
            metrics=("matthews",),
            bare=("source", "label", "mark", "sentence"),
        ),
        GlueTask(
            name="sst2",
            folder="SST-2",
            texts=("sentence",),
            labels=("negative", "positive"),
            spellings=BINARY,
            metrics=("accuracy",),
        ),
        # Not `msr_paraphrase_train.txt`, the corpus before GLUE: it has the examples of GLUE's dev.tsv in it.
        GlueTask(
            name="mrpc",
            folder="MRPC",
            texts=("#1 String", "#2 String"),
            label="Quality",
            labels=("not_equivalent", "equivalent"),
            spellings=BINARY,
            metrics=("f1", "accuracy"),
        ),
        GlueTask(
            name="qqp",
            folder="QQP",
            texts=("question1", "question2"),
            label="is_duplicate",
            labels=("not_duplicate", "duplicate"),
            spellings=BINARY,
            metrics=("f1", "accuracy"),
            torn=True,
        ),
        GlueTask(
            name="stsb",
            folder="STS-B",
            texts=PAIR,
            label="score",
            labels=(),
            metrics=("pearson", "spearman"),
        ),
        GlueTask(
            name="mnli",
            folder="MNLI",
            texts=PAIR,
            label="gold_label",
            labels=ENTAILMENT,
            metrics=("accuracy",),
            dev=("dev_matched", "dev"),
            test=("test_matched", "test"),
        ),
        # No plain dev.tsv: the same sentences scored twice would pass for a second result.
        GlueTask(
            name="mnli-mm",
            folder="MNLI",
            texts=PAIR,
            label="gold_label",
            labels=ENTAILMENT,
            metrics=("accuracy",),
            dev=("dev_mismatched",),
            test=("test_mismatched",),
        ),
        GlueTask(
            name="qnli",
            folder="QNLI",
            texts=("question", "sentence"),
            labels=("entailment", "not_entailment"),
            metrics=("accuracy",),
        ),
        GlueTask(
            name="rte",
            folder="RTE",
            texts=PAIR,
            labels=("entailment", "not_entailment"),
            metrics=("accuracy",),
        ),
        GlueTask(
            name="wnli",
            folder="WNLI",
            texts=PAIR,
            labels=("not_entailment", "entailment"),
            spellings=BINARY,
            metrics=("accuracy",),
        ),
        # The diagnostic set, which a model tuned on MNLI answers.
        GlueTask(
            name="ax",
            folder="AX",
            elsewhere=("diagnostic",),  # where the script that downloads GLUE puts it
            texts=("Premise", "Hypothesis"),
            label="Label",
            labels=ENTAILMENT,
            metrics=("matthews",),
            train=(),
            dev=("diagnostic-full", "dev"),
            test=("AX", "diagnostic", "test"),
        ),
    )
}


def own_question(texts: Sequence[str], label: str, labels: Sequence[str]) -> GlueTask:
    """A question like GLUE's about a table of one's own; without labels, a number is asked for."""
    metrics = ("accuracy",) if labels else ("pearson", "spearman")
    return GlueTask(name="table", folder="", texts=tuple(texts), label=label, labels=tuple(labels), metrics=metrics)


def find(folder: Path, task: GlueTask, split: str) -> Path:
    """The file of a task's "train", "dev" or "test" set in a folder that holds a folder for each task."""
    sets = {"train": task.train, "dev": task.dev, "test": task.test}
    splits = {name: names for name, names in sets.items() if names}
    if split not in splits:
        raise RegardError(f"{task.name} has no split {split!r}; it has {', '.join(splits)}")
    folders = [folder / name for name in (task.folder, *task.elsewhere)]
    files = [f"{name}{suffix}" for name in splits[split] for suffix in (".tsv", ".tsv.gz")]
    places = [place / file for place in folders for file in files]
    for place in places:
        if place.is_file():
            return place
    raise RegardError(f"{task.name}: no {split} set; looked for {', '.join(map(str, places))}")


def read(
    task: GlueTask, path: Path, *, labelled: bool = True, warn: Callable[[str], object] = warnings.warn
) -> Iterator[Example]:
    """The examples of a file with the names of their labels; without labels, in the order a submission must have."""
    table = rows(path)
    first = next(table)
    header = first.fields
    if len(header) == len(task.bare) and not set(task.texts) <= set(header):
        header, table = list(task.bare), chain([first], table)
    columns = _columns(task, path, header, labelled)
    torn: list[int] = []
    for row in table:
        # never in a test set, where each line must be answered in its place
        if task.torn and labelled and len(row.fields) < len(header):
            torn.append(row.line)
            continue
        example = columns.example(row)
        yield example if example.label is None else example._replace(label=_name(task, path, row, example.label))
    if torn:
        warn(f"{path}: {len(torn):,} lines with too few columns are left out, the first of them line {torn[0]:,}")


def _columns(task: GlueTask, path: Path, header: list[str], labelled: bool) -> Columns:
    plain = ("sentence",) if len(task.texts) == 1 else PAIR
    for texts, label in ((task.texts, task.label), (plain, "label")):
        if {*texts, label} <= {*header, *(() if labelled else (label,))}:
            break
    return Columns.among(header, path, texts, label if labelled else None)


def _name(task: GlueTask, path: Path, row: TableRow, label: str) -> str:
    """The name of a label; a number is its own."""
    if not task.labels:
        low, high = SCALE
        if not low <= _number(label) <= high:
            raise RegardError(f"{path}, line {row.line}: {label!r} is no number from {low:g} to {high:g}")
        return label
    spellings = task.spellings or task.labels
    if label not in spellings:
        raise RegardError(f"{path}, line {row.line}: unknown label {label!r}; {task.name} knows {', '.join(spellings)}")
    return task.labels[spellings.index(label)]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
