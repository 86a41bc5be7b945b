"""Costs that a model asks to be trained on beside the loss of its task, such as the steps of adaptive computation.

A model hands a cost over where it comes about, with `add_cost`; whoever trains it collects all of a forward pass:

    with collect() as costs:
        loss = task.loss(model, batch)
    loss = loss + sum(costs.sums().values())

Where nobody collects, as in decoding, validation, or the second run of a layer whose activations are computed again,
`add_cost` does nothing. Nothing stays with the model.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor


class Costs:
    """What was handed over, by name."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Tensor]] = {}

    def add(self, name: str, cost: Tensor) -> None:
        """Takes in a cost."""
        self._parts.setdefault(name, []).append(cost)

    def sums(self) -> dict[str, Tensor]:
        """The sum of all costs of each name."""
        return {name: sum(parts[1:], start=parts[0]) for name, parts in self._parts.items()}


_collecting: ContextVar[Costs | None] = ContextVar("collecting", default=None)


@contextmanager
def collect() -> Iterator[Costs]:
    """Collects what is handed over meanwhile."""
    costs = Costs()
    token = _collecting.set(costs)
    try:
        yield costs
    finally:
        _collecting.reset(token)


def add_cost(name: str, cost: Tensor) -> None:
    """Hands a cost over: a single number, summed over the tokens of the batch and weighed against the loss.

    Training divides it by the number of tokens of the whole batch, adds it to the loss, and logs it by its name.
    """
    costs = _collecting.get()
    if costs is not None:
        costs.add(name, cost)
