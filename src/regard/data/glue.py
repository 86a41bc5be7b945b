"""The tasks of GLUE (Wang et al. 2018): their labels, metrics and files, and how to read these.

Files are read in GLUE's own format, in which each task has its own columns, or as plain tables with the columns
`sentence`, or `sentence1` and `sentence2`, and `label`. Some files spell labels 0 and 1; here every label has a name,
and its position in `GlueTask.labels` is its index. Names and indices are those of Hugging Face's copy of GLUE, so they
are compatible with models that were fine-tuned with other toolkits.
"""

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from regard.counts import counted
from regard.data.tables import Columns, Example, TableRow, rows
from regard.errors import RegardError

SCALE = (0.0, 5.0)  # of STS-B: from unrelated to the same meaning


@dataclass(frozen=True, kw_only=True)
class GlueTask:
    """One task on single texts or pairs: its columns, labels, metrics and files."""

    name: str
    folder: str
    other_folders: tuple[str, ...] = ()
    """Other names of the folder."""
    texts: tuple[str, ...]
    """The text column or columns in GLUE's own files."""
    label: str = "label"
    """The label column in GLUE's own files."""
    labels: tuple[str, ...]
    """In the order of their indices; F1 is of the second one. Empty for regression: targets are numbers in `SCALE`."""
    spellings: tuple[str, ...] = ()
    """The labels as spelled in the files and on the leaderboard, in the same order, if they differ from the names."""
    metrics: tuple[str, ...]
    """The first one is used for model selection."""
    train: tuple[str, ...] = ("train",)
    """Possible file names without `.tsv`; the first one that exists is used. Empty: there is no such split."""
    dev: tuple[str, ...] = ("dev",)
    test: tuple[str, ...] = ("test",)
    headerless_columns: tuple[str, ...] = ()
    """The columns of files without a header."""
    has_broken_lines: bool = False
    """Whether some labelled lines are broken in two; lines with too few columns are skipped, with a warning."""


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
            headerless_columns=("source", "label", "mark", "sentence"),
        ),
        GlueTask(
            name="sst2",
            folder="SST-2",
            texts=("sentence",),
            labels=("negative", "positive"),
            spellings=BINARY,
            metrics=("accuracy",),
        ),
        # Not `msr_paraphrase_train.txt`, the original corpus: it contains the examples of GLUE's dev.tsv.
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
            has_broken_lines=True,
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
        # No plain dev.tsv: mnli already reads it, and the same scores would look like a second result.
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
        # The diagnostic set, for models fine-tuned on MNLI.
        GlueTask(
            name="ax",
            folder="AX",
            other_folders=("diagnostic",),  # used by the GLUE download script
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


def table_task(texts: Sequence[str], label: str, labels: Sequence[str]) -> GlueTask:
    """A task like GLUE's for a custom table; without labels, it is a regression."""
    metrics = ("accuracy",) if labels else ("pearson", "spearman")
    return GlueTask(name="table", folder="", texts=tuple(texts), label=label, labels=tuple(labels), metrics=metrics)


def find(folder: Path, task: GlueTask, split: str) -> Path:
    """The file of a task's "train", "dev" or "test" split in a folder with a subfolder for each task."""
    sets = {"train": task.train, "dev": task.dev, "test": task.test}
    splits = {name: names for name, names in sets.items() if names}
    if split not in splits:
        raise RegardError(f"{task.name} has no split {split!r}; it has {', '.join(splits)}")
    folders = [folder / name for name in (task.folder, *task.other_folders)]
    files = [f"{name}{suffix}" for name in splits[split] for suffix in (".tsv", ".tsv.gz")]
    places = [place / file for place in folders for file in files]
    for place in places:
        if place.is_file():
            return place
    raise RegardError(f"{folder}: no {split} file of {task.name}; looked for {', '.join(map(str, places))}")


def read(
    task: GlueTask, path: Path, *, labelled: bool = True, warn: Callable[[str], object] = warnings.warn
) -> Iterator[Example]:
    """The examples of a file with their label names; without labels, in the order required for a submission."""
    table = rows(path)
    first = next(table)
    header = first.fields
    if len(header) == len(task.headerless_columns) and not set(task.texts) <= set(header):
        header, table = list(task.headerless_columns), chain([first], table)
    columns = _columns(task, path, header, labelled)
    skipped: list[int] = []
    for row in table:
        # not in a test set, where every line needs a prediction
        if task.has_broken_lines and labelled and len(row.fields) < len(header):
            skipped.append(row.line)
            continue
        example = columns.example(row)
        yield example if example.label is None else example._replace(label=_name(task, path, row, example.label))
    if skipped:
        warn(f"{path}: skipped {counted(len(skipped), 'line')} with too few columns, the first is line {skipped[0]:,}")


def _columns(task: GlueTask, path: Path, header: list[str], labelled: bool) -> Columns:
    plain = ("sentence",) if len(task.texts) == 1 else PAIR
    for texts, label in ((task.texts, task.label), (plain, "label")):
        if {*texts, label} <= {*header, *(() if labelled else (label,))}:
            break
    return Columns.among(header, path, texts, label if labelled else None)


def _name(task: GlueTask, path: Path, row: TableRow, label: str) -> str:
    """The name of a label; for regression, the number itself."""
    if not task.labels:
        low, high = SCALE
        if not low <= _number(label) <= high:
            raise RegardError(f"{path}, line {row.line}: {label!r} is not a number from {low:g} to {high:g}")
        return label
    spellings = task.spellings or task.labels
    if label not in spellings:
        raise RegardError(f"{path}, line {row.line}: unknown label {label!r}; {task.name} has {', '.join(spellings)}")
    return task.labels[spellings.index(label)]


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
