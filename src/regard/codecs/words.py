"""The words of a tagger as three feature ids each, so that unseen words are still informative."""

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from regard.codecs.interface import CodecConfig, CodecExamples, Say
from regard.config import Config, Positive, Problem, parse
from regard.errors import RegardError
from regard.models.rnn_tagger import UNKNOWN

ENDING = 3


@dataclass(frozen=True, kw_only=True)
class Words(Config):
    """The vocabularies of the features of a word. In each, 0 is padding and 1 is unknown."""

    slot: ClassVar = "tokenizer"
    kind: Literal["words"] = "words"
    words: tuple[str, ...]
    """In lower case."""
    endings: tuple[str, ...]
    """The last three characters."""
    shapes: tuple[str, ...]
    """Word shapes; see `shape`."""

    def problems(self) -> Iterator[Problem]:
        """Duplicates in the vocabularies."""
        for name in ("words", "endings", "shapes"):
            counts = Counter[str](getattr(self, name))
            yield from (Problem(name, f"{text!r} occurs {n} times") for text, n in counts.items() if n > 1)

    @classmethod
    def learn(cls, sentences: Iterable[Sequence[str]], min_count: int = 2) -> "Words":
        """Keeps features that occur at least `min_count` times, the most frequent first.

        Rarer features are unknown in training too, so that the model learns to handle unknown features.
        """
        counts: tuple[Counter[str], ...] = (Counter(), Counter(), Counter())
        for word, times in Counter(chain.from_iterable(sentences)).items():
            for counter, feature in zip(counts, features(word), strict=True):
                counter[feature] += times
        words, endings, shapes = (
            tuple(
                sorted(
                    (text for text in counter if counter[text] >= min_count), key=lambda text: (-counter[text], text)
                )
            )
            for counter in counts
        )
        return cls(words=words, endings=endings, shapes=shapes)

    @classmethod
    def load(cls, path: Path) -> "Words":
        """Reads a file written by `save`."""
        try:
            data = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise RegardError(f"{path}: not the vocabulary of a tagger ({error})") from None
        return parse(cls, data, source=str(path))

    def save(self, path: Path) -> None:
        """Writes the vocabularies as one JSON file."""
        path.write_text(self.to_json(), "utf-8")

    def sizes(self) -> dict[str, tuple[int, ...]]:
        """The vocabulary size of each feature, padding and unknown included."""
        return {"sizes": tuple(UNKNOWN + 1 + len(numbers) for numbers in self._numbers)}

    def encode(self, sentences: Sequence[Sequence[str]]) -> list[npt.NDArray[np.int64]]:
        """The feature ids of each sentence, one row per word."""
        return [
            np.array([self._encode(word) for word in sentence], np.int64).reshape(-1, len(self._numbers))
            for sentence in sentences
        ]

    def _encode(self, word: str) -> list[int]:
        return [numbers.get(feature, UNKNOWN) for numbers, feature in zip(self._numbers, features(word), strict=True)]

    @cached_property
    def _numbers(self) -> tuple[dict[str, int], ...]:
        return tuple(
            {text: number for number, text in enumerate(vocabulary, start=UNKNOWN + 1)}
            for vocabulary in (self.words, self.endings, self.shapes)
        )


def features(word: str) -> tuple[str, str, str]:
    """A word in lower case, its ending, and its shape."""
    word = unicodedata.normalize("NFC", word)  # so that é is one character, however it was typed
    small = word.lower()
    return small, small[-ENDING:], shape(word)


def shape(word: str) -> str:
    """The shape of a word; the first match of: digit, hyphen (inside), small, First, ALL, sign, other."""
    if any(letter.isdigit() for letter in word):
        return "digit"
    if "-" in word.strip("-"):
        return "hyphen"
    if word.islower():
        return "small"
    if word[:1].isupper() and word[1:] == word[1:].lower():
        return "First"
    if word.isupper():
        return "ALL"
    return "other" if any(letter.isalnum() for letter in word) else "sign"


@dataclass(frozen=True, kw_only=True)
class WordsConfig(CodecConfig):
    """Whole words with features, for a tagger."""

    renamed: ClassVar = {"least": "min_count"}
    codec: ClassVar = Words
    is_known: ClassVar = False
    kind: Literal["words"] = "words"
    min_count: Positive = 2
    """Minimum count: words that occur less often in the training data are unknown."""

    def expected(self) -> dict[str, Any]:
        """At least padding and unknown for each of the three features."""
        return {"sizes": [UNKNOWN + 1] * 3}

    def learn(self, examples: CodecExamples, _say: Say) -> Words:
        """Learns the vocabularies from sentences."""
        return Words.learn(examples.train(), self.min_count)

    @classmethod
    def of(cls, _codecs: Sequence[Any]) -> Self:
        """The default config, because `min_count` is not stored."""
        return cls()
