"""A wrapper that ends every text after a maximum number of tokens.

A continuation that reaches the limit is truncated there: the end token gets probability 1, and the model is not run, so
its probability of ending at the limit does not affect the score. Beam search and sampling need no special case.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.decoding.hypothesis import NEVER
from regard.models.interface import Autoregressive


@dataclass(frozen=True)
class LengthLimitedState:
    """The state of the wrapped model, and the number of tokens left."""

    inner: Any
    left: int

    def reorder(self, index_B: Tensor) -> "LengthLimitedState":
        """The state of the texts in `index_B`."""
        return LengthLimitedState(self.inner.reorder(index_B), self.left)


@dataclass(frozen=True)
class LengthLimited:
    """A model with a maximum number of generated tokens.

    Args:
        tokens: maximum number of tokens to generate.
        vocab_size: the number of tokens; logits beyond it are dropped.
        end: the end token; if it is beyond the vocabulary, its probability is 0 before the limit.
    """

    model: Autoregressive
    tokens: int
    vocab_size: int
    end: int

    def start(self, *inputs: Tensor) -> LengthLimitedState:
        """Reads the prompts."""
        return LengthLimitedState(self.model.start(*inputs), self.tokens)

    def step(self, tokens_B: Tensor, state: LengthLimitedState) -> tuple[Tensor, LengthLimitedState]:
        """Reads one token of each text and returns the logits of the next one."""
        if not state.left:
            logits_BV = torch.full((len(tokens_B), max(self.vocab_size, self.end + 1)), NEVER, device=tokens_B.device)
            logits_BV[:, self.end] = 0.0
            return logits_BV, state
        logits_BV, inner = self.model.step(tokens_B, state.inner)
        logits_BV = logits_BV[:, : self.vocab_size]
        if self.end >= self.vocab_size:
            logits_BV = torch.nn.functional.pad(logits_BV, (0, 1), value=NEVER)
        return logits_BV, LengthLimitedState(inner, state.left - 1)
