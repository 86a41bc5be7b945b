"""The options and the results of completion."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

Overflow = Literal["error", "slide"]
FinishReason = Literal["end", "stop", "length"]


@dataclass(frozen=True)
class Completion:
    """A continuation of a text, with its log-probabilities."""

    text: str
    """The generated text, without the prompt and the stop string."""
    tokens: tuple[int, ...]
    """All generated tokens, including the end token and the stop string."""
    pieces: tuple[str, ...]
    """The text of each token."""
    token_log_probabilities: tuple[float, ...]
    """The log-probability of each token given those before it, before temperature, top-k and other adjustments."""
    finish_reason: FinishReason
    """The end token, a stop string, or the maximum length."""
    seed: int | None = None
    """The seed that reproduces this sample alone; None if it was not sampled."""

    @property
    def log_probability(self) -> float:
        """The log-probability of the text: the sum over all generated tokens."""
        return sum(self.token_log_probabilities)

    @property
    def mean_log_probability(self) -> float:
        """The log-probability per generated token."""
        return self.log_probability / len(self.tokens)


class CompletionOptions(TypedDict, total=False):
    """Options of both."""

    tokens: int
    """Maximum number of tokens to generate."""
    overflow: Overflow
    """What to do when prompt and continuation exceed the context: raise an "error", or "slide" the context window,
    which drops the older half of the tokens whenever it is full."""


class StreamOptions(CompletionOptions, total=False):
    """Options of a single sample; see `Sampling` for those that are not described here."""

    temperature: float
    top_k: int | None
    top_p: float
    min_p: float
    repetition_penalty: float
    seed: int
    stop: str | Sequence[str]
    """One or more stop strings; the text ends before the first one that is generated."""


class SamplingOptions(StreamOptions, total=False):
    """Options of sampling."""

    samples: int
    """Number of samples; the first has the seed, the others use the following numbers."""


class BeamOptions(CompletionOptions, total=False):
    """Options of beam search."""

    beam: int
    n_best: int
    length_penalty: float
    """Texts are ranked by their log-probability divided by (tokens)^length_penalty."""
