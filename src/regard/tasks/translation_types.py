"""The options and the results of translation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

from regard.explain.alignment import Alignment


@dataclass(frozen=True)
class Translation:
    """A translation with its log-probabilities."""

    text: str
    log_probability: float
    """The sum over all tokens, the end token included."""
    truncated: bool = False
    """Whether the translation or the source was truncated at the maximum length."""
    words: tuple[str, ...] = ()
    word_log_probabilities: tuple[float, ...] = ()
    """Log-probability of each word, with the space before it, given the words before it; if requested."""
    end_log_probability: float | None = None
    """Log-probability of ending after the last word, if requested; with those of the words, it adds up to the sum."""
    alignment: Alignment | None = None
    """The source words that each word attends to, if requested."""
    tokens: tuple[int, ...] = ()
    """The generated tokens, without the end token."""

    @property
    def mean_log_probability(self) -> float:
        """The log-probability per token, the end token included."""
        return self.log_probability / (len(self.tokens) + 1)


class TranslationOptions(TypedDict, total=False):
    """Options of both beam search and sampling."""

    prefixes: str | Sequence[str]
    """For each text, the words that its translation must begin with."""
    align: bool
    """Whether to compute alignments."""
    scores: bool
    """Whether to compute the log-probabilities of words; some engines are faster without them."""
    batch_tokens: int


class SearchOptions(TranslationOptions, total=False):
    """Options of beam search."""

    beam: int
    n_best: int
    length_penalty: float
    """Translations are ranked by their log-probability divided by (tokens)^length_penalty."""


class SamplingOptions(TranslationOptions, total=False):
    """Options of sampling; see `Sampling`."""

    samples: int
    temperature: float
    top_k: int | None
    top_p: float
    seed: int
