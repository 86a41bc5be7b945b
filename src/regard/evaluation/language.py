"""Evaluation of language models: loss and perplexity per token, and bits per byte, comparable across tokenizers.

bits per byte = Σ −log₂ p(token | tokens before it) / bytes of the text
"""

import io
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from regard.codecs.gpt2 import LosslessTokenizer
from regard.data.batches import IGNORED, Indices
from regard.data.completion import WindowBatch, pieces, tokenized
from regard.errors import RegardError

BATCH_TOKENS = 4096
BLOCK = 1000  # bytes; about a paragraph
MAX_LOSS = 700.0  # exp overflows slightly above this


@dataclass(frozen=True)
class LanguageScores:
    """Scores over all tokens of a text."""

    loss: float
    """The mean of −ln p."""
    perplexity: float
    """exp(loss): the number of equally probable tokens with the same uncertainty."""
    bits_per_byte: float
    """Size of the text when compressed with this model, in bits per byte."""
    tokens: int
    bytes: int


def perplexity(loss: float) -> float:
    """exp(loss), or infinity if it would overflow."""
    return math.exp(loss) if loss < MAX_LOSS else math.inf


@dataclass(frozen=True)
class TokenLosses:
    """The loss of each token of a text."""

    losses: npt.NDArray[np.float64]
    """−ln p of each token."""
    sizes: npt.NDArray[np.int64]
    """The number of bytes of each token."""
    bytes: int

    def scores(self) -> LanguageScores:
        """The scores of the whole text."""
        total, count = float(self.losses.sum()), len(self.losses)
        if not math.isfinite(total):
            raise RegardError("the loss of the model is NaN or infinite; check its weights for very large values")
        return LanguageScores(
            total / count, perplexity(total / count), total / math.log(2) / self.bytes, count, self.bytes
        )

    def blocks(self, size: int = BLOCK) -> npt.NDArray[np.float64]:
        """Loss and bytes of each block of `size` bytes; a token belongs to the block of its first byte.

        So models with different tokenizers can be compared block by block.
        """
        block = (np.cumsum(self.sizes) - self.sizes) // size
        count = -(-self.bytes // size)
        return np.stack([np.bincount(block, x, count) for x in (self.losses, self.sizes)], axis=1)


def token_losses(
    losses: Callable[[WindowBatch], Tensor], tokenizer: LosslessTokenizer, text: str, context: int | None
) -> TokenLosses:
    """The loss of every token, computed once; the first one is predicted from the begin token.

    Windows overlap by half, so every token is predicted from at least half a context, or from all of the text so far.
    A model without a maximum length reads the whole text at once.

    Args:
        losses: computes the loss of each target of a batch, in order.
        context: maximum number of tokens in a window; None for no maximum.
    """
    tokens = np.fromiter(chain.from_iterable(tokenized(pieces(io.StringIO(text)), tokenizer)), np.int64)
    if not len(tokens):
        raise RegardError("the text is empty, so there is nothing to evaluate; give at least one character")
    batches = overlapping(np.concatenate([[tokenizer.begin], tokens]), context)
    found = np.concatenate([losses(batch).double().cpu().numpy() for batch in batches])
    used, which = np.unique(tokens, return_inverse=True)
    sizes = np.array([len(tokenizer.raw([token])) for token in used.tolist()])
    return TokenLosses(found, sizes[which], len(text.encode()))


def overlapping(tokens: Indices, context: int | None) -> Iterator[WindowBatch]:
    """A text as windows that overlap by half; targets that an earlier window has scored are ignored."""
    count = len(tokens) - 1  # of target tokens
    context = count if context is None else context
    size, last, step = min(count, context), max(0, count - context), context - context // 2
    begins = np.minimum(np.arange(0, last + step, step), last)
    unscored = np.concatenate([[0], begins[:-1] + size])  # the first position after all earlier windows
    rows = max(1, BATCH_TOKENS // size)
    for i in range(0, len(begins), rows):
        places = begins[i : i + rows, None] + np.arange(size)
        following = np.where(places < unscored[i : i + rows, None], IGNORED, tokens[places + 1])
        yield WindowBatch(torch.from_numpy(tokens[places]), torch.from_numpy(following))
