"""The evaluation of a tagger: accuracy and F1 of its tags, or precision, recall and F1 of its spans."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from regard.config import Config, Problem
from regard.counts import counted
from regard.data import iob
from regard.data.conllu import COLUMN_INDEX, Column, Sentence
from regard.data.conllu import sentences as read_conllu
from regard.errors import RegardError
from regard.evaluation import spans, tagging
from regard.evaluation.comparison import Examples, percent, rows
from regard.evaluation.tagging import TagScore
from regard.tasks.evaluation import EvaluatedWith, Evaluation

FEW = 0.1  # fraction of tags that the model must be able to predict
NONE = "the model predicts none of the tags"
IOB_SUFFIXES = (".iob", ".iob1", ".iob2", ".bio")


@dataclass(frozen=True, kw_only=True)
class TaggingSettings(Config):
    """The file format, and the tags to compare."""

    kind: Literal["conllu", "iob"] | None = None
    """File format; without it, `iob` for a tagger of spans and for files named so, else `conllu`."""
    column: Column | Annotated[int, Field(ge=2)] | None = None
    """The column of tags that the model was trained on. CoNLL-U: `upos` (default) or `xpos`; IOB: its number, counted
    from 1 (default: the last)."""

    def problems(self) -> Iterator[Problem]:
        """A column of the other format."""
        if self.kind is not None and isinstance(self.column, int if self.kind == "conllu" else str):
            yield Problem(
                "column", "CoNLL-U has column=upos and column=xpos; IOB has numbers, as column=2", self.column
            )

    def format(self, path: Path, labels: Sequence[str]) -> Literal["conllu", "iob"]:
        """The format of a file, for a model with these tags."""
        if self.kind is not None or self.column is not None:
            return self.kind or ("iob" if isinstance(self.column, int) else "conllu")
        is_named_iob = path.name.lower().removesuffix(".gz").endswith(IOB_SUFFIXES)
        return "iob" if is_named_iob or iob.has_spans(labels) else "conllu"

    def read(self, path: Path, labels: Sequence[str]) -> list[Sentence]:
        """The sentences of a file, which must have tags of the model."""
        if self.format(path, labels) == "iob":
            number = self.column if isinstance(self.column, int) else None
            found, remedy = list(iob.sentences(path, number)), "column=2"
            where = f"column {number}" if number else "the last column"
        else:
            name: Column = "xpos" if self.column == "xpos" else "upos"
            (other,) = COLUMN_INDEX.keys() - {name}
            found, remedy = list(read_conllu(path, name)), f"column={other}"
            where = f"column {name}"
        every = [tag for sentence in found for tag in sentence.tags]
        tags = [tag for tag in every if tag != iob.OUTSIDE] or every
        known = sum(tag in labels for tag in tags)
        # a few tags may have the same name in both columns of CoNLL-U
        if known < FEW * len(tags) or not known:
            few = f"the model predicts only {known:,} of the {counted(len(tags), 'tag')}" if known else NONE
            raise RegardError(f"{path}: {few} in {where}; try {remedy}")
        return found


class EvaluatesTags:
    """A tagger that can be evaluated."""

    labels: Any
    tag: Any
    evaluated_with: ClassVar = EvaluatedWith("a tagger", ("data",), TaggingSettings)

    def evaluate(self, files: Mapping[str, Path], settings: TaggingSettings) -> Evaluation:
        """Accuracy, and precision, recall and F1 of each tag, or of the spans of each type."""
        (path,) = self.evaluated_with.paths(files)
        tests = settings.read(path, self.labels)
        found = self.tag([sentence.words for sentence in tests])
        predicted = [[tag or "?" for tag in tags] for tags in found]
        gold, written = [sentence.tags for sentence in tests], [" ".join(tags) for tags in predicted]
        if iob.has_spans(self.labels):
            counts = Examples(spans.counts(gold, predicted), _span_metrics)
            return _of_spans(spans.scores(gold, predicted), written, counts)
        return _of_tags(
            tagging.scores(gold, predicted), written, Examples(rows(predicted), partial(_tag_metrics, gold))
        )


def _tag_metrics(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, float]:
    """The scores of sentences that are compared between models."""
    found = tagging.scores(gold, predicted)
    return percent({"accuracy": found["accuracy"], "macro F1": found["macro_f1"]})


def _span_metrics(counts: npt.NDArray[np.int64]) -> dict[str, float]:
    """The scores of sentences that are compared between models."""
    hits, given, wanted, correct, words = counts.sum(axis=0).tolist()
    return percent({"F1": TagScore.of(hits, given, wanted).f1, "accuracy": correct / words})


def _of_tags(found: tagging.TaggingScores, predicted: Sequence[str], examples: Examples) -> Evaluation:
    scores, tags = percent({"accuracy": found["accuracy"], "macro_f1": found["macro_f1"]}), _percents(found["tags"])
    lines = [f"accuracy  {scores['accuracy']:6.2f}", f"macro F1  {scores['macro_f1']:6.2f}", ""]
    lines += _table("tag", "words", tags)
    return Evaluation({**scores, "tags": tags}, lines, predicted, examples=examples)


def _of_spans(found: spans.SpanScores, predicted: Sequence[str], examples: Examples) -> Evaluation:
    names = {"f1": "F1", "precision": "precision", "recall": "recall"}
    scores = percent({"accuracy": found["accuracy"], **{name: found[name] for name in names}})  # type: ignore[literal-required]
    types = _percents(found["types"])
    lines = [f"{title:<10}{scores[name]:6.2f}   of exact spans" for name, title in names.items()]
    lines += [f"accuracy  {scores['accuracy']:6.2f}   of words", "", *_table("type", "spans", types)]
    return Evaluation({**scores, "types": types}, lines, predicted, examples=examples)


def _percents(scores: Mapping[str, TagScore]) -> dict[str, dict[str, float]]:
    """The scores of each tag or type in percent, and its count."""
    return {
        name: {**percent({"precision": each.precision, "recall": each.recall, "f1": each.f1}), "count": each.count}
        for name, each in scores.items()
    }


def _table(name: str, unit: str, scores: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Precision, recall and F1 by tag or type."""
    width = max(8, *(len(tag) + 1 for tag in scores)) if scores else 8
    lines = [f"{name:<{width}}precision  recall      F1 {unit:>7}"]
    for tag, score in scores.items():
        lines.append("{:<{}}{:9.1f} {:7.1f} {:7.1f} {:7,}".format(tag, width, *score.values()))
    return lines
