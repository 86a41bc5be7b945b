"""Evaluation of language models: loss and perplexity per token, and bits per byte, comparable across tokenizers.

bits per byte = Σ −log₂ p(token | tokens before it) / bytes of the text
"""

import io
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch

from regard.codecs.gpt2 import LosslessTokenizer
from regard.data.batches import IGNORED, Indices
from regard.data.completion import WindowBatch, pieces, tokenized
from regard.errors import RegardError

BATCH_TOKENS = 4096
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


def score(
    loss: Callable[[WindowBatch], float], tokenizer: LosslessTokenizer, text: str, context: int | None
) -> LanguageScores:
    """Scores every token once; the first one is predicted from the begin token.

    Windows overlap by half, so every token is predicted from at least half a context, or from all of the text so far.
    A model without a maximum length reads the whole text at once.

    Args:
        loss: computes the summed loss of a batch.
        context: maximum number of tokens in a window; None for no maximum.
    """
    tokens = np.fromiter(chain.from_iterable(tokenized(pieces(io.StringIO(text)), tokenizer)), np.int64)
    if not len(tokens):
        raise RegardError("the text is empty, so there is nothing to evaluate; give at least one character")
    # the sum of a batch is a Python float, which is float64
    total = sum(loss(batch) for batch in overlapping(np.concatenate([[tokenizer.begin], tokens]), context))
    mean, size = total / len(tokens), len(text.encode())
    return LanguageScores(mean, perplexity(mean), total / math.log(2) / size, len(tokens), size)


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
