"""What decoding gives, whichever way it chooses the tokens."""

from collections.abc import Sequence
from dataclasses import dataclass

NEVER = float("-inf")  # log-probability of what cannot be


@dataclass(frozen=True)
class Hypothesis:
    """A text that a model wrote, as tokens without beginning and end."""

    tokens: tuple[int, ...]
    token_scores: tuple[float, ...]
    """Log-probability of each token, and of the end, unless it was stopped."""
    score: float
    """What it is ranked by."""
    truncated: bool
    """It had to end because it was as long as it may be."""
    stopped: bool = False
    """It was not to go on, though it had not come to its end."""


def forced(end: int, length: int, max_length: int, prefix: Sequence[int]) -> int | None:
    """The one token that may come after `length` tokens, if there is no choice."""
    if length >= max_length:
        return end
    return prefix[length] if length < len(prefix) else None
