"""Evaluation of tagged spans, such as names: precision, recall and F1 of exact spans."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from regard.data.iob import OUTSIDE, to_iob2
from regard.evaluation.tagging import TagScore, check


class Span(NamedTuple):
    """The words of a sentence from `begin` to before `end`, and their type, such as PER."""

    type: str
    begin: int
    end: int


class SpanScores(TypedDict):
    """Scores of tagged spans, as fractions; a span is correct if its words and its type are."""

    precision: float
    """Fraction of the predicted spans that are correct."""
    recall: float
    """Fraction of the spans that were predicted correctly."""
    f1: float
    accuracy: float
    """Fraction of the words with the correct tag."""
    types: dict[str, TagScore]
    """The scores of the spans of each type."""


def spans(tags: Sequence[str]) -> Iterator[Span]:
    """The spans of a sentence, given its tags in IOB1 or IOB2; any other tag is outside of spans."""
    begin, last = 0, OUTSIDE
    for at, tag in enumerate((*to_iob2(tags), OUTSIDE)):
        inside = tag[:1] == "I"
        if last[:1] in ("B", "I") and not inside:
            yield Span(last[2:], begin, at)
        if not inside:
            begin = at
        last = tag


def counts(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> npt.NDArray[np.int64]:
    """For each sentence, the number of correct, predicted and gold spans, and of correct and all words."""
    check(gold, predicted)
    found = []
    for right, guess in zip(gold, predicted, strict=True):
        one, other = set(spans(right)), set(spans(guess))
        same = sum(a == b for a, b in zip(right, guess, strict=True))
        found.append([len(one & other), len(other), len(one), same, len(right)])
    return np.array(found)


def scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> SpanScores:
    """All scores of the predicted tags of sentences; those of all types together are micro averages."""
    check(gold, predicted)
    hits, given, wanted = Counter[str](), Counter[str](), Counter[str]()
    same = 0
    for right, guess in zip(gold, predicted, strict=True):
        one, other = set(spans(right)), set(spans(guess))
        for counter, found in ((hits, one & other), (given, other), (wanted, one)):
            counter.update(span.type for span in found)
        same += sum(a == b for a, b in zip(right, guess, strict=True))
    types = {name: TagScore.of(hits[name], given[name], wanted[name]) for name in sorted(wanted | given)}
    every = TagScore.of(hits.total(), given.total(), wanted.total())
    return {
        "precision": every.precision,
        "recall": every.recall,
        "f1": every.f1,
        "accuracy": same / sum(map(len, gold)),
        "types": types,
    }
