"""A sliding context window: when the context is full, the older half is dropped and the rest is read again.

The model thus always sees at least half of its context. The tokens must be read again because learned positions are
absolute: the cached keys and values of a token were computed for its old position.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.models.interface import Autoregressive


@dataclass(frozen=True)
class SlidingState:
    """The tokens in the window, and the state of the wrapped model."""

    tokens_BT: Tensor
    inner: Any

    def reorder(self, index_B: Tensor) -> "SlidingState":
        """The state of the texts in `index_B`."""
        return SlidingState(self.tokens_BT[index_B], self.inner.reorder(index_B))


@dataclass(frozen=True)
class Sliding:
    """A wrapper that continues texts beyond the context of a model."""

    model: Autoregressive
    context: int

    def start(self, tokens_BT: Tensor) -> SlidingState:
        """Reads the prompts, except the tokens that are already outside the window."""
        kept_BT = tokens_BT[:, dropped(tokens_BT.size(1), self.context) :]
        return SlidingState(kept_BT, self.model.start(kept_BT))

    def step(self, tokens_B: Tensor, state: SlidingState) -> tuple[Tensor, SlidingState]:
        """Reads one token of each text and returns the logits of the next one."""
        longer_BT = torch.cat((state.tokens_BT, tokens_B[:, None]), dim=1)
        inner = state.inner
        if first := dropped(longer_BT.size(1), self.context):
            longer_BT = longer_BT[:, first:]
            inner = self.model.start(longer_BT[:, :-1])
        logits_BV, inner = self.model.step(tokens_B, inner)
        return logits_BV, SlidingState(longer_BT, inner)


def dropped(length: int, context: int) -> int:
    """The number of dropped tokens in a text of `length` tokens."""
    half = (context + 1) // 2
    return max(0, -((context - length) // half)) * half
