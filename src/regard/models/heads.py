"""Configs of the heads that any encoder may have: those of BERT, so that other encoders serve the same tasks.

A head builds its block, and declares its task and whether it reads each token or the pooled vector.
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
        raise RegardError("duplicate label; remove one")
    return labels


Labels = Annotated[tuple[str, ...], Field(min_length=2), AfterValidator(_all_different)]


class EncoderShape(Protocol):
    """The hyperparameters of an encoder that a head needs; an encoder's config has them."""

    @property
    def vocab_size(self) -> int:
        """Vocabulary size."""
        ...

    @property
    def width(self) -> int:
        """Model width."""
        ...

    @property
    def activation(self) -> Activation:
        """Activation function of the layers and of the word head."""
        ...

    @property
    def norm_eps(self) -> float:
        """Epsilon of the norms."""
        ...

    @property
    def dropout(self) -> float:
        """Dropout rate."""
        ...


@dataclass(frozen=True, kw_only=True)
class NoHead(Config):
    """No head: the output is the hidden states."""

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
    """Masked language modelling and next-sentence prediction."""

    task: ClassVar[str] = "pretraining"
    reads: ClassVar[Reads] = "tokens"
    labels: ClassVar[tuple[str, ...]] = ()
    kind: Literal["pretraining"] = "pretraining"
    pooled: bool = True
    """Whether the encoder has a pooler; without one, there is no next-sentence prediction."""

    def build(self, encoder: EncoderShape) -> WordHead:
        """The head, with newly initialised weights."""
        return WordHead(
            encoder.width,
            encoder.vocab_size,
            activation=encoder.activation,
            norm_eps=encoder.norm_eps,
            next_sentence=self.pooled,
        )


@dataclass(frozen=True, kw_only=True)
class ClassificationHead(Config):
    """Classifies a text."""

    task: ClassVar[str] = "classification"
    reads: ClassVar[Reads] = "pooled"
    pooled: ClassVar[bool] = True
    kind: Literal["classification"] = "classification"
    labels: Labels
    """Class names. Taken from the data."""
    pairs: bool | None = None
    """Whether it classifies pairs of texts; none if unknown. Taken from the data."""

    def build(self, encoder: EncoderShape) -> LinearHead:
        """The head, with newly initialised weights."""
        return LinearHead(encoder.width, len(self.labels), encoder.dropout)


@dataclass(frozen=True, kw_only=True)
class RegressionHead(Config):
    """Regression: a number for a text."""

    task: ClassVar[str] = "classification"
    reads: ClassVar[Reads] = "pooled"
    labels: ClassVar[tuple[str, ...]] = ()
    pooled: ClassVar[bool] = True
    kind: Literal["regression"] = "regression"
    pairs: bool | None = None
    """Whether its inputs are pairs of texts; none if unknown. Taken from the data."""

    def build(self, encoder: EncoderShape) -> LinearHead:
        """The head, with newly initialised weights."""
        return LinearHead(encoder.width, 1, encoder.dropout)


@dataclass(frozen=True, kw_only=True)
class TaggingHead(Config):
    """Classifies each token."""

    task: ClassVar[str] = "tagging"
    reads: ClassVar[Reads] = "tokens"
    pooled: ClassVar[bool] = False
    kind: Literal["tagging"] = "tagging"
    labels: Labels
    """Tags to choose from. Taken from the data."""

    def build(self, encoder: EncoderShape) -> LinearHead:
        """The head, with newly initialised weights."""
        return LinearHead(encoder.width, len(self.labels), encoder.dropout)


@dataclass(frozen=True, kw_only=True)
class SpanHead(Config):
    """Extractive question answering: start and end of an answer."""

    task: ClassVar[str] = "embedding"
    reads: ClassVar[Reads] = "tokens"
    labels: ClassVar[tuple[str, ...]] = ()
    pooled: ClassVar[bool] = False
    kind: Literal["span"] = "span"

    def build(self, encoder: EncoderShape) -> LinearHead:
        """The head, with newly initialised weights: the logits of a start and of an end."""
        return LinearHead(encoder.width, 2, encoder.dropout)


AnyHead = NoHead | PretrainingHead | ClassificationHead | RegressionHead | TaggingHead | SpanHead
