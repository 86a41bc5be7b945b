"""Tasks: examples, a loss and a validation score. The training loop uses nothing else."""

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from regard.config import Config
from regard.data.batches import Batch, Batches


class SummedLoss(NamedTuple):
    """A training loss, summed over the units (such as tokens) of a batch, and sums of metrics to report."""

    loss: Tensor
    metrics: Mapping[str, Tensor]


class Curve(NamedTuple):
    """A plot of training: a loss, and optionally a score."""

    loss: str = "loss"
    """Its name in training; in validation it has the prefix `valid_`."""
    score: str | None = None
    label: str = ""
    """The axis label of the score."""


class Task(ABC):
    """A task of a model: training examples, a loss, a validation score, and the pipeline for inference.

    An instance is a task with its data, created from a `Setup`.
    """

    name: ClassVar[str]
    """Its name in model folders."""
    verbs: ClassVar[tuple[str, ...]]
    """The commands that its pipeline serves; the first is the main one."""
    data: ClassVar[tuple[type[Config], ...]] = ()
    """The kinds of data it can be trained on; none: it cannot be trained."""
    unknown: ClassVar[Mapping[str, Any]] = {}
    """Fields of the model's config that depend on the data, with placeholders until the data are read."""

    config: Any
    """Config of the model to train, with sizes from the data."""
    batches: Batches[Any]
    valid: Batches[Any]
    codecs: Mapping[str, Any]
    """By role."""
    curves: Sequence[Curve] = (Curve(),)

    @classmethod
    @abstractmethod
    def open(cls, model: Any, codecs: Mapping[str, Any]) -> Any:
        """A pipeline of a model and its codecs, ready for inference."""

    @abstractmethod
    def units(self, batch: Any) -> dict[str, int]:
        """The number of units of each kind in a batch; losses are means over them. One kind is "tokens"."""

    @abstractmethod
    def loss(self, model: Any, batch: Any) -> dict[str, SummedLoss]:
        """The summed loss for each kind of unit; the "loss" metrics of all kinds are added up."""

    @abstractmethod
    def validate(self, model: Any) -> dict[str, float]:
        """Scores of a model on the validation data."""

    def selection_loss(self, values: Mapping[str, float]) -> float:
        """The result of `validate` as one number, lower is better; default: the validation loss."""
        return values["valid_loss"]

    @abstractmethod
    def describe(self, values: Mapping[str, float]) -> str:
        """The result of `validate` as a short text."""

    @abstractmethod
    def card(self, values: Mapping[str, float]) -> list[str]:
        """The result of `validate` as lines of the model card."""


def listed(title: str, values: Mapping[str, float]) -> list[str]:
    """Values as lines of a model card."""
    return [title, "", *(f"- {name}: {value:.4f}" for name, value in values.items())]


class Tally:
    """Sums of metrics over units of each kind, and the numbers of units."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.sums: dict[tuple[str, str], float] = defaultdict(float)
        """By metric and the kind of unit that it is a mean over."""

    def add(self, parts: Mapping[str, SummedLoss]) -> None:
        """Adds the metrics of a batch."""
        for unit, summed in parts.items():
            for name, value in summed.metrics.items():
                self.sums[name, unit] += float(value)

    def merge(self, other: "Tally") -> None:
        """Adds another tally."""
        self.counts.update(other.counts)
        for key, value in other.sums.items():
            self.sums[key] += value

    def means(self) -> dict[str, float]:
        """The mean of each metric; for a metric with several kinds of units, the sum of the means."""
        result: dict[str, float] = defaultdict(float)
        for (name, unit), total in self.sums.items():
            result[name] += total / max(1, self.counts[unit])
        return dict(result)


@torch.no_grad()
def means(task: Task, model: torch.nn.Module, batches: Iterable[Batch]) -> dict[str, float]:
    """The means of the metrics of `task.loss` over some batches."""
    device = next(model.parameters()).device
    tally = Tally()
    for batch in batches:
        tally.counts.update(task.units(batch))
        tally.add(task.loss(model, batch.to(device)))
    return tally.means()
