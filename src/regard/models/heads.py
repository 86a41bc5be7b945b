"""Heads that any encoder may have, as its config names them: BERT's, so that other encoders serve the same tasks.

A head builds its block, and says which task it serves and whether it reads each token or the pooled vector.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol

from pydantic import AfterValidator, Field

from regard.blocks.feedforward import Activation
from regard.blocks.heads import LinearHead, WordHead
from regard.config import Config
from regard.errors import RegardError

Reads = Literal["tokens", "pooled"]


def _all_different(labels: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(labels)) < len(labels):
        raise RegardError("one of them is there twice; leave it out once")
    return labels


Labels = Annotated[tuple[str, ...], Field(min_length=2), AfterValidator(_all_different)]


class EncoderShape(Protocol):
    """What a head must know of its encoder; an encoder's config has it all."""

    @property
    def vocab_size(self) -> int:
        """The words that there are."""
        ...

    @property
    def width(self) -> int:
        """Of a token's vector."""
        ...

    @property
    def activation(self) -> Activation:
        """Of the layers, and of the head of words."""
        ...

    @property
    def norm_eps(self) -> float:
        """Of the norms."""
        ...

    @property
    def dropout(self) -> float:
        """How often a number of a vector is dropped."""
        ...


@dataclass(frozen=True, kw_only=True)
class NoHead(Config):
    """The vectors themselves."""

    task: ClassVar[str] = "embedding"
    reads: ClassVar[Reads] = "tokens"
    labels: ClassVar[tuple[str, ...]] = ()
    kind: Literal["none"] = "none"
    pooled: bool = True
    """Whether the encoder has a pooler, though no head reads it."""

    def build(self, _encoder: EncoderShape) -> None:
        """Nothing."""


@dataclass(frozen=True, kw_only=True)
class PretrainingHead(Config):
    """Which word stands at each place, and whether the second sentence follows the first."""

    task: ClassVar[str] = "pretraining"
    reads: ClassVar[Reads] = "tokens"
    labels: ClassVar[tuple[str, ...]] = ()
    kind: Literal["pretraining"] = "pretraining"
    pooled: bool = True
    """Whether the encoder has a pooler; without one, there is no next sentence prediction."""

    def build(self, encoder: EncoderShape) -> WordHead:
        """The head, with fresh weights."""
        return WordHead(
            encoder.width,
            encoder.vocab_size,
            activation=encoder.activation,
            norm_eps=encoder.norm_eps,
            next_sentence=self.pooled,
        )


@dataclass(frozen=True, kw_only=True)
class ClassificationHead(Config):
    """One of some labels for a text."""

    task: ClassVar[str] = "classification"
    reads: ClassVar[Reads] = "pooled"
    pooled: ClassVar[bool] = True
    kind: Literal["classification"] = "classification"
    labels: Labels
    """Class names. Taken from the data."""

    def build(self, encoder: EncoderShape) -> LinearHead:
        """The head, with fresh weights."""
        return LinearHead(encoder.width, len(self.labels), encoder.dropout)


@dataclass(frozen=True, kw_only=True)
class RegressionHead(Config):
    """A number for a text."""

    task: ClassVar[str] = "classification"
    reads: ClassVar[Reads] = "pooled"
    labels: ClassVar[tuple[str, ...]] = ()
    pooled: ClassVar[bool] = True
    kind: Literal["regression"] = "regression"

    def build(self, encoder: EncoderShape) -> LinearHead:
        """The head, with fresh weights."""
        return LinearHead(encoder.width, 1, encoder.dropout)


@dataclass(frozen=True, kw_only=True)
class TaggingHead(Config):
    """One of some labels for each token."""

    task: ClassVar[str] = "tagging"
    reads: ClassVar[Reads] = "tokens"
    pooled: ClassVar[bool] = False
    kind: Literal["tagging"] = "tagging"
    labels: Labels
    """Tags to choose from. Taken from the data."""

    def build(self, encoder: EncoderShape) -> LinearHead:
        """The head, with fresh weights."""
        return LinearHead(encoder.width, len(self.labels), encoder.dropout)


@dataclass(frozen=True, kw_only=True)
class SpanHead(Config):
    """Where an answer begins, and where it ends."""

    task: ClassVar[str] = "embedding"
    reads: ClassVar[Reads] = "tokens"
    labels: ClassVar[tuple[str, ...]] = ()
    pooled: ClassVar[bool] = False
    kind: Literal["span"] = "span"

    def build(self, encoder: EncoderShape) -> LinearHead:
        """The head, with fresh weights: the logits of a beginning and of an end."""
        return LinearHead(encoder.width, 2, encoder.dropout)


AnyHead = NoHead | PretrainingHead | ClassificationHead | RegressionHead | TaggingHead | SpanHead
