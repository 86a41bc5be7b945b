"""Heads: what an encoder's vectors are turned into for a task.

    words   logits = E · LayerNorm(f(W x + b)) + c,  E being the token embedding  (Devlin et al. 2018, A.2)
    linear  logits = W x + b,  of each token's vector or of the pooled one
    pooled  = f(W x_[CLS] + b),  f being tanh in BERT

A head is asked with `answer(x, tokens)`, whichever it is; only that of words reads the token embedding.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from regard.blocks.dropout import Dropout
from regard.blocks.embedding import TokenEmbedding
from regard.blocks.feedforward import ACTIVATIONS, Activation
from regard.blocks.norms import LayerNorm


class Pooler(nn.Linear):
    """The vector that stands for the whole text: the first token's, once more transformed."""

    def __init__(self, width: int, activation: Callable[[Tensor], Tensor] = torch.tanh) -> None:
        super().__init__(width, width)
        self.activation = activation

    def forward(self, x_BTD: Tensor) -> Tensor:
        """One vector for each text, as a sequence of one."""
        return self.activation(super().forward(x_BTD[:, :1]))


class WordHead(nn.Module):
    """Which word stands at each place and, if `next_sentence`, whether the second sentence follows the first."""

    def __init__(
        self, width: int, vocab_size: int, *, activation: Activation, norm_eps: float, next_sentence: bool
    ) -> None:
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.activation = ACTIVATIONS[activation]
        self.norm = LayerNorm(width, norm_eps)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.next = nn.Linear(width, 2) if next_sentence else None
        """Of a pooled vector: the logits of "follows" and "does not follow"."""

    def forward(self, x_BTD: Tensor) -> Tensor:
        """The vectors that are compared with those of all words."""
        return self.norm(self.activation(self.dense(x_BTD)))

    def answer(self, x_BTD: Tensor, tokens: TokenEmbedding) -> Tensor:
        """The score of every word."""
        return tokens.logits(self(x_BTD)) + self.bias


class LinearHead(nn.Sequential):
    """Dropout and a linear layer, over each token's vector or over the pooled one."""

    def __init__(self, width: int, outputs: int, dropout: float) -> None:
        super().__init__(Dropout(dropout), nn.Linear(width, outputs))

    def answer(self, x_BTD: Tensor, _tokens: TokenEmbedding) -> Tensor:
        """The score of every output."""
        return self(x_BTD)
