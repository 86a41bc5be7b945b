"""What a run trains for: examples to learn from, a loss, a judgement. The loop knows nothing else of it."""

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from regard.config import Config
from regard.data.batches import Batch, Batches


class SummedLoss(NamedTuple):
    """A loss to train on, summed over the things of one sort in a batch, and beside it sums to tell of."""

    loss: Tensor
    metrics: Mapping[str, Tensor]


class Curve(NamedTuple):
    """A picture of how training went: a loss, and a score beside it."""

    loss: str = "loss"
    """Its name in training; in validation it begins with `valid_`."""
    score: str | None = None
    label: str = ""
    """What the score is called."""


class Task(ABC):
    """What a model is trained for and used for: examples to learn from, a loss, a judgement, and the opened model.

    An instance is a task with its data at hand, prepared from a set-up.
    """

    name: ClassVar[str]
    """As it is written into model folders."""
    verbs: ClassVar[tuple[str, ...]]
    """The commands that an opened model serves; the first is what it is for."""
    data: ClassVar[tuple[type[Config], ...]] = ()
    """What it can learn from; nothing: it cannot be trained for."""
    unknown: ClassVar[Mapping[str, Any]] = {}
    """What only the data can tell of a model's config, with values to stand there until they have been read."""

    config: Any
    """Of the model to train, as the data ask for it."""
    batches: Batches[Any]
    valid: Batches[Any]
    codecs: Mapping[str, Any]
    """By role."""
    curves: Sequence[Curve] = (Curve(),)

    @classmethod
    @abstractmethod
    def open(cls, model: Any, codecs: Mapping[str, Any]) -> Any:
        """A model with its codecs, ready to do what it is for."""

    @abstractmethod
    def units(self, batch: Any) -> dict[str, int]:
        """How many things of each sort are in a batch; losses are means over them. One sort is "tokens"."""

    @abstractmethod
    def loss(self, model: Any, batch: Any) -> dict[str, SummedLoss]:
        """The loss by the sort of things that it is a mean over; "loss" among what is told adds up."""

    @abstractmethod
    def validate(self, model: Any) -> dict[str, float]:
        """How good a model is, on data that it does not train on."""

    def selection_loss(self, values: Mapping[str, float]) -> float:
        """What `validate` found as one number; the lower the better. Unless a task says otherwise, the loss decides."""
        return values["valid_loss"]

    @abstractmethod
    def describe(self, values: Mapping[str, float]) -> str:
        """The same in a few words."""

    @abstractmethod
    def card(self, values: Mapping[str, float]) -> list[str]:
        """What a model's card says of it, as lines."""


def listed(title: str, values: Mapping[str, float]) -> list[str]:
    """Values as lines of a card."""
    return [title, "", *(f"- {name}: {value:.4f}" for name, value in values.items())]


class Tally:
    """Sums over the things of each sort, and how many there were."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.sums: dict[tuple[str, str], float] = defaultdict(float)
        """By what is told and the sort of things that it is a mean over."""

    def add(self, parts: Mapping[str, SummedLoss]) -> None:
        """Takes in what is told of a batch."""
        for unit, summed in parts.items():
            for name, value in summed.metrics.items():
                self.sums[name, unit] += float(value)

    def merge(self, other: "Tally") -> None:
        """Takes in another tally."""
        self.counts.update(other.counts)
        for key, value in other.sums.items():
            self.sums[key] += value

    def means(self) -> dict[str, float]:
        """What is told, each as a mean; of a name with several sorts, their sum."""
        result: dict[str, float] = defaultdict(float)
        for (name, unit), total in self.sums.items():
            result[name] += total / max(1, self.counts[unit])
        return dict(result)


@torch.no_grad()
def means(task: Task, model: torch.nn.Module, batches: Iterable[Batch]) -> dict[str, float]:
    """What `task.loss` tells of some batches, as means."""
    device = next(model.parameters()).device
    tally = Tally()
    for batch in batches:
        tally.counts.update(task.units(batch))
        tally.add(task.loss(model, batch.to(device)))
    return tally.means()
