"""Texts as BERT reads them: [CLS] one [SEP], or [CLS] one [SEP] other [SEP]."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from regard.data.batches import pad
from regard.data.wordpiece import WordPiece


class Encoded(NamedTuple):
    """The tokens of a text, or of two, with the marks."""

    tokens: list[int]
    first: int
    """How many of them belong to the first text, its marks included."""
    is_cut: bool
    """There were more."""

    @property
    def segments(self) -> list[int]:
        """0 for the first text, 1 for the second."""
        return [int(i >= self.first) for i in range(len(self.tokens))]


def encode(
    tokenizer: WordPiece,
    texts: Sequence[str],
    seconds: Sequence[str | None] | None = None,
    *,
    longest: int,
    orders: bool = False,
) -> list[Encoded]:
    """Texts, each alone or with a second one; of what is too long, the end of the longer text is cut off.

    Args:
        orders: `[MASK]` in a text is the mask and not five characters.
    """
    ones = tokenizer.encode(texts, orders=orders)
    others: Sequence[list[int] | None] = [None] * len(texts)
    if seconds is not None:
        found = iter(tokenizer.encode([text for text in seconds if text is not None], orders=orders))
        others = [None if text is None else next(found) for text in seconds]
    return [marked(tokenizer, one, other, longest) for one, other in zip(ones, others, strict=True)]


def marked(tokenizer: WordPiece, one: Sequence[int], other: Sequence[int] | None, longest: int) -> Encoded:
    """Tokens of a text, or of two, with marks, cut to fit."""
    marks = 2 if other is None else 3
    sizes = len(one), len(other or ())
    # token by token from the longer one, as the paper's code does; from the second, if they are equal
    kept_other = min(sizes[1], max(longest - marks - sizes[0], (longest - marks) // 2))
    kept_one = min(sizes[0], longest - marks - kept_other)
    first = [tokenizer.begin, *one[:kept_one], tokenizer.end]
    second = [] if other is None else [*other[:kept_other], tokenizer.end]
    return Encoded([*first, *second], len(first), (kept_one, kept_other) != sizes)


def tensors(tokenizer: WordPiece, encoded: Sequence[Encoded]) -> tuple[Tensor, Tensor]:
    """tokens_BT and segments_BT."""
    return pad([e.tokens for e in encoded], tokenizer.pad), pad([e.segments for e in encoded], 0)
