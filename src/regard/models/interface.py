"""What decoding asks of a model, whatever it is made of."""

from typing import Any, Protocol, Self, runtime_checkable

from torch import Tensor


@runtime_checkable
class State(Protocol):
    """Where a model is in the sequences it writes."""

    def reorder(self, index_B: Tensor) -> Self:
        """The state of the sequences that `index_B` names, in that order; one may be named several times."""
        ...


@runtime_checkable
class Autoregressive(Protocol):
    """A model that writes one token after the other."""

    def start(self, inputs: Any) -> Any:
        """The `State` before the first token."""
        ...

    def step(self, tokens_B: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Takes in one token for each sequence; gives logits_BV for the next and the next state.

        The state given is used up; to go on twice from one state, `reorder` makes copies.
        """
        ...
