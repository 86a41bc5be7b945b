"""Evaluation of classifiers: accuracy, scores of each class, and the confusion matrix."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.errors import RegardError
from regard.evaluation.tagging import TagScore


@dataclass(frozen=True)
class Confusion:
    """How often examples of each class are predicted as each class."""

    labels: tuple[str, ...]
    counts: npt.NDArray[np.int64]
    """Rows: true classes; columns: predicted ones."""

    @property
    def accuracy(self) -> float:
        """The fraction of correct predictions."""
        return float(np.trace(self.counts) / self.counts.sum())

    def classes(self) -> dict[str, TagScore]:
        """Precision, recall and F1 of each class."""
        sizes = zip(np.diag(self.counts), self.counts.sum(0), self.counts.sum(1), strict=True)
        return {
            label: TagScore.of(int(hits), int(predicted), int(count))
            for label, (hits, predicted, count) in zip(self.labels, sizes, strict=True)
        }

    def scores(self) -> dict[str, Any]:
        """The scores in percent, as data that can be written as JSON."""
        percent = {
            label: {name: value if name == "count" else 100 * value for name, value in asdict(score).items()}
            for label, score in self.classes().items()
        }
        return {
            "accuracy": 100 * self.accuracy,
            "count": int(self.counts.sum()),
            "classes": percent,
            "confusion": self.counts.tolist(),
        }

    def lines(self) -> list[str]:
        """The scores as a table, and the most frequent confusions."""
        width = max(len("class"), *map(len, self.labels))
        lines = [f"accuracy  {100 * self.accuracy:.2f}", "", f"{'class':<{width}}  precision  recall      F1   images"]
        for label, score in self.classes().items():
            values = (100 * value for value in (score.precision, score.recall, score.f1))
            lines.append("{:<{}}  {:9.1f} {:7.1f} {:7.1f} {:8,}".format(label, width, *values, score.count))
        wrong = [
            (int(self.counts[i, j]), one, other)
            for i, one in enumerate(self.labels)
            for j, other in enumerate(self.labels)
            if i != j and self.counts[i, j]
        ]
        if wrong:
            worst = sorted(wrong, key=lambda each: -each[0])[:5]
            lines += ["", "most frequent errors", *(f"{count:6,}  {one} as {other}" for count, one, other in worst)]
        return lines


def confusion(gold: Sequence[str], predicted: Sequence[str], labels: Sequence[str]) -> Confusion:
    """The confusion matrix of predictions."""
    if len(gold) != len(predicted):
        raise RegardError(f"got {len(gold):,} labels and {len(predicted):,} predictions; the numbers must be equal")
    if not gold:
        raise RegardError("there is nothing to score")
    index = {label: i for i, label in enumerate(labels)}
    counts = np.zeros((len(labels), len(labels)), np.int64)
    for (one, other), count in Counter(zip(gold, predicted, strict=True)).items():
        counts[index[one], index[other]] = count
    return Confusion(tuple(labels), counts)
