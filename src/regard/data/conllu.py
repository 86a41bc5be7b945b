"""Reads words and their parts of speech from CoNLL-U, the format of Universal Dependencies.

Each word is a line of ten tab-separated columns, a blank line ends a sentence, and `#` starts a comment.
"""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

from regard.counts import counted
from regard.data.text import lines
from regard.errors import RegardError

Column = Literal["upos", "xpos"]
COLUMN_COUNT = 10
COLUMN_INDEX = {"upos": 3, "xpos": 4}
EMPTY_FIELD = "_"


class Sentence(NamedTuple):
    """Words, and the tag of each."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


def sentences(path: Path, column: Column = "upos") -> Iterator[Sentence]:
    """The sentences of a file, plain or gzipped, with universal tags (`upos`) or the treebank's own (`xpos`)."""
    words: list[tuple[str, str]] = []
    is_empty = True
    # the end of the file also ends the last sentence
    for number, line in enumerate(chain(lines(path), [""]), start=1):
        if line and not line.startswith("#"):
            words += _words(line, len(words) + 1, column, where=f"{path}, line {number}")
        elif not line and words:
            yield Sentence(tuple(word for word, _ in words), tuple(tag for _, tag in words))
            words, is_empty = [], False
    if is_empty:
        raise RegardError(
            f"{path}: contains no words; CoNLL-U has one word per line, in {COLUMN_COUNT} tab-separated columns"
        )


def _words(line: str, place: int, column: Column, where: str) -> Iterator[tuple[str, str]]:
    """The word of a line and its tag, if the line is a word; `place` is the expected word number."""
    fields = line.split("\t")
    if len(fields) != COLUMN_COUNT:
        raise RegardError(
            f"{where}: {counted(len(fields), 'column')} in {line[:60]!r}; "
            f"CoNLL-U has {COLUMN_COUNT}, separated by tabs "
            f"(for IOB files, set data.kind=iob, or kind=iob in an evaluation)"
        )
    number, word, tag = fields[0], fields[1], fields[COLUMN_INDEX[column]]
    # 3-4 is the surface form of words 3 and 4 (multiword token), 2.1 an omitted word after the second (empty node)
    if number.startswith((f"{place}-", f"{place - 1}.")):
        return
    if number != str(place):
        raise RegardError(
            f"{where}: word number is {number!r}, expected {place}; "
            f"words are counted from 1, and a blank line ends a sentence"
        )
    if not word:
        raise RegardError(f"{where}: word {number} is empty; write {EMPTY_FIELD} for an empty field")
    if tag in ("", EMPTY_FIELD):
        other = next(name for name in COLUMN_INDEX if name != column)
        raise RegardError(f"{where}: {word!r} has no {column}; give a file with tags, or choose column {other!r}")
    yield word, tag
