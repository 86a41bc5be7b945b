"""Text files as documents, each a list of consecutive sentences."""

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
HELD_OUT = 50  # one sentence in 50 is held out for validation
LONG = 8  # sentences; of a document this long, only the end is held out; a shorter one may be held out as a whole


@dataclass(frozen=True, kw_only=True)
class DocumentsConfig(Config):
    """Plain text for pre-training."""

    renamed: ClassVar = {"longest": "max_length", "masked": "mask_rate", "short": "short_rate"}
    kind: Literal["documents"] = "documents"
    text: Names
    """Text files, folders of `.txt` files, or patterns such as `books/*.txt`; one or a list."""
    split: Split = "file"
    """Document boundaries. file: each file is one document; blank: blank lines, with a sentence on each line;
    heading: headings such as `= Title =`."""
    max_length: MaxLength = 128
    """Maximum length of an example in tokens, special tokens included."""
    mask_rate: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Masking rate: fraction of the tokens to predict (masked language modelling)."""
    whole_words: bool = False
    """Whole word masking: all subwords of a word are masked together."""
    short_rate: Rate = 0.1
    """Fraction of the examples that are made shorter than the maximum length."""
    next_sentence: bool = True
    """Next sentence prediction: also predict whether the second half of an example follows the first."""

    def paths(self) -> list[Path]:
        """The files, in order."""
        return found(self.text)

    def documents(self, valid: bool) -> Iterator[list[str]]:
        """The training or the validation documents."""
        due = 4.0  # sentences; starts above zero so that a small text also has validation sentences
        for document in chain.from_iterable(documents(path, self.split) for path in self.paths()):
            due += len(document) / HELD_OUT
            limit = max(2, len(document) // HELD_OUT) if len(document) >= LONG else len(document)
            kept = min(int(due), limit) if int(due) >= min(2, limit) else 0
            due -= kept
            middle = len(document) - kept
            if part := document[middle:] if valid else document[:middle]:
                yield part


# the same number of equals signs on both sides
_HEADING = re.compile(r"(=(?: =)*) (?!=).*(?<!=) \1")


def documents(path: Path, split: Split) -> Iterator[list[str]]:
    """Documents of a text file (.txt, .txt.gz), each a list of sentences.

    Args:
        split: document separator. "file": none, each file is one document. "blank": blank lines, with a sentence on
            each line. "heading": lines such as `= Title =`, which belong to no document; `= = Part = =` only ends a
            paragraph.
    """
    text = (line.strip() for line in lines(path))
    if split == "blank":
        yield from _paragraphs(text)
        return
    for article in _articles(text) if split == "heading" else [text]:
        # line breaks in a book depend on the page width, not on the sentences
        paragraphs = (" ".join(paragraph) for paragraph in _paragraphs(article))
        if document := [sentence for paragraph in paragraphs for sentence in split_sentences(paragraph).sentences]:
            yield document


def _paragraphs(text: Iterable[str]) -> Iterator[list[str]]:
    """The lines between blank lines."""
    for is_text, paragraph in groupby(text, bool):
        if is_text:
            yield list(paragraph)


def _articles(text: Iterable[str]) -> Iterator[list[str]]:
    """The lines between titles, with a blank line in place of each subheading."""
    article: list[str] = []
    for line in text:
        heading = _HEADING.fullmatch(line)
        if heading and heading[1] == "=":
            yield article
            article = []
        else:
            article.append("" if heading else line)
    yield article
