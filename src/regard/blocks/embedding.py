"""Token embedding: one vector per token of the vocabulary; it may be tied to the output layer."""

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
    """Embeds tokens and, if tied, is also the output layer (Vaswani et al. 2017, section 3.4).

    Args:
        scaled: multiply embeddings by √D. The table is initialised with variance 1/D, which suits the output layer; the
            scaled embeddings then have variance 1, which suits the input.
    """

    def __init__(self, vocab_size: int, width: int, scaled: bool = True) -> None:
        super().__init__()
        self.vocab_size, self.width = vocab_size, width
        self.scale = width**0.5 if scaled else 1.0
        self.weight = nn.Parameter(normal_(torch.empty(vocab_size, width), std=width**-0.5))

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """The embedding of each token."""
        expect("tokens", tokens_BT, "batch", "length")
        if tokens_BT.is_floating_point():
            raise ValueError(f"tokens should be integers, got {tokens_BT.dtype}")
        try:
            return F.embedding(tokens_BT, self.weight) * self.scale
        except IndexError:
            low, high = int(tokens_BT.min()), int(tokens_BT.max())
            raise RegardError(
                f"token ids from {low} to {high} are outside the vocabulary of {self.vocab_size} tokens; "
                f"was the text encoded with another tokenizer?"
            ) from None

    def logits(self, x_BTD: Tensor) -> Tensor:
        """The logits over the vocabulary at each position."""
        expect("x", x_BTD, "batch", "length", self.width)
        return linear(x_BTD, self.weight)

    def operations(self, call: Call) -> Iterator[Operation]:
        """The embedding."""
        equation = "x = E[token]" if self.scale == 1 else "x = E[token] · √D"
        yield Operation("embedding", equation, call.output, (TokenEmbedding.forward, "F.embedding("))


def make_embeddings(
    vocab_size: int, source_vocab_size: int | None, width: int
) -> tuple[TokenEmbedding, TokenEmbedding]:
    """The embeddings of target and source; one shared by both if the source has no vocabulary of its own."""
    target = TokenEmbedding(vocab_size, width)
    return target, target if source_vocab_size is None else TokenEmbedding(source_vocab_size, width)
