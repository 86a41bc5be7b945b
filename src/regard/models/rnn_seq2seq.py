"""Recurrent encoder-decoder with attention (Bahdanau et al. 2015), or without (Sutskever et al. 2014).

The encoder reads the source in both directions; the decoder attends to all encoder states before each token it writes.
With `attention = "none"`, its initial state is all the information that it has about the source.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from regard.blocks.dropout import Dropout
from regard.blocks.embedding import make_embeddings
from regard.blocks.operations import OUTPUTS, Call, Operation
from regard.blocks.recurrent import AttentiveCell, Cell, CellState, RecurrentEncoder
from regard.blocks.scores import AdditiveScore, DotScore, LocationAwareScore, ScoredAttention
from regard.config import Config, Layers, Problem, Rate, VocabSize, Width


@dataclass(frozen=True, kw_only=True)
class RnnSeq2SeqConfig(Config):
    """Hyperparameters of a recurrent encoder-decoder."""

    kind: Literal["rnn_seq2seq"] = "rnn_seq2seq"
    vocab_size: VocabSize
    """Vocabulary size of the target; of both languages where they share one. Taken from the tokenizer."""
    source_vocab_size: VocabSize | None = None
    """Vocabulary size of the source; without it, the source shares the target's vocabulary and embedding."""
    cell: Cell = "gru"
    """Recurrent cell: tanh RNN, GRU or LSTM."""
    attention: Literal["none", "dot", "scaled_dot", "additive", "location_aware"] = "additive"
    """Attention of the decoder to the source: its score function, or none."""
    width: Width = 256
    """Model width (hidden size), of embeddings and of recurrent layers."""
    encoder_layers: Layers = 1
    """Number of encoder layers."""
    decoder_layers: Layers = 1
    """Number of decoder layers."""
    bidirectional: bool = True
    """Bidirectional encoder: half of the width reads in each direction."""
    dropout: Rate = 0.1
    """Dropout rate."""

    def problems(self) -> Iterator[Problem]:
        """Invalid combinations of values."""
        if self.bidirectional and self.width % 2:
            yield Problem(
                "width", "a bidirectional encoder uses half of it per direction; choose an even width", self.width
            )

    def build(self) -> "RnnSeq2Seq":
        """The model, with newly initialised weights."""
        return RnnSeq2Seq(self)


class RnnSeq2Seq(nn.Module):
    """Recurrent encoder and decoder. The output layer is tied to the target's embedding."""

    looks: ClassVar = {"decoder.attention": ("target", "source")}
    """The streams of queries and keys of each attention, by its path as `capture` names it."""
    parts: ClassVar = {
        **dict.fromkeys(("source_embedding", "encoder"), "source"),
        **dict.fromkeys(("target_embedding", "decoder", "read"), "target"),
    }
    """The modules that process a token, in order, and the stream they belong to."""
    fresh: ClassVar[tuple[str, ...]] = ()
    optional: ClassVar[tuple[str, ...]] = ()

    def __init__(self, config: RnnSeq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.target_embedding, self.source_embedding = make_embeddings(
            config.vocab_size, config.source_vocab_size, width
        )
        self.dropout = Dropout(config.dropout)
        self.encoder = RecurrentEncoder(
            config.cell,
            width,
            width // 2 if config.bidirectional else width,
            layers=config.encoder_layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
        )
        self.decoder = AttentiveCell(
            config.cell,
            width,
            width,
            memory_width=width,
            attention=_attention(config),
            layers=config.decoder_layers,
            dropout=config.dropout,
        )
        # the prediction depends on the previous token, the state and the context
        self.read = nn.Linear(width + self.decoder.out_width, width)

    def forward(self, source_BS: Tensor, target_BT: Tensor, is_padding_BS: Tensor | None = None) -> Tensor:
        """Logits of the token after each target token, given the tokens up to it (teacher forcing)."""
        return self.target_embedding.logits(self.hidden(source_BS, target_BT, is_padding_BS))

    def hidden(self, source_BS: Tensor, target_BT: Tensor, is_padding_BS: Tensor | None = None) -> Tensor:
        """Hidden states of the target tokens, from which the next ones are predicted."""
        state = self.start(source_BS, is_padding_BS)
        given_BTD = self.dropout(self.target_embedding(target_BT))
        out_BTE, _ = self.decoder.unroll(given_BTD, state)
        return self._read(given_BTD, out_BTE)

    def operations(self, call: Call) -> Iterator[Operation]:
        """The activation after `read`, and the logits."""
        yield Operation("tanh", "x = tanh(y)", call.of(self.read).output.tanh(), (RnnSeq2Seq._read, ".tanh()"))
        where = RnnSeq2Seq.forward, "self.target_embedding.logits("
        yield Operation("logits", "z = E x", call.output, where, OUTPUTS)

    @property
    def limit(self) -> None:
        """Maximum sequence length: unlimited."""
        return None

    def output_parameters(self) -> tuple[Tensor, None]:
        """The weight matrix of the output layer, which has no bias."""
        return self.target_embedding.weight, None

    def start(self, source_BS: Tensor, is_padding_BS: Tensor | None = None) -> CellState:
        """Encodes the source; returns the state before the first token."""
        memory_BSD, final_BD = self.encoder(self.dropout(self.source_embedding(source_BS)), is_padding_BS)
        return self.decoder.start(self.dropout(memory_BSD), final_BD, is_padding_BS)

    def step(self, tokens_B: Tensor, state: CellState) -> tuple[Tensor, CellState]:
        """Processes one token of each sentence; returns the logits of the next one and the next state."""
        x_B1D = self.target_embedding(tokens_B[:, None])
        out, state = self.decoder(x_B1D[:, 0], state)
        return self.target_embedding.logits(self._read(x_B1D, out[:, None]))[:, 0], state

    def _read(self, x_BTD: Tensor, out_BTE: Tensor) -> Tensor:
        return self.dropout(self.read(torch.cat((x_BTD, out_BTE), dim=2)).tanh())


def _attention(config: RnnSeq2SeqConfig) -> ScoredAttention | None:
    width = config.width
    if config.attention == "none":
        return None
    if config.attention == "additive":
        return ScoredAttention(AdditiveScore(width, width, width))
    if config.attention == "location_aware":
        return ScoredAttention(LocationAwareScore(width, width, width))
    return ScoredAttention(DotScore(width, width, scaled=config.attention == "scaled_dot"))
