"""Recurrent tagger: a label for each word, such as its part of speech, from the words before it and, if
`bidirectional`, those after it.

    h_t = tanh(U x_t + V h_(t−1) + b);  P(Y_t | X_1 … X_t) = softmax(W h_t + c);  GRU and LSTM add gates to h_t

A word has several features (itself, its suffix, its shape), and x_t is the concatenation of their embeddings, so that
an unknown word still carries information.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from regard.blocks.dropout import Dropout
from regard.blocks.embedding import TokenEmbedding
from regard.blocks.operations import OUTPUTS, Call, Operation
from regard.blocks.recurrent import Cell, RecurrentEncoder
from regard.blocks.shapes import expect
from regard.config import Config, Layers, Problem, Rate, VocabSize, Width

PAD_FEATURE, UNKNOWN = 0, 1
"""The first two ids of every feature."""


@dataclass(frozen=True, kw_only=True)
class RnnTaggerConfig(Config):
    """Hyperparameters of a tagger, and its labels."""

    kind: Literal["rnn_tagger"] = "rnn_tagger"
    sizes: Annotated[tuple[VocabSize, ...], Field(min_length=1)]
    """Vocabulary size of each feature of a word, padding and unknown included; the first feature is the word. Taken
    from the tokenizer."""
    labels: Annotated[tuple[str, ...], Field(min_length=2)]
    """Tags to choose from. Taken from the data."""
    cell: Cell = "lstm"
    """Recurrent cell: tanh RNN, GRU or LSTM."""
    bidirectional: bool = True
    """Bidirectional layers: half of the width reads in each direction."""
    word_width: Width = 100
    """Embedding width of words."""
    feature_width: Width = 32
    """Embedding width of every other feature."""
    width: Width = 128
    """Hidden size of the recurrent layers."""
    layers: Layers = 1
    """Number of recurrent layers."""
    dropout: Rate = 0.3
    """Dropout rate."""
    word_dropout: Rate = 0.1
    """Word dropout: fraction of words replaced by the unknown word in training, so that its embedding is trained."""

    def problems(self) -> Iterator[Problem]:
        """Invalid combinations of values."""
        if min(self.sizes) < 2:
            yield Problem("sizes", "padding and unknown take two ids; choose at least 2 for each", self.sizes)
        if len(set(self.labels)) < len(self.labels):
            yield Problem("labels", "duplicate label; remove one", self.labels)
        if self.bidirectional and self.width % 2:
            yield Problem(
                "width", "a bidirectional encoder uses half of it per direction; choose an even width", self.width
            )

    def build(self) -> "RnnTagger":
        """The model, with newly initialised weights."""
        return RnnTagger(self)


class RnnTagger(nn.Module):
    """Reads the words of a sentence in order and scores the labels of each."""

    looks: ClassVar[dict[str, tuple[str, str]]] = {}
    """There is no attention: information passes from word to word through the recurrent states."""
    parts: ClassVar = dict.fromkeys(("embeddings.*", "encoder"), "text")
    """The modules that process a word, in order, and the stream they belong to."""
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
        """Logits over the labels for each word; those at padding are meaningless."""
        expect("features", features_BTE, "batch", "length", len(self.embeddings))
        words_BT, *others = features_BTE.unbind(2)
        features = (self._drop_words(words_BT), *others)
        vectors = [embedding(x_BT) for embedding, x_BT in zip(self.embeddings, features, strict=True)]
        states_BTD, _ = self.encoder(self.dropout(torch.cat(vectors, dim=2)), is_padding_BT)
        return self.output(self.dropout(states_BTD))

    def operations(self, call: Call) -> Iterator[Operation]:
        """The logits."""
        yield Operation("logits", "z = W x + b", call.output, (RnnTagger.forward, "self.output("), OUTPUTS)

    @property
    def limit(self) -> None:
        """Maximum sentence length: unlimited."""
        return None

    def _drop_words(self, words_BT: Tensor) -> Tensor:
        """Word dropout: in training, replaces some words by the unknown word; their other features stay."""
        if not self.training or not self.config.word_dropout:
            return words_BT
        is_dropped_BT = torch.rand(words_BT.shape, device=words_BT.device) < self.config.word_dropout
        return words_BT.masked_fill(is_dropped_BT, UNKNOWN)
