"""Convolutional encoder-decoder: gated convolutions, with attention in every layer of the decoder (Gehring et al.
2017).

Nothing is recurrent, so all positions are computed in parallel; each layer widens the receptive field. Unlike in the
paper, keys and values of the source are projected, as in a Transformer with one head.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn

from regard.blocks import masks
from regard.blocks.attention import CrossAttentionMemory, KeyValue, MultiHeadAttention
from regard.blocks.convolution import GatedConvolution
from regard.blocks.dropout import Dropout
from regard.blocks.embedding import make_embeddings
from regard.blocks.operations import OUTPUTS, Call, Operation
from regard.blocks.positions import Learned, Positions
from regard.config import Config, Layers, Positive, Problem, Rate, VocabSize, Width

HALF = 0.5**0.5  # the sum of two numbers of variance 1, times this, has variance 1


@dataclass(frozen=True, kw_only=True)
class ConvSeq2SeqConfig(Config):
    """Hyperparameters of a convolutional encoder-decoder."""

    kind: Literal["conv_seq2seq"] = "conv_seq2seq"
    vocab_size: VocabSize
    """Vocabulary size of the target; of both languages where they share one. Taken from the tokenizer."""
    source_vocab_size: VocabSize | None = None
    """Vocabulary size of the source; without it, the source shares the target's vocabulary and embedding."""
    width: Width = 256
    """Model width (d_model, hidden size)."""
    encoder_layers: Layers = 4
    """Number of encoder layers."""
    decoder_layers: Layers = 3
    """Number of decoder layers."""
    kernel: Annotated[int, Field(ge=1, le=999)] = 3
    """Kernel size of the convolutions, an odd number of tokens."""
    context: Positive = 1024
    """Context length: maximum sequence length in tokens, the number of learned positions."""
    dropout: Rate = 0.1
    """Dropout rate."""

    def problems(self) -> Iterator[Problem]:
        """Invalid combinations of values."""
        if self.kernel % 2 == 0:
            yield Problem("kernel", "has no centre; choose an odd size", self.kernel)

    def build(self) -> "ConvSeq2Seq":
        """The model, with newly initialised weights."""
        return ConvSeq2Seq(self)


@dataclass(frozen=True)
class ConvState:
    """State of the decoder: the memory of the source, and the last inputs of each layer."""

    memory: CrossAttentionMemory
    pasts: tuple[Tensor, ...]
    length: int

    def reorder(self, index_B: Tensor) -> "ConvState":
        """The state of the sentences `index_B`."""
        return ConvState(
            self.memory.reorder(index_B),
            tuple(past.index_select(0, index_B) for past in self.pasts),
            self.length,
        )


class ConvSeq2Seq(nn.Module):
    """Convolutional encoder and decoder. The output layer is tied to the target's embedding."""

    looks: ClassVar = {"decoder.*.attention": ("target", "source")}
    """The streams of queries and keys of each attention, by its path as `capture` names it."""
    parts: ClassVar = {
        **dict.fromkeys(("source_embedding", "source_positions", "encoder.*"), "source"),
        **dict.fromkeys(("target_embedding", "target_positions", "decoder.*"), "target"),
    }
    """The modules that process a token, in order, and the stream they belong to."""
    answering: ClassVar = "decoder"
    """The layers after each of which `answer` can be computed."""
    fresh: ClassVar[tuple[str, ...]] = ()
    optional: ClassVar[tuple[str, ...]] = ()

    def __init__(self, config: ConvSeq2SeqConfig) -> None:
        super().__init__()
        self.config = config
        width = config.width
        self.target_embedding, self.source_embedding = make_embeddings(
            config.vocab_size, config.source_vocab_size, width
        )
        self.source_positions = Positions(Learned(width, config.context))
        self.target_positions = Positions(Learned(width, config.context))
        self.dropout = Dropout(config.dropout)
        self.encoder = nn.ModuleList(
            ConvEncoderLayer(width, config.kernel, config.dropout) for _ in range(config.encoder_layers)
        )
        self.decoder = nn.ModuleList(ConvDecoderLayer(width, config.kernel) for _ in range(config.decoder_layers))

    def forward(self, source_BS: Tensor, target_BT: Tensor, is_padding_BS: Tensor | None = None) -> Tensor:
        """Logits of the token after each target token, given the tokens up to it (teacher forcing)."""
        return self.answer(self.hidden(source_BS, target_BT, is_padding_BS))

    def answer(self, x_BTD: Tensor) -> Tensor:
        """Logits as if x were the output of the last layer."""
        return self.target_embedding.logits(x_BTD)

    def operations(self, call: Call) -> Iterator[Operation]:
        """The logits."""
        where = ConvSeq2Seq.answer, "self.target_embedding.logits("
        yield Operation("logits", "z = E x", call.output, where, OUTPUTS)

    def hidden(self, source_BS: Tensor, target_BT: Tensor, is_padding_BS: Tensor | None = None) -> Tensor:
        """Hidden states of the target tokens, from which the next ones are predicted."""
        memory_BSD = self.encode(source_BS, is_padding_BS)
        allowed = None if is_padding_BS is None else masks.padding(is_padding_BS)
        x_BTD = self.dropout(self.target_positions(self.target_embedding(target_BT)))
        for layer in self.decoder:
            x_BTD = layer(self.dropout(x_BTD), memory_BSD, allowed)
        return self.dropout(x_BTD)

    @property
    def limit(self) -> int:
        """Maximum sequence length in tokens."""
        return self.config.context

    def output_parameters(self) -> tuple[Tensor, None]:
        """The weight matrix of the output layer, which has no bias."""
        return self.target_embedding.weight, None

    def encode(self, source_BS: Tensor, is_padding_BS: Tensor | None = None) -> Tensor:
        """The memory: hidden states of the source tokens."""
        embedded_BSD = self.dropout(self.source_positions(self.source_embedding(source_BS)))
        x_BSD = embedded_BSD
        for layer in self.encoder:
            x_BSD = layer(x_BSD, is_padding_BS)
        return (x_BSD + embedded_BSD) * HALF

    def start(self, source_BS: Tensor, is_padding_BS: Tensor | None = None) -> ConvState:
        """Encodes the source; returns the state before the first token."""
        memory_BSD = self.encode(source_BS, is_padding_BS)
        allowed = masks.padding(masks.no_padding(source_BS) if is_padding_BS is None else is_padding_BS)
        memories = tuple(layer.attention.remember(memory_BSD) for layer in self._layers())
        pasts = tuple(layer.convolution.begin(source_BS.size(0)) for layer in self._layers())
        return ConvState(CrossAttentionMemory.of(memories, allowed), pasts, 0)

    def step(self, tokens_B: Tensor, state: ConvState) -> tuple[Tensor, ConvState]:
        """Processes one token of each sentence; returns the logits of the next one and the next state."""
        x_B1D = self.target_positions(self.target_embedding(tokens_B[:, None]), state.length)
        pasts = []
        for layer, memory, past in zip(self._layers(), state.memory.layers, state.pasts, strict=True):
            y_B1D, past = layer.convolution.step(x_B1D, past)
            x_B1D = layer.join(x_B1D, y_B1D, memory, state.memory.allowed)
            pasts.append(past)
        logits_BV = self.target_embedding.logits(x_B1D)[:, 0]
        return logits_BV, ConvState(state.memory, tuple(pasts), state.length + 1)

    def _layers(self) -> "Iterator[ConvDecoderLayer]":
        return (layer for layer in self.decoder if isinstance(layer, ConvDecoderLayer))


class ConvEncoderLayer(nn.Module):
    """A gated convolution, added to x."""

    def __init__(self, width: int, kernel: int, dropout: float) -> None:
        super().__init__()
        self.convolution = GatedConvolution(width, kernel, causal=False)
        self.dropout = Dropout(dropout)

    def forward(self, x_BSD: Tensor, is_padding_BS: Tensor | None) -> Tensor:
        """The hidden states after this layer."""
        return (x_BSD + self.convolution(self.dropout(x_BSD), is_padding_BS)) * HALF

    def operations(self, call: Call) -> Iterator[Operation]:
        """The sum."""
        yield Operation("add", "(x + y) · √½", call.output, (ConvEncoderLayer.forward, "return "))


class ConvDecoderLayer(nn.Module):
    """A causal gated convolution, then attention to the source, both added to x."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.convolution = GatedConvolution(width, kernel, causal=True)
        self.attention = MultiHeadAttention(width, heads=1)

    def forward(self, x_BTD: Tensor, memory: Tensor | KeyValue, allowed: Tensor | None) -> Tensor:
        """The hidden states after this layer."""
        return self.join(x_BTD, self.convolution(x_BTD), memory, allowed)

    def join(self, x_BTD: Tensor, y_BTD: Tensor, memory: Tensor | KeyValue, allowed: Tensor | None) -> Tensor:
        """Adds to x the output y of the convolution, and the attention from y to the source."""
        y_BTD = (y_BTD + self.attention(y_BTD, memory, allowed)) * HALF
        return (x_BTD + y_BTD) * HALF

    def operations(self, call: Call) -> Iterator[Operation]:
        """Both sums."""
        gated_BTD, attended_BTD = (call.of(part).output for part in (self.convolution, self.attention))
        joined_BTD, join = (gated_BTD + attended_BTD) * HALF, ConvDecoderLayer.join
        yield Operation("add", "y = (y + c) · √½", joined_BTD, (join, "y_BTD = "))
        yield Operation("add", "(x + y) · √½", call.output, (join, "return "))
