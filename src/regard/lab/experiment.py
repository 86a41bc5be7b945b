"""The form of all experiments: a claim, a prediction written before the run, a verdict from the numbers."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np


@dataclass(frozen=True)
class Claim:
    """The statement, and its source."""

    text: str
    source: str

    def __str__(self) -> str:
        return f"{self.text} ({self.source})"


@dataclass(frozen=True)
class Interval:
    """Where the mean of a measured quantity lies, with 95 % confidence."""

    of: str
    """What was measured."""
    mean: float
    low: float
    high: float

    @classmethod
    def bootstrap(cls, of: str, values: Sequence[float], samples: int = 10_000, seed: int = 1) -> Self:
        """From samples of the values, drawn with replacement (Efron 1979)."""
        # values that are equal are drawn together, so that many values cost no more than few
        distinct, counts = np.unique(np.asarray(values, np.float64), return_counts=True)
        total = counts.sum()
        drawn = np.random.default_rng(seed).multinomial(total, counts / total, size=samples)
        low, high = np.percentile(drawn @ distinct / total, [2.5, 97.5])
        return cls(of, float(distinct @ counts / total), float(low), float(high))

    def __str__(self) -> str:
        return f"{self.of}: {self.mean:+.2f}, 95 % interval {self.low:+.2f} to {self.high:+.2f}"


@dataclass(frozen=True)
class Verdict:
    """What the numbers say of the prediction."""

    holds: bool | None
    """None: these numbers cannot decide."""
    reason: str
    interval: Interval | None = None
    """None where nothing was sampled."""

    def __str__(self) -> str:
        answer = {True: "it holds", False: "it does not hold", None: "undecided"}[self.holds]
        return f"{answer}: {self.reason}" + (f" ({self.interval})" if self.interval else "")


class Experiment(ABC):
    """A claim put to the test. `run` gives an instance, which has the numbers."""

    name: ClassVar[str]
    """Also the command, `regard lab NAME`."""
    claim: ClassVar[Claim]
    prediction: ClassVar[str]
    """What the numbers will be if the claim is true, written before the run."""

    @classmethod
    @abstractmethod
    def run(cls, *args: Any, **kwargs: Any) -> Self:
        """Finds out."""

    @property
    @abstractmethod
    def values(self) -> dict[str, float]:
        """The numbers that were found, by name."""

    @property
    @abstractmethod
    def verdict(self) -> Verdict:
        """What they say of the prediction."""

    @abstractmethod
    def figure(self) -> Any:
        """The numbers, drawn: a figure of Matplotlib's."""

    def to_json(self) -> dict[str, Any]:
        """All of it: the numbers by name, and beside them claim, prediction and verdict."""
        about = {"claim": asdict(self.claim), "prediction": self.prediction, "verdict": asdict(self.verdict)}
        return {**self.values, **about}
