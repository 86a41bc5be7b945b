"""Reads words and their tags from IOB files, as for named entities (Tjong Kim Sang and De Meulder 2003).

Each word is a line of columns separated by spaces or tabs: the word first, its tag last. A blank line ends a sentence;
`-DOCSTART-` lines, which separate documents, are skipped. A tag is O, or B- or I- and the type of a span, as in B-PER.
IOB2 begins every span with B-; IOB1 only a span that follows another of the same type. Both are read as IOB2.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from regard.counts import counted
from regard.data.conllu import Sentence
from regard.data.text import lines
from regard.errors import RegardError

DOCUMENT = "-DOCSTART-"
OUTSIDE = "O"
_IOB = re.compile(r"O|[BI](-.+)?")


def sentences(path: Path, column: int | None = None) -> Iterator[Sentence]:
    """The sentences of a file, plain or gzipped.

    Args:
        column: column of the tags, counted from 1; default: the last.
    """
    found = list(_sentences(path, column))
    if not found:
        raise RegardError(f"{path}: contains no words; IOB has one word per line, with its tag in the last column")
    tags = {tag for sentence in found for tag in sentence.tags}
    if not has_spans(tags):
        if any(tag.startswith(("B-", "I-")) for tag in tags):
            other = ", ".join(sorted(tag for tag in tags if not _IOB.fullmatch(tag))[:5])
            raise RegardError(f"{path}: tags of spans are O, B-... and I-...; this file also has {other}")
        return iter(found)
    return (Sentence(sentence.words, to_iob2(sentence.tags)) for sentence in found)


def has_spans(tags: Iterable[str]) -> bool:
    """Whether these tags are those of spans, instead of, for example, parts of speech."""
    distinct = set(tags)
    return all(map(_IOB.fullmatch, distinct)) and distinct > distinct & {OUTSIDE}


def to_iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """Tags in IOB1 or IOB2 as IOB2: the first tag of a span begins with B."""
    result = []
    for before, tag in zip((OUTSIDE, *tags), tags, strict=False):
        begins = tag[:1] == "I" and (before[:1] not in ("B", "I") or before[1:] != tag[1:])
        result.append(f"B{tag[1:]}" if begins else tag)
    return tuple(result)


def _sentences(path: Path, column: int | None) -> Iterator[Sentence]:
    words: list[tuple[str, str]] = []
    width = None
    # the end of the file also ends the last sentence
    for number, line in enumerate(chain(lines(path), [""]), start=1):
        fields = _fields(line)
        if fields and fields[0] != DOCUMENT:
            width = width or len(fields)
            words.append(_word(fields, width, column, where=f"{path}, line {number}"))
        elif words:
            yield Sentence(*zip(*words, strict=True))
            words = []


def _fields(line: str) -> list[str]:
    """The columns of a line; a word may contain any space but these two."""
    stripped = line.strip(" \t")
    return re.split(r" *\t *" if "\t" in stripped else " +", stripped) if stripped else []


def _word(fields: Sequence[str], width: int, column: int | None, where: str) -> tuple[str, str]:
    if len(fields) < 2:
        raise RegardError(f"{where}: no tag after {fields[0][:60]!r}; give the word, a space or tab, and its tag")
    if len(fields) != width:
        raise RegardError(f"{where}: {counted(len(fields), 'column')} instead of {width}; a blank line ends a sentence")
    if column is not None and column > width:
        raise RegardError(f"{where}: there is no column {column}, only {counted(width, 'column')}")
    tag = fields[-1 if column is None else column - 1]
    if not tag:
        raise RegardError(f"{where}: {fields[0]!r} has an empty tag; outside of spans the tag is {OUTSIDE}")
    return fields[0], tag
