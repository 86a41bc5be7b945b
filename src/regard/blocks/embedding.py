"""Token embedding: one vector for each token of the vocabulary, which may also serve as the output layer."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from regard.blocks.initialization import normal_
from regard.blocks.linear import linear
from regard.blocks.operations import Call, Operation
from regard.blocks.shapes import expect
from regard.errors import RegardError


class TokenEmbedding(nn.Module):
    """Looks tokens up, and, tied, scores every token of the vocabulary (Vaswani et al. 2017, section 3.4).

    Args:
        scaled: multiply looked-up vectors by √D. The table starts with variance 1/D, good for the output layer, so that
            the vectors start with variance 1, good for the input.
    """

    def __init__(self, vocab_size: int, width: int, scaled: bool = True) -> None:
        super().__init__()
        self.vocab_size, self.width = vocab_size, width
        self.scale = width**0.5 if scaled else 1.0
        self.weight = nn.Parameter(normal_(torch.empty(vocab_size, width), std=width**-0.5))

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """The vector of each token."""
        expect("tokens", tokens_BT, "batch", "length")
        if tokens_BT.is_floating_point():
            raise ValueError(f"tokens should be whole numbers, got {tokens_BT.dtype}")
        try:
            return F.embedding(tokens_BT, self.weight) * self.scale
        except IndexError:
            low, high = int(tokens_BT.min()), int(tokens_BT.max())
            raise RegardError(
                f"tokens from {low} to {high} do not fit a vocabulary of {self.vocab_size}; "
                f"was the text encoded with another tokenizer?"
            ) from None

    def logits(self, x_BTD: Tensor) -> Tensor:
        """The score of every token of the vocabulary at each position."""
        expect("x", x_BTD, "batch", "length", self.width)
        return linear(x_BTD, self.weight)

    def operations(self, call: Call) -> Iterator[Operation]:
        """The vector."""
        equation = "x = E[token]" if self.scale == 1 else "x = E[token] · √D"
        yield Operation("embedding", equation, call.output, (TokenEmbedding.forward, "F.embedding("))


def make_embeddings(
    vocab_size: int, source_vocab_size: int | None, width: int
) -> tuple[TokenEmbedding, TokenEmbedding]:
    """The tables of target and source; one table for both, if the source has no vocabulary of its own."""
    target = TokenEmbedding(vocab_size, width)
    return target, target if source_vocab_size is None else TokenEmbedding(source_vocab_size, width)
