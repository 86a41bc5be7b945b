"""Evaluation of taggers: accuracy, and precision, recall and F1 of each tag."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TypedDict

from regard.counts import counted
from regard.errors import RegardError


@dataclass(frozen=True)
class TagScore:
    """Scores of one tag, or of spans of one type, as fractions; 0 where the denominator is 0."""

    precision: float
    """Fraction of the words predicted with this tag that have it."""
    recall: float
    """Fraction of the words with this tag that were predicted with it."""
    f1: float
    count: int
    """Number of words with this tag."""

    @classmethod
    def of(cls, hits: int, predicted: int, count: int) -> "TagScore":
        """The scores, given the number of correct predictions, of predictions, and of words or spans to find."""
        # the harmonic mean of precision and recall, without dividing by them
        return cls(_ratio(hits, predicted), _ratio(hits, count), _ratio(2 * hits, predicted + count), count)


class TaggingScores(TypedDict):
    """Scores of tagged sentences, as fractions."""

    accuracy: float
    """Fraction of words with the correct tag."""
    macro_f1: float
    """The unweighted mean over all tags that occur in the gold or the predicted tags."""
    tags: dict[str, TagScore]


def scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> TaggingScores:
    """All scores of the predicted tags of sentences."""
    check(gold, predicted)
    pairs = Counter(zip(chain.from_iterable(gold), chain.from_iterable(predicted), strict=True))
    tags = {tag: _score(tag, pairs) for tag in sorted(set(chain.from_iterable(pairs)))}
    return {
        "accuracy": sum(n for (right, tag), n in pairs.items() if right == tag) / pairs.total(),
        "macro_f1": sum(tag.f1 for tag in tags.values()) / len(tags),
        "tags": tags,
    }


def check(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> None:
    """Makes sure that there is one predicted tag for each word, and at least one word."""
    if len(gold) != len(predicted):
        raise RegardError(
            f"got {counted(len(gold), 'sentence')} and {len(predicted):,} predicted ones; the numbers must be equal"
        )
    for number, (right, given) in enumerate(zip(gold, predicted, strict=True), start=1):
        if len(right) != len(given):
            raise RegardError(
                f"sentence {number} has {counted(len(right), 'word')} and {counted(len(given), 'predicted tag')}"
            )
    if not any(gold):
        raise RegardError("there is nothing to score")


def _score(tag: str, pairs: Counter[tuple[str, str]]) -> TagScore:
    hits = pairs[tag, tag]
    guessed = sum(n for (_, predicted), n in pairs.items() if predicted == tag)
    count = sum(n for (right, _), n in pairs.items() if right == tag)
    return TagScore.of(hits, guessed, count)


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
