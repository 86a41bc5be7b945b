"""The interface of experiments: a claim, a prediction written before the run, a verdict from the results."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np


@dataclass(frozen=True)
class Claim:
    """A statement and its source."""

    text: str
    source: str

    def __str__(self) -> str:
        return f"{self.text} ({self.source})"


@dataclass(frozen=True)
class Interval:
    """A 95 % confidence interval of the mean of a measured quantity."""

    of: str
    """What was measured."""
    mean: float
    low: float
    high: float

    @classmethod
    def bootstrap(cls, of: str, values: Sequence[float], samples: int = 10_000, seed: int = 1) -> Self:
        """The percentile bootstrap: the values are resampled with replacement (Efron 1979)."""
        # equal values are sampled together, so that the cost depends on the number of distinct values only
        distinct, counts = np.unique(np.asarray(values, np.float64), return_counts=True)
        total = counts.sum()
        resampled = np.random.default_rng(seed).multinomial(total, counts / total, size=samples)
        low, high = np.percentile(resampled @ distinct / total, [2.5, 97.5])
        return cls(of, float(distinct @ counts / total), float(low), float(high))

    def __str__(self) -> str:
        return f"{self.of}: {self.mean:+.2f}, 95 % interval {self.low:+.2f} to {self.high:+.2f}"


@dataclass(frozen=True)
class Verdict:
    """Whether the prediction holds, and why."""

    holds: bool | None
    """None: undecided."""
    reason: str
    interval: Interval | None = None
    """None: the result has no sampling error."""

    def __str__(self) -> str:
        result = {True: "the prediction holds", False: "the prediction does not hold", None: "undecided"}[self.holds]
        return f"{result}: {self.reason}" + (f" ({self.interval})" if self.interval else "")


class Experiment(ABC):
    """A test of a claim. `run` returns an instance, which contains the results."""

    name: ClassVar[str]
    """Also the command, `regard lab NAME`."""
    claim: ClassVar[Claim]
    prediction: ClassVar[str]
    """The results to expect if the claim is true, written before the run."""

    @classmethod
    @abstractmethod
    def run(cls, *args: Any, **kwargs: Any) -> Self:
        """Runs the experiment."""

    @property
    @abstractmethod
    def values(self) -> dict[str, float]:
        """The results, by name."""

    @property
    @abstractmethod
    def verdict(self) -> Verdict:
        """Whether the prediction holds."""

    @abstractmethod
    def figure(self) -> Any:
        """A Matplotlib figure of the results."""

    def to_json(self) -> dict[str, Any]:
        """The results by name, the claim, the prediction and the verdict."""
        about = {"claim": asdict(self.claim), "prediction": self.prediction, "verdict": asdict(self.verdict)}
        return {**self.values, **about}
