"""Operations that a block reports, so that a walk can follow its computation step by step.

A block or layer may have a method `operations(call)`, beside the `forward` that it describes. It receives one call of
the block and yields its operations in order, with their results for all tokens and heads. Inner blocks report their
own operations when they finish; with `call.tell`, the outer block reports them instead. Blocks without the method
report nothing. A block that processes one token per call declares `takes_one_token = True`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

FEATURES, KEYS, ROWS, OUTPUTS = ("features",), ("keys",), ("keys", "features"), ("outputs",)


@dataclass(frozen=True)
class Operation:
    """One operation of a block."""

    name: str
    equation: str
    result: Tensor
    """(batch, tokens, features); per head (batch, heads, tokens, features or keys); or per head and key (batch, heads,
    keys, features). Logits: (batch, tokens, outputs)."""
    where: tuple[Callable[..., Any], str] | None
    """The function that computes it, and a text that occurs only in the line concerned."""
    axes: tuple[str, ...] = FEATURES
    """The axes of the result for one token of one head: a number per feature, key or possible output, or a row per
    key."""


class Call(Protocol):
    """One call of a module: the one that processed the token being followed."""

    args: tuple[Any, ...]
    output: Any

    def of(self, module: nn.Module) -> "Call":
        """The call of a module inside this one."""
        ...

    def tell(self, module: nn.Module) -> list[Operation]:
        """The operations of a module inside this one, which then does not report them itself."""
        ...
