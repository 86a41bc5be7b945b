"""What a block tells of its computation, so that a walk can follow it operation by operation.

A block or a layer with something to tell has a method `operations(call)`, beside the `forward` that it tells of. It is
given one run of itself and gives its operations in order, with their results for all tokens and heads. Blocks inside it
tell their own, at the time that they are done; `call.tell` makes those of a block part of its owner's instead. Blocks
without the method tell nothing. A block that takes in one token a call says so: `takes_one_token = True`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

FEATURES, KEYS, ROWS = ("features",), ("keys",), ("keys", "features")


@dataclass(frozen=True)
class Operation:
    """One operation of a block."""

    name: str
    equation: str
    result: Tensor
    """(batch, tokens, features), or for each head (batch, heads, tokens, features or keys) or, as rows, (batch, heads,
    keys, features)."""
    where: tuple[Callable[..., Any], str] | None
    """The function that does it, and a text that only the line in question holds."""
    axes: tuple[str, ...] = FEATURES
    """What is left of the result for one token of one head: a number for each feature or key, or a row for each key."""


class Call(Protocol):
    """One run of a module, as the token that is followed took part in it."""

    args: tuple[Any, ...]
    output: Any

    def of(self, module: nn.Module) -> "Call":
        """The run of a module inside this one."""
        ...

    def tell(self, module: nn.Module) -> list[Operation]:
        """The operations of a module inside this one, which then does not tell them itself."""
        ...
