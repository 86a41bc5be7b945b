"""Metrics: accuracy, F1 and Matthews' correlation for labels; Pearson's and Spearman's correlation for numbers.

Each is a fraction; 1 means that all predictions are correct. A correlation that is undefined, because all predictions
or all gold values are equal, is 0.
"""

from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from regard.errors import RegardError


def accuracy(predicted: Sequence[Hashable], gold: Sequence[Hashable]) -> float:
    """The fraction of correct labels."""
    _check(predicted, gold)
    return sum(one == other for one, other in zip(predicted, gold, strict=True)) / len(gold)


def f1(predicted: Sequence[Hashable], gold: Sequence[Hashable], positive: Hashable) -> float:
    """The harmonic mean of precision and recall of one label; 0 if it is neither predicted nor in the gold labels."""
    _check(predicted, gold)
    found = np.array([label == positive for label in predicted])
    present = np.array([label == positive for label in gold])
    both, either = 2 * np.sum(found & present), np.sum(found) + np.sum(present)
    return float(both / either) if either else 0.0


def matthews(predicted: Sequence[Hashable], gold: Sequence[Hashable]) -> float:
    """Matthews' correlation, for any number of labels (Gorodkin 2004)."""
    _check(predicted, gold)
    number = {label: i for i, label in enumerate({*predicted, *gold})}
    confusion = np.zeros((len(number), len(number)), np.int64)
    np.add.at(confusion, ([number[label] for label in gold], [number[label] for label in predicted]), 1)
    of_gold, of_predicted, total = confusion.sum(1), confusion.sum(0), confusion.sum()
    covariance = confusion.trace() * total - of_gold @ of_predicted
    # two square roots, because the product would overflow 64 bits from 60,000 examples on
    spread = np.sqrt(total**2 - of_gold @ of_gold) * np.sqrt(total**2 - of_predicted @ of_predicted)
    return float(covariance / spread) if spread else 0.0


def pearson(predicted: Sequence[float], gold: Sequence[float]) -> float:
    """The linear correlation of two lists of numbers."""
    one, other = _numbers(predicted, gold)
    return _correlation(one, other)


def spearman(predicted: Sequence[float], gold: Sequence[float]) -> float:
    """The correlation of ranks; equal numbers get their mean rank."""
    one, other = _numbers(predicted, gold)
    return _correlation(_ranks(one), _ranks(other))


Numbers = npt.NDArray[np.float64]


def _correlation(one: Numbers, other: Numbers) -> float:
    # checked first: the computed mean of equal numbers may differ from them, and the rounding errors would correlate
    if np.all(one == one[0]) or np.all(other == other[0]):
        return 0.0
    return float(np.clip(_direction(one) @ _direction(other), -1, 1))


def _direction(values: Numbers) -> Numbers:
    """The deviations from the mean, normalised to a vector of length 1."""
    deviation: Numbers = values - values.mean()
    deviation /= np.max(np.abs(deviation))  # squares of small numbers would underflow, of large ones overflow
    return deviation / np.linalg.norm(deviation)


def _ranks(values: Numbers) -> Numbers:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[place]


def _numbers(predicted: Sequence[float], gold: Sequence[float]) -> tuple[Numbers, Numbers]:
    _check(predicted, gold)
    one, other = np.asarray(predicted, np.float64), np.asarray(gold, np.float64)
    for what, values in (("predicted", one), ("gold", other)):
        if not np.all(np.isfinite(values)):
            place = int(np.argmin(np.isfinite(values)))
            raise RegardError(f"{what} number {place + 1:,} is {values[place]}; a correlation needs finite numbers")
    return one, other


def _check(predicted: Sequence[Hashable], gold: Sequence[Hashable]) -> None:
    if len(predicted) != len(gold):
        raise RegardError(
            f"got {len(predicted):,} predictions and {len(gold):,} gold labels; the numbers must be equal"
        )
    if not len(gold):
        raise RegardError("there is nothing to score")
