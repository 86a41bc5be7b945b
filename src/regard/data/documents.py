"""Text files as documents, each a list of sentences in their order."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from regard.config import Config, Rate
from regard.data.sentences import split as split_sentences
from regard.data.sequences import Longest
from regard.data.text import Names, found, lines

Split = Literal["file", "blank", "heading"]
HELD_OUT = 50  # one sentence in so many is kept to validate with
LONG = 8  # sentences from which on a document gives its end only; a shorter one may be kept whole


@dataclass(frozen=True, kw_only=True)
class DocumentsConfig(Config):
    """Text of any kind, to pre-train on."""

    kind: Literal["documents"] = "documents"
    text: Names
    """Files, folders of `.txt` files, or patterns such as `books/*.txt`; one or a list."""
    split: Split = "file"
    """What parts documents: files; blank lines, with a sentence on each line; or headings such as `= Title =`."""
    longest: Longest = 128
    """The tokens of an example, marks included."""
    masked: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """The share of tokens that are asked for."""
    whole_words: bool = False
    """The pieces of a word are asked for all together or not at all."""
    short: Rate = 0.1
    """The share of examples that are shorter than they could be."""
    next_sentence: bool = True
    """Also ask whether the second half of an example follows the first."""

    def paths(self) -> list[Path]:
        """The files, in order."""
        return found(self.text)

    def documents(self, valid: bool) -> Iterator[list[str]]:
        """What to train on, or what is kept to validate with."""
        due = 4.0  # sentences; more than none at first, so that a small text has some, too
        for document in chain.from_iterable(documents(path, self.split) for path in self.paths()):
            due += len(document) / HELD_OUT
            most = max(2, len(document) // HELD_OUT) if len(document) >= LONG else len(document)
            kept = min(int(due), most) if int(due) >= min(2, most) else 0
            due -= kept
            middle = len(document) - kept
            if part := document[middle:] if valid else document[:middle]:
                yield part


# as many signs on the one side as on the other
_HEADING = re.compile(r"(=(?: =)*) (?!=).*(?<!=) \1")


def documents(path: Path, split: Split) -> Iterator[list[str]]:
    """Documents of a text file (.txt, .txt.gz), each a list of sentences.

    Args:
        split: what parts documents. "file": nothing, the file is one. "blank": blank lines, and each line is a
            sentence. "heading": lines such as `= Title =`, which belong to no document; `= = Part = =` only ends a
            paragraph.
    """
    text = (line.strip() for line in lines(path))
    if split == "blank":
        yield from _paragraphs(text)
        return
    for article in _articles(text) if split == "heading" else [text]:
        # the lines of a book end where the page did, not where a sentence does
        paragraphs = (" ".join(paragraph) for paragraph in _paragraphs(article))
        if document := [sentence for paragraph in paragraphs for sentence in split_sentences(paragraph).sentences]:
            yield document


def _paragraphs(text: Iterable[str]) -> Iterator[list[str]]:
    """The lines between blank lines."""
    for is_text, paragraph in groupby(text, bool):
        if is_text:
            yield list(paragraph)


def _articles(text: Iterable[str]) -> Iterator[list[str]]:
    """The lines between titles, with a blank line for each heading of a part."""
    article: list[str] = []
    for line in text:
        heading = _HEADING.fullmatch(line)
        if heading and heading[1] == "=":
            yield article
            article = []
        else:
            article.append("" if heading else line)
    yield article
