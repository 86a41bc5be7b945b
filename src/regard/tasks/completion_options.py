"""The options of sampling and of beam search for completion."""

from collections.abc import Sequence
from typing import Literal, TypedDict

Overflow = Literal["error", "slide"]


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
