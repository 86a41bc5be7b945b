"""How well a model knows a text: loss and perplexity of a token, and bits of a byte, which all tokenizers share.

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
MOST = 700.0  # of which exp is a number


@dataclass(frozen=True)
class LanguageScores:
    """Of all tokens of a text."""

    loss: float
    """The mean of −ln p."""
    perplexity: float
    """Among how many tokens the model is as undecided: exp(loss)."""
    bits_per_byte: float
    """What the text would take, packed with this model, for each of its bytes."""
    tokens: int
    bytes: int


def perplexity(loss: float) -> float:
    """exp(loss), or infinity where that is no number any more."""
    return math.exp(loss) if loss < MOST else math.inf


def score(
    loss: Callable[[WindowBatch], float], tokenizer: LosslessTokenizer, text: str, context: int | None
) -> LanguageScores:
    """Asks for every token once, the first one after the token that stands before any text.

    Windows overlap by half, so that at least half a context comes before every token, or else all of the text so far.
    A model without a limit reads all of the text at once.

    Args:
        loss: the summed loss of a batch.
        context: the most tokens of a window; None: any number.
    """
    tokens = np.fromiter(chain.from_iterable(tokenized(pieces(io.StringIO(text)), tokenizer)), np.int64)
    if not len(tokens):
        raise RegardError("there is no text to try the model on")
    # the sum of a batch is a Python number, which is float64
    total = sum(loss(batch) for batch in overlapping(np.concatenate([[tokenizer.begin], tokens]), context))
    mean, size = total / len(tokens), len(text.encode())
    return LanguageScores(mean, perplexity(mean), total / math.log(2) / size, len(tokens), size)


def overlapping(tokens: Indices, context: int | None) -> Iterator[WindowBatch]:
    """All of a text in windows, each half over the one before it; what that one was asked for is not asked again."""
    count = len(tokens) - 1  # of tokens to ask for
    context = count if context is None else context
    size, last, step = min(count, context), max(0, count - context), context - context // 2
    begins = np.minimum(np.arange(0, last + step, step), last)
    unasked = np.concatenate([[0], begins[:-1] + size])  # the first place that no window before reaches
    rows = max(1, BATCH_TOKENS // size)
    for i in range(0, len(begins), rows):
        places = begins[i : i + rows, None] + np.arange(size)
        following = np.where(places < unasked[i : i + rows, None], IGNORED, tokens[places + 1])
        yield WindowBatch(torch.from_numpy(tokens[places]), torch.from_numpy(following))
