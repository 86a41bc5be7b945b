"""What a run trains for: examples to learn from, a loss, a judgement. The loop knows nothing else of it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from regard.data.batches import Batch, Batches
from regard.library import AnyModelConfig


class Summed(NamedTuple):
    """A loss to train on, summed over the things of one sort in a batch, and beside it sums to tell of."""

    loss: Tensor
    told: Mapping[str, Tensor]


class Task(Protocol):
    """A task of a recipe, with its data at hand."""

    @property
    def config(self) -> AnyModelConfig:
        """Of the model to train, as the data ask for it."""
        ...

    batches: Batches[Any]
    valid: Batches[Any]
    tokenizers: tuple[Any, ...]
    """That the model's folder is to hold."""
    verb: str
    """What the model can then be asked for on the command line."""
    counts: list[dict[str, Any]]
    """What became of the data, for the log."""

    def units(self, batch: Any) -> dict[str, int]:
        """How many things of each sort are in a batch; losses are means over them. One sort is "tokens"."""
        ...

    def loss(self, model: Any, batch: Any) -> dict[str, Summed]:
        """The loss by the sort of things that it is a mean over; "loss" among what is told adds up."""
        ...

    def judge(self, model: Any) -> dict[str, float]:
        """How good a model is, on data that it does not train on."""
        ...

    def worth(self, values: Mapping[str, float]) -> float:
        """What `judge` found as one number; the lower the better."""
        ...

    def describe(self, values: Mapping[str, float]) -> str:
        """The same in a few words."""
        ...

    def card(self, values: Mapping[str, float]) -> list[str]:
        """What a model's card says of it, as lines."""
        ...


def listed(title: str, values: Mapping[str, float]) -> list[str]:
    """Values as lines of a card."""
    return [title, "", *(f"- {name}: {value:.4f}" for name, value in values.items())]


class Tally:
    """Sums over the things of each sort, and how many there were."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.sums: dict[tuple[str, str], float] = defaultdict(float)
        """By what is told and the sort of things that it is a mean over."""

    def add(self, parts: Mapping[str, Summed]) -> None:
        """Takes in what is told of a batch."""
        for unit, summed in parts.items():
            for name, value in summed.told.items():
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
