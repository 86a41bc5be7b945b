"""Recurrent tagger: a label for each word, such as its part of speech, from the words before it and, if
`bidirectional`, those after it.

    h_t = tanh(U x_t + V h_(t−1) + b);  P(Y_t | X_1 … X_t) = softmax(W h_t + c);  GRU and LSTM add gates to h_t

A word comes as several numbers (itself, its ending, its shape), and x_t is their vectors side by side, so that a word
never seen still says something about itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.blocks.dropout import Dropout
from regard.blocks.embedding import TokenEmbedding
from regard.blocks.recurrent import Cell, RecurrentEncoder
from regard.blocks.shapes import expect
from regard.config import Config, Positive, Problem, Rate

PAD_FEATURE, UNKNOWN = 0, 1
"""The first two numbers of every feature."""


@dataclass(frozen=True, kw_only=True)
class RnnTaggerConfig(Config):
    """A tagger's shape, and its labels."""

    kind: Literal["rnn_tagger"] = "rnn_tagger"
    sizes: Annotated[tuple[Positive, ...], Field(min_length=1)]
    """Vocabulary size of each feature of a word, padding and unknown included; the first feature is the word. Taken
    from the tokenizer."""
    labels: Annotated[tuple[str, ...], Field(min_length=2)]
    """Tags to choose from. Taken from the data."""
    cell: Cell = "lstm"
    """Recurrent cell: tanh RNN, GRU or LSTM."""
    bidirectional: bool = True
    """Bidirectional layers: half of the width reads in each direction."""
    word_width: Positive = 100
    """Embedding width of words."""
    feature_width: Positive = 32
    """Embedding width of every other feature."""
    width: Positive = 128
    """Hidden size of the recurrent layers."""
    layers: Positive = 1
    """Number of recurrent layers."""
    dropout: Rate = 0.3
    """Dropout rate."""
    word_dropout: Rate = 0.1
    """Word dropout: share of the words replaced by the unknown word in training, so that unknown words are learnt
    about."""

    def problems(self) -> Iterator[Problem]:
        """Values that cannot go together."""
        if min(self.sizes) < 2:
            yield Problem("sizes", "padding and unknown take two numbers; choose 2 or more for each", self.sizes)
        if len(set(self.labels)) < len(self.labels):
            yield Problem("labels", "one of them is there twice; leave it out once", self.labels)
        if self.bidirectional and self.width % 2:
            yield Problem("width", "half of it reads in each direction; choose an even one", self.width)

    def build(self) -> "RnnTagger":
        """The model, with fresh weights."""
        return RnnTagger(self)


class RnnTagger(nn.Module):
    """Reads the words of a sentence in order and scores the labels of each."""

    looks: ClassVar[dict[str, tuple[str, str]]] = {}
    """Nobody looks at anybody: what a word knows of another one has come through the states between them."""
    parts: ClassVar = dict.fromkeys(("embeddings.*", "encoder", "output"), "text")
    """What a word goes through, in order, and the stream that it belongs to."""
    fresh: ClassVar = ("output.",)
    optional: ClassVar[tuple[str, ...]] = ()

    def __init__(self, config: RnnTaggerConfig) -> None:
        super().__init__()
        self.config = config
        widths = (config.word_width, *(config.feature_width for _ in config.sizes[1:]))
        self.embeddings = nn.ModuleList(map(TokenEmbedding, config.sizes, widths))
        self.dropout = Dropout(config.dropout)
        self.encoder = RecurrentEncoder(
            config.cell,
            sum(widths),
            config.width // 2 if config.bidirectional else config.width,
            layers=config.layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        self.output = nn.Linear(config.width, len(config.labels))

    def forward(self, features_BTE: Tensor, is_padding_BT: Tensor | None = None) -> Tensor:
        """Logits over the labels for each word; what they are at padding means nothing."""
        expect("features", features_BTE, "batch", "length", len(self.embeddings))
        words_BT, *others = features_BTE.unbind(2)
        features = (self._forget(words_BT), *others)
        vectors = [embedding(x_BT) for embedding, x_BT in zip(self.embeddings, features, strict=True)]
        states_BTD, _ = self.encoder(self.dropout(torch.cat(vectors, dim=2)), is_padding_BT)
        return self.output(self.dropout(states_BTD))

    @property
    def limit(self) -> None:
        """The most words that a sentence may have: any number."""
        return None

    def _forget(self, words_BT: Tensor) -> Tensor:
        """In training, makes some words unknown; the other features of a word stay."""
        if not self.training or not self.config.word_dropout:
            return words_BT
        forgotten_BT = torch.rand(words_BT.shape, device=words_BT.device) < self.config.word_dropout
        return words_BT.masked_fill(forgotten_BT, UNKNOWN)
