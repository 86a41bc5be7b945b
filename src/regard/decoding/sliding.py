"""A text longer than a model's context: when that is full, the older half is forgotten and the rest is read again.

So a model always sees half of its context or more. That tokens are read again is the price of learned positions: what
a cache holds of a token was computed for the place where it stood.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.models.interface import Autoregressive


@dataclass(frozen=True)
class SlidingState:
    """What is not forgotten, and where the model inside is."""

    tokens_BT: Tensor
    inner: Any

    def reorder(self, index_B: Tensor) -> "SlidingState":
        """The state of the texts that `index_B` names."""
        return SlidingState(self.tokens_BT[index_B], self.inner.reorder(index_B))


@dataclass(frozen=True)
class Sliding:
    """A model around one that goes on with texts of `context` tokens at most."""

    model: Autoregressive
    context: int

    def start(self, tokens_BT: Tensor) -> SlidingState:
        """Reads what texts begin with, as far as it would not be forgotten by then."""
        kept_BT = tokens_BT[:, forgotten(tokens_BT.size(1), self.context) :]
        return SlidingState(kept_BT, self.model.start(kept_BT))

    def step(self, tokens_B: Tensor, state: SlidingState) -> tuple[Tensor, SlidingState]:
        """Takes in one token of each text; gives logits for the next one."""
        longer_BT = torch.cat((state.tokens_BT, tokens_B[:, None]), dim=1)
        inner = state.inner
        if first := forgotten(longer_BT.size(1), self.context):
            longer_BT = longer_BT[:, first:]
            inner = self.model.start(longer_BT[:, :-1])
        logits_BV, inner = self.model.step(tokens_B, inner)
        return logits_BV, SlidingState(longer_BT, inner)


def forgotten(length: int, context: int) -> int:
    """How many of so many tokens are no longer seen."""
    half = (context + 1) // 2
    return max(0, -((context - length) // half)) * half
