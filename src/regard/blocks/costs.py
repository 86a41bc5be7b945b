"""Auxiliary losses that a model adds to the loss of its task, such as the ponder cost of adaptive computation.

A model reports a cost where it arises, with `add_cost`; training collects all costs of a forward pass:

    with collect() as costs:
        loss = task.loss(model, batch)
    loss = loss + sum(costs.sums().values())

Outside of `collect`, as in decoding, validation, or the second run of a layer under activation checkpointing,
`add_cost` does nothing. The model itself stores nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor


class Costs:
    """Collected costs, by name."""

    def __init__(self) -> None:
        self._parts: dict[str, list[Tensor]] = {}

    def add(self, name: str, cost: Tensor) -> None:
        """Adds a cost."""
        self._parts.setdefault(name, []).append(cost)

    def sums(self) -> dict[str, Tensor]:
        """The sum of all costs of each name."""
        return {name: sum(parts[1:], start=parts[0]) for name, parts in self._parts.items()}


_collecting: ContextVar[Costs | None] = ContextVar("collecting", default=None)


@contextmanager
def collect() -> Iterator[Costs]:
    """Collects the costs reported inside the with-block."""
    costs = Costs()
    token = _collecting.set(costs)
    try:
        yield costs
    finally:
        _collecting.reset(token)


def add_cost(name: str, cost: Tensor) -> None:
    """Reports a cost: a scalar, summed over the tokens of the batch and already weighted relative to the loss.

    Training divides it by the number of tokens of the whole batch, adds it to the loss, and logs it by name.
    """
    costs = _collecting.get()
    if costs is not None:
        costs.add(name, cost)
