"""The Transformer: an encoder for the source and a decoder for the target (Vaswani et al. 2017).

Besides the paper's base and big, there are two sizes that train on a laptop, tiny and small. They use pre-norm, which,
unlike the paper's post-norm, needs no long warm-up.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, cast

import torch
from torch import Tensor, nn

from regard.blocks import masks
from regard.blocks.attention import Cache, CrossAttentionMemory, KeyValue
from regard.blocks.dropout import Dropout
from regard.blocks.embedding import make_embeddings
from regard.blocks.feedforward import Activation
from regard.blocks.layers import DecoderLayer, EncoderLayer
from regard.blocks.linear import Linear
from regard.blocks.norms import NormKind, Placement, make_norm
from regard.blocks.operations import OUTPUTS, Call, Operation
from regard.blocks.positions import Kind, Merge, Positions, make_positions
from regard.config import Config, Layers, Positive, Problem, Rate, VocabSize, Width
from regard.models.interface import Stack


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(Config):
    """Hyperparameters of a Transformer."""

    kind: Literal["transformer"] = "transformer"
    vocab_size: VocabSize
    """Vocabulary size of the target; of both languages where they share one. Taken from the tokenizer."""
    source_vocab_size: VocabSize | None = None
    """Vocabulary size of the source; without it, the source shares the target's vocabulary and embedding."""
    width: Width = 256
    """Model width (d_model, hidden size)."""
    heads: Positive = 4
    """Number of attention heads per layer."""
    ff_width: Width = 1024
    """Feed-forward width (d_ff, intermediate size)."""
    encoder_layers: Layers = 3
    """Number of encoder layers."""
    decoder_layers: Layers = 3
    """Number of decoder layers."""
    context: Positive = 1024
    """Maximum sequence length of learned and Fourier positions and of batch norm."""
    positions: Kind = "sinusoidal"
    """Positional encoding."""
    position_merge: Merge = "add"
    """How positions are merged with token embeddings; `concatenate` gives half of the width to each."""
    norm: NormKind = "layer"
    """Normalization: layer norm or batch norm."""
    norm_placement: Placement = "pre"
    """Normalization before (pre-norm) or after (post-norm) each sublayer."""
    activation: Activation = "relu"
    """Activation function of the feed-forward layers."""
    dropout: Rate = 0.1
    """Dropout rate."""
    tied: bool = True
    """Weight tying: the output layer is the target's embedding."""
    output_bias: bool = False
    """Bias of the output layer, one number per token of the vocabulary."""

    presets: ClassVar = {
        "tiny": {"width": 128, "heads": 4, "ff_width": 256, "encoder_layers": 4, "decoder_layers": 4},
        "small": {"width": 256, "heads": 4, "ff_width": 1024, "encoder_layers": 3, "decoder_layers": 3},
        "base": {
            "width": 512, "heads": 8, "ff_width": 2048, "encoder_layers": 6, "decoder_layers": 6,
            "norm_placement": "post",
        },
        "big": {
            "width": 1024, "heads": 16, "ff_width": 4096, "encoder_layers": 6, "decoder_layers": 6,
            "norm_placement": "post", "dropout": 0.3,
        },
    }  # fmt: skip

    def problems(self) -> Iterator[Problem]:
        """Invalid combinations of values."""
        if self.width % self.heads:
            below, above = self.width // self.heads * self.heads, -(-self.width // self.heads) * self.heads
            near = " or ".join(str(multiple) for multiple in (below, above) if multiple)
            yield Problem("width", f"not divisible by heads = {self.heads}; choose {near}", self.width)
        elif self.positions == "rotary" and self.width // self.heads % 2:
            yield Problem(
                "positions", f"rotates pairs, but width / heads = {self.width // self.heads} is odd", "rotary"
            )
        if self.position_merge == "concatenate":
            if self.positions in ("rotary", "none"):
                yield Problem(
                    "position_merge", f"positions = '{self.positions}' has nothing to concatenate", "concatenate"
                )
            elif self.width % 4:
                yield Problem("width", "half of it is for positions; choose a multiple of 4", self.width)
            if self.tied:
                text = "with concatenated positions, embeddings have half the model's width; set tied = false"
                yield Problem("tied", text, True)
        elif self.positions in ("sinusoidal", "sinusoidal_split", "fourier") and self.width % 2:
            yield Problem("width", f"{self.positions} positions come in pairs; choose an even width", self.width)

    def build(self) -> "Transformer":
        """The model, with newly initialised weights."""
        return Transformer(self)


@dataclass(frozen=True)
class TransformerState:
    """State of the decoder: the memory of the source, and the key-value cache of each layer."""

    memory: CrossAttentionMemory
    caches: tuple[Cache, ...]

    def reorder(self, index_B: Tensor) -> "TransformerState":
        """The state of the sentences `index_B`."""
        return TransformerState(self.memory.reorder(index_B), tuple(cache.reorder(index_B) for cache in self.caches))


class Transformer(nn.Module):
    """The encoder-decoder of the paper's Figure 1."""

    looks: ClassVar = {
        "encoder.layers.*.attention": ("source", "source"),
        "decoder.layers.*.attention": ("target", "target"),
        "decoder.layers.*.cross": ("target", "source"),
    }
    """The streams of queries and keys of each attention, by its path as `capture` names it."""
    parts: ClassVar = {
        **dict.fromkeys(("source_embedding", "encoder.positions", "encoder.layers.*", "encoder.norm"), "source"),
        **dict.fromkeys(("target_embedding", "decoder.positions", "decoder.layers.*", "decoder.norm"), "target"),
    }
    """The modules that process a token, in order, and the stream they belong to."""
    answering: ClassVar = "decoder.layers"
    """The layers after each of which `answer` can be computed."""
    fresh: ClassVar[tuple[str, ...]] = ()
    optional: ClassVar[tuple[str, ...]] = ()

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.target_embedding, self.source_embedding = make_embeddings(
            config.vocab_size, config.source_vocab_size, _token_width(config)
        )
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.output = None if config.tied else Linear(config.width, config.vocab_size, bias=False)
        self.output_bias = nn.Parameter(torch.zeros(config.vocab_size)) if config.output_bias else None
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1 and "embedding" not in name and "positions" not in name:
                nn.init.xavier_uniform_(parameter)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, source_BS: Tensor, target_BT: Tensor, is_padding_BS: Tensor | None = None) -> Tensor:
        """Logits of the token after each target token, given the tokens up to it (teacher forcing)."""
        return self.logits(self.hidden(source_BS, target_BT, is_padding_BS))

    def answer(self, x_BTD: Tensor) -> Tensor:
        """Logits as if x were the output of the decoder's last layer."""
        return self.logits(x_BTD if self.decoder.norm is None else self.decoder.norm(x_BTD))

    def hidden(self, source_BS: Tensor, target_BT: Tensor, is_padding_BS: Tensor | None = None) -> Tensor:
        """Hidden states of the target tokens, from which `logits` predicts the next ones."""
        return self.decode(target_BT, self.encode(source_BS, is_padding_BS), is_padding_BS)

    def encode(self, source_BS: Tensor, is_padding_BS: Tensor | None = None) -> Tensor:
        """The memory: hidden states of the source tokens."""
        return self.encoder(self.source_embedding(source_BS), _allowed(is_padding_BS))

    def decode(self, target_BT: Tensor, memory_BSD: Tensor, is_padding_BS: Tensor | None = None) -> Tensor:
        """Hidden states of the target tokens, given the memory of the source."""
        x_BTE, layers = self.target_embedding(target_BT), self.config.decoder_layers
        return self.decoder(x_BTE, [memory_BSD] * layers, _allowed(is_padding_BS), [None] * layers)

    def logits(self, x_BTD: Tensor) -> Tensor:
        """The logits over the vocabulary."""
        logits_BTV = self.target_embedding.logits(x_BTD) if self.output is None else self.output(x_BTD)
        return logits_BTV if self.output_bias is None else logits_BTV + self.output_bias

    def operations(self, call: Call) -> Iterator[Operation]:
        """The logits."""
        equation = ("z = E x" if self.output is None else "z = W x") + ("" if self.output_bias is None else " + b")
        yield Operation("logits", equation, call.output, (Transformer.logits, "self.output(x_BTD)"), OUTPUTS)

    @property
    def limit(self) -> int | None:
        """Maximum sequence length in tokens; None: unlimited."""
        config = self.config
        is_limited = config.positions in ("learned", "fourier") or config.norm == "batch"
        return config.context if is_limited else None

    def output_parameters(self) -> tuple[Tensor, Tensor | None]:
        """The weight matrix of the output layer, and its bias if it has one."""
        weight_VD = self.target_embedding.weight if self.output is None else self.output.weight
        return weight_VD, self.output_bias

    def stack(self) -> Stack:
        """The modules that process each target token."""
        return Stack(self.target_embedding, self.decoder.positions, self.decoder.layers, self.decoder.norm)

    def start(self, source_BS: Tensor, is_padding_BS: Tensor | None = None) -> TransformerState:
        """Encodes the source, and computes its keys and values for each layer of the decoder once."""
        layers = self.decoder.remember(self.encode(source_BS, is_padding_BS))
        allowed = masks.padding(masks.no_padding(source_BS) if is_padding_BS is None else is_padding_BS)
        memory = CrossAttentionMemory.of(layers, allowed)
        return TransformerState(memory, tuple(Cache() for _ in memory.layers))

    def step(self, tokens_B: Tensor, state: TransformerState) -> tuple[Tensor, TransformerState]:
        """Processes one token of each sentence; returns the logits of the next one. The given state is consumed."""
        x_B1E = self.target_embedding(tokens_B[:, None])
        x_B1D = self.decoder(x_B1E, state.memory.layers, state.memory.allowed, state.caches)
        return self.logits(x_B1D)[:, 0], state


class Encoder(nn.Module):
    """The encoder, left in the figure."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.positions = _positions(config)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(_layer(EncoderLayer, config) for _ in range(config.encoder_layers))
        self.norm = _last_norm(config)

    def forward(self, x_BSE: Tensor, allowed: Tensor | None) -> Tensor:
        """The hidden states of the source tokens."""
        x_BSD = self.dropout(x_BSE if self.positions is None else self.positions(x_BSE))
        for layer in self.layers:
            x_BSD = layer(x_BSD, allowed)
        return x_BSD if self.norm is None else self.norm(x_BSD)


class Decoder(nn.Module):
    """The decoder, right in the figure."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.positions = _positions(config)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(_layer(DecoderLayer, config) for _ in range(config.decoder_layers))
        self.norm = _last_norm(config)

    def forward(
        self,
        x_BTE: Tensor,
        memories: Sequence[Tensor | KeyValue],
        memory_allowed: Tensor | None,
        caches: Sequence[Cache | None],
    ) -> Tensor:
        """The hidden states of the target tokens, which depend on the tokens before them, cached ones included."""
        start = caches[0].length if caches[0] else 0
        length = x_BTE.size(1)
        allowed = masks.causal(length, start + length, x_BTE.device) if length > 1 else None
        x_BTD = self.dropout(x_BTE if self.positions is None else self.positions(x_BTE, start))
        for layer, memory, cache in zip(self.layers, memories, caches, strict=True):
            x_BTD = layer(x_BTD, memory, allowed, memory_allowed, cache)
        return x_BTD if self.norm is None else self.norm(x_BTD, start)

    def remember(self, memory_BSD: Tensor) -> tuple[KeyValue, ...]:
        """Keys and values of the source for each layer."""
        return tuple(cast(DecoderLayer, layer).cross.remember(memory_BSD) for layer in self.layers)


def _allowed(is_padding_BS: Tensor | None) -> Tensor | None:
    return None if is_padding_BS is None else masks.padding(is_padding_BS)


def _token_width(config: TransformerConfig) -> int:
    return config.width // 2 if config.position_merge == "concatenate" else config.width


def _positions(config: TransformerConfig) -> Positions | None:
    return make_positions(config.positions, _token_width(config), config.context, config.position_merge)


def _layer(kind: type[EncoderLayer | DecoderLayer], config: TransformerConfig) -> EncoderLayer | DecoderLayer:
    return kind(
        config.width,
        config.heads,
        config.ff_width,
        norm=partial(make_norm, config.norm, config.width, config.context),
        placement=config.norm_placement,
        activation=config.activation,
        dropout=config.dropout,
        rotary=config.positions == "rotary",
    )


def _last_norm(config: TransformerConfig) -> nn.Module | None:
    """The final norm of a pre-norm model, whose last residual sum is not normalised yet."""
    return make_norm(config.norm, config.width, config.context) if config.norm_placement == "pre" else None
