"""Texts as BERT reads them: [CLS] one [SEP], or [CLS] one [SEP] other [SEP]."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypeVar

import numpy as np
from pydantic import Field
from torch import Tensor

from regard.codecs.wordpiece import WordPiece
from regard.data.batches import Batch, Indices, given, pad, padding

MaxLength = Annotated[int, Field(ge=8, le=100_000)]
"""Maximum number of tokens of a text or a pair, special tokens included."""
Size = TypeVar("Size", int, Indices)


class Encoded(NamedTuple):
    """The tokens of a text or a pair, special tokens included."""

    tokens: list[int]
    first: int
    """The number of tokens of the first text, its special tokens included."""
    is_truncated: bool
    """Whether tokens were dropped to fit."""

    @property
    def segments(self) -> list[int]:
        """0 for the first text, 1 for the second."""
        return [int(i >= self.first) for i in range(len(self.tokens))]


def encode(
    tokenizer: WordPiece,
    texts: Sequence[str],
    seconds: Sequence[str | None] | None = None,
    *,
    max_length: int | None,
    parse_specials: bool = False,
) -> list[Encoded]:
    """Encodes single texts or pairs; if one is too long, the longer of its two texts is truncated at the end.

    Args:
        max_length: maximum number of tokens, special tokens included; None for no limit.
        parse_specials: special tokens in a text, such as `[MASK]`, are parsed as such instead of as plain characters.
    """
    ones = tokenizer.encode(texts, parse_specials=parse_specials)
    others: Sequence[list[int] | None] = [None] * len(texts)
    if seconds is not None:
        found = iter(tokenizer.encode([text for text in seconds if text is not None], parse_specials=parse_specials))
        others = [None if text is None else next(found) for text in seconds]
    return [with_special_tokens(tokenizer, one, other, max_length) for one, other in zip(ones, others, strict=True)]


def with_special_tokens(
    tokenizer: WordPiece, one: Sequence[int], other: Sequence[int] | None, max_length: int | None
) -> Encoded:
    """Adds special tokens to the tokens of a text or a pair, truncated to fit."""
    sizes = len(one), len(other or ())
    kept_one, kept_other = sizes if max_length is None else fit(*sizes, max_length - (2 if other is None else 3))
    first = [tokenizer.begin, *one[:kept_one], tokenizer.end]
    second = [] if other is None else [*other[:kept_other], tokenizer.end]
    return Encoded([*first, *second], len(first), (kept_one, kept_other) != sizes)


def fit(one: Size, other: Size, capacity: int) -> tuple[Size, Size]:
    """The lengths of two texts after truncation to `capacity` tokens in total.

    As in the paper's code, the longer text, or the second if they are equal, loses one token at a time.
    """
    other = np.minimum(other, np.maximum(capacity - one, capacity // 2))
    return np.minimum(one, capacity - other), other


@dataclass(frozen=True)
class TextBatch(Batch):
    """Texts as BERT reads them."""

    tokens_BT: Tensor
    segments_BT: Tensor
    is_padding_BT: Tensor | None = None

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The arguments of the model."""
        return given(self.tokens_BT, self.segments_BT, self.is_padding_BT)


def text_batch(tokenizer: WordPiece, encoded: Sequence[Encoded]) -> TextBatch:
    """Pads texts to the longest."""
    return TextBatch(
        pad([e.tokens for e in encoded], tokenizer.pad),
        pad([e.segments for e in encoded], 0),
        padding([len(e.tokens) for e in encoded]),
    )
