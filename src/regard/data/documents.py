"""Text files as documents, each a list of sentences in their order."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from regard.config import Config, Rate
from regard.data.sentences import split as split_sentences
from regard.data.sequences import MaxLength
from regard.data.text import Names, found, lines

Split = Literal["file", "blank", "heading"]
HELD_OUT = 50  # one sentence in so many is kept to validate with
LONG = 8  # sentences from which on a document gives its end only; a shorter one may be kept whole


@dataclass(frozen=True, kw_only=True)
class DocumentsConfig(Config):
    """Text of any kind, to pre-train on."""

    renamed: ClassVar = {"longest": "max_length", "masked": "mask_rate", "short": "short_rate"}
    kind: Literal["documents"] = "documents"
    text: Names
    """Text files, folders of `.txt` files, or patterns such as `books/*.txt`; one or a list."""
    split: Split = "file"
    """Document boundaries: each file is one document; blank lines, with a sentence on each line; or headings such as `=
    Title =`."""
    max_length: MaxLength = 128
    """Maximum length of an example in tokens, special tokens included."""
    mask_rate: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Masking rate: share of the tokens that are to be predicted (masked language modelling)."""
    whole_words: bool = False
    """Whole word masking: all pieces of a word are masked together."""
    short_rate: Rate = 0.1
    """Share of the examples that are made shorter than the maximum length."""
    next_sentence: bool = True
    """Next sentence prediction: also predict whether the second half of an example follows the first."""

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
