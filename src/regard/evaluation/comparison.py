"""Comparison of models on the same test set: scores, and whether their differences are significant."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from regard.errors import RegardError

SEED = 12345
ROUNDING = 1e-9  # relative; two sums of the same numbers in another order differ by less


@dataclass(frozen=True)
class Comparison:
    """Models on the same test set by one metric; the others are compared with the first."""

    metric: str
    scores: tuple[float, ...]
    """One for each model."""
    p_values: tuple[float | None, ...]
    """Probability of a difference from the first model at least as large if both were equally good; None for the
    first itself."""
    lower_is_better: bool = False
    signature: str = ""


@dataclass(frozen=True)
class Examples:
    """What a model predicted for each example of a test set, and the scores of such predictions."""

    values: npt.NDArray[Any]
    """One row for each example."""
    score: Callable[[npt.NDArray[Any]], Mapping[str, float]]
    lower_is_better: bool = False


def percent(scores: Mapping[str, float]) -> dict[str, float]:
    """Scores from 0 to 100 instead of fractions."""
    return {metric: 100 * score for metric, score in scores.items()}


def rows(values: Sequence[Any]) -> npt.NDArray[Any]:
    """One row for each value, whatever it is."""
    return np.fromiter(values, object, len(values))


def compare(models: Sequence[Examples], samples: int = 1000) -> list[Comparison]:
    """Compares the models with the first by a paired permutation test (approximate randomization, Noreen 1989).

    If two models are equally good, the score does not change much when a random half of the examples is swapped
    between them. The p-value is the fraction of such swaps that differ by at least as much as the models.
    """
    first, *others = models
    if any(len(other.values) != len(first.values) for other in others):
        sizes = ", ".join(f"{len(each.values):,}" for each in models)
        raise RegardError(f"the models have {sizes} examples; compare models on the same test set")
    scores = [dict(each.score(each.values)) for each in models]
    found: dict[str, list[float | None]] = {metric: [None] for metric in scores[0]}
    for other, of_other in zip(others, scores[1:], strict=True):
        observed = {metric: of_other[metric] - scores[0][metric] for metric in found}
        exceeding = dict.fromkeys(found, 0)
        rng = np.random.default_rng(SEED)  # the same swaps for every model
        for _ in range(samples):
            swapped = rng.integers(2, size=len(first.values), dtype=bool)
            swapped = swapped.reshape(-1, *(1,) * (first.values.ndim - 1))
            one = first.score(np.where(swapped, other.values, first.values))
            two = first.score(np.where(swapped, first.values, other.values))
            for metric, difference in observed.items():
                limit = abs(difference) - ROUNDING * max(abs(scores[0][metric]), abs(of_other[metric]))
                exceeding[metric] += abs(two[metric] - one[metric]) >= limit
        for metric, count in exceeding.items():
            found[metric].append((count + 1) / (samples + 1))
    return [
        Comparison(metric, tuple(each[metric] for each in scores), tuple(p_values), first.lower_is_better)
        for metric, p_values in found.items()
    ]
