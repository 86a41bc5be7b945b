"""The result of decoding, by beam search or sampling."""

from collections.abc import Sequence
from dataclasses import dataclass

NEVER = float("-inf")  # log-probability of an impossible token


@dataclass(frozen=True)
class Hypothesis:
    """A generated text, as tokens without the begin and end tokens."""

    tokens: tuple[int, ...]
    token_scores: tuple[float, ...]
    """Log-probability of each token, and of the end token unless a stop condition ended the text."""
    log_probability: float
    """The sum over all tokens and the end token."""
    score: float
    """The score for ranking: the log-probability divided by (tokens)^length_penalty."""
    truncated: bool
    """Whether the text was truncated at the maximum length."""
    stopped: bool = False
    """Whether a stop condition ended the text before the end token."""


def forced(end: int, length: int, max_length: int, prefix: Sequence[int]) -> int | None:
    """The forced token after `length` tokens: from the prefix, or the end token at the maximum length; else None."""
    if length >= max_length:
        return end
    return prefix[length] if length < len(prefix) else None
