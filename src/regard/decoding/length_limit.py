"""A model whose texts are sure to end after so many tokens.

For a text that is only gone on with, its length is no merit: it stops where no more was asked for, and what the model
thinks of an end at that place does not count, nor is it computed. So beam search and sampling need not know of it.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.decoding.hypothesis import NEVER
from regard.models.interface import Autoregressive


@dataclass(frozen=True)
class LengthLimitedState:
    """Where the model inside is, and how many more tokens it writes."""

    inner: Any
    left: int

    def reorder(self, index_B: Tensor) -> "LengthLimitedState":
        """The state of the texts that `index_B` names."""
        return LengthLimitedState(self.inner.reorder(index_B), self.left)


@dataclass(frozen=True)
class LengthLimited:
    """A model around another.

    Args:
        tokens: how many are written, at most.
        vocab_size: the number of tokens; what the model says beyond them stands for none.
        end: the token that ends a text; one that the model does not have comes after its last, and is never likely.
    """

    model: Autoregressive
    tokens: int
    vocab_size: int
    end: int

    def start(self, *inputs: Tensor) -> LengthLimitedState:
        """Reads what texts begin with."""
        return LengthLimitedState(self.model.start(*inputs), self.tokens)

    def step(self, tokens_B: Tensor, state: LengthLimitedState) -> tuple[Tensor, LengthLimitedState]:
        """Takes in one token of each text; gives logits for the next one."""
        if not state.left:
            logits_BV = torch.full((len(tokens_B), max(self.vocab_size, self.end + 1)), NEVER, device=tokens_B.device)
            logits_BV[:, self.end] = 0.0
            return logits_BV, state
        logits_BV, inner = self.model.step(tokens_B, state.inner)
        logits_BV = logits_BV[:, : self.vocab_size]
        if self.end >= self.vocab_size:
            logits_BV = torch.nn.functional.pad(logits_BV, (0, 1), value=NEVER)
        return logits_BV, LengthLimitedState(inner, state.left - 1)
