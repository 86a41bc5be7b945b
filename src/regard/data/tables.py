"""Tables of texts with labels: TSV without quoting, CSV with quoting, both with a header line; or JSONL."""

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from regard.counts import counted
from regard.data.json_lines import is_json_lines, records
from regard.data.text import lines
from regard.errors import RegardError

MAX_FIELD = 2**31 - 1


class Example(NamedTuple):
    """A text or a pair of texts and its label, which is None in files without labels."""

    text: str
    second: str | None
    label: str | None


def read_table(
    path: Path, texts: Sequence[str], label: str | None, numbers: bool = False, known: Sequence[str] = ()
) -> Iterator[Example]:
    """Reads the examples of a table, plain or gzipped; files named `.csv` are CSV, `.jsonl` JSONL, all others TSV.

    Args:
        texts: names of one or two text columns.
        label: name of the label column; None for a file without labels.
        numbers: labels must be numbers.
        known: the valid labels; if empty, any label is valid.
    """
    unknown: dict[str, int] = {}
    for line, example in (_of_objects if is_json_lines(path) else _of_rows)(path, texts, label):
        if numbers and example.label is not None and not is_number(example.label):
            raise RegardError(f"{path}, line {line}: {example.label!r} is not a number")
        if known and example.label is not None and example.label not in known:
            unknown.setdefault(example.label, line)
        yield example
    if unknown:
        found = ", ".join(f"{label!r} (line {line})" for label, line in unknown.items())
        raise RegardError(f"{path}: unknown labels {found}; valid labels are {_listed(known)}")


def _of_rows(path: Path, texts: Sequence[str], label: str | None) -> Iterator[tuple[int, Example]]:
    table = rows(path)
    columns = Columns.among(next(table).fields, path, texts, label)
    return ((row.line, columns.example(row)) for row in table)


def _of_objects(path: Path, texts: Sequence[str], label: str | None) -> Iterator[tuple[int, Example]]:
    _expect_one_or_two(texts)
    for line, fields in records(path, texts, label):
        values = iter(fields)
        one, other = next(values), next(values) if len(texts) == 2 else None
        yield line, Example(one, other, None if label is None else next(values))


def _expect_one_or_two(texts: Sequence[str]) -> None:
    if len(texts) not in (1, 2):
        raise RegardError(f"{len(texts)} text columns ({_listed(texts)}); give one or two")


def is_number(text: str) -> bool:
    """Whether a text is a finite number."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


class TableRow(NamedTuple):
    """The fields of a row, and the number of its first line."""

    line: int
    fields: list[str]


def rows(path: Path) -> Iterator[TableRow]:
    """All rows of a table; the first is the header."""
    is_csv = path.name.lower().removesuffix(".gz").endswith(".csv")
    row = None
    for row in _csv(path) if is_csv else _tsv(path):
        yield row
    if row is None:
        raise RegardError(f"{path} is empty; its first line must name the columns")


def _tsv(path: Path) -> Iterator[TableRow]:
    # No quoting: as in GLUE, quotes are part of the text, and some are never closed.
    for number, line in enumerate(lines(path), start=1):
        yield TableRow(number, line.split("\t"))


def _csv(path: Path) -> Iterator[TableRow]:
    # a quoted field may contain line breaks
    csv.field_size_limit(MAX_FIELD)  # Python's own limit of 131,072 is less than a long document
    reader = csv.reader((f"{line}\n" for line in lines(path)), strict=True)
    begin = 1
    try:
        for fields in reader:
            yield TableRow(begin, fields or [""])
            begin = reader.line_num + 1
    except csv.Error as error:
        raise RegardError(
            f"{path}, line {begin}: not CSV ({error}); put quotes around a field with commas or quotes, "
            f'and double a quote inside it (""); or save the table as TSV'
        ) from None


@dataclass(frozen=True)
class Columns:
    """The indices of the text and label columns of a table."""

    path: Path
    header: Sequence[str]
    texts: tuple[int, ...]
    label: int | None

    @staticmethod
    def among(header: Sequence[str], path: Path, texts: Sequence[str], label: str | None) -> "Columns":
        """Finds the columns with these names."""
        _expect_one_or_two(texts)
        for name in [*texts, *([] if label is None else [label])]:
            if name not in header:
                raise RegardError(f"{path} has no column {name!r}; its columns are {_listed(header)}")
        places = tuple(header.index(name) for name in texts)
        return Columns(path, header, places, None if label is None else header.index(label))

    def example(self, row: TableRow) -> Example:
        """The example in a row."""
        if len(row.fields) != len(self.header):
            raise RegardError(
                f"{self.path}, line {row.line}: {counted(len(row.fields), 'column')} instead of {len(self.header)} "
                f"({_listed(self.header)}); fix the line or remove it"
            )
        text = row.fields[self.texts[0]]
        second = row.fields[self.texts[1]] if len(self.texts) == 2 else None
        if self.label is None:
            return Example(text, second, None)
        label = row.fields[self.label]
        if not label:
            raise RegardError(
                f"{self.path}, line {row.line}: the column {self.header[self.label]!r} is empty; "
                f"add a label or remove the line"
            )
        return Example(text, second, label)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
