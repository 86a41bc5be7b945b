"""GPT-2: a decoder-only Transformer, which continues a text (Radford et al. 2019).

    x_0 = token + position,  x_l = layer_l(x_(l−1)),  logits = E · LayerNorm(x_L)

with the norm before each sublayer (pre-norm) and the token embedding E. Attention is causal, so that the next token is
predicted at all positions of a text in parallel. The output weights of the sublayers are initialised in inverse
proportion to √(2 · layers), so that the variance of the residual sum does not grow with depth.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal, cast

from pydantic import Field
from torch import Tensor, nn

from regard.blocks import masks
from regard.blocks.attention import Cache
from regard.blocks.dropout import Dropout
from regard.blocks.embedding import TokenEmbedding
from regard.blocks.feedforward import Activation
from regard.blocks.initialization import normal_
from regard.blocks.layers import EncoderLayer
from regard.blocks.norms import LayerNorm
from regard.blocks.operations import OUTPUTS, Call, Operation
from regard.blocks.positions import Learned, Positions
from regard.config import Config, Layers, Positive, Problem, Rate, VocabSize, Width
from regard.models.interface import Stack


@dataclass(frozen=True, kw_only=True)
class Gpt2Config(Config):
    """Hyperparameters of a GPT-2."""

    kind: Literal["gpt2"] = "gpt2"
    vocab_size: VocabSize
    """Vocabulary size. Taken from the tokenizer."""
    width: Width = 768
    """Model width (d_model, hidden size)."""
    heads: Positive = 12
    """Number of attention heads per layer."""
    ff_width: Width = 3072
    """Feed-forward width (d_ff, intermediate size)."""
    layers: Layers = 12
    """Number of layers."""
    context: Positive = 1024
    """Context length: maximum sequence length in tokens, the number of learned positions."""
    activation: Activation = "gelu_tanh"
    """Activation function of the feed-forward layers."""
    norm_eps: Annotated[float, Field(gt=0)] = 1e-5
    """Epsilon of layer normalization, added to the variance."""
    dropout: Rate = 0.1
    """Dropout rate."""

    presets: ClassVar = {
        "small": {"width": 768, "heads": 12, "ff_width": 3072, "layers": 12},
        "medium": {"width": 1024, "heads": 16, "ff_width": 4096, "layers": 24},
        "large": {"width": 1280, "heads": 20, "ff_width": 5120, "layers": 36},
        "xl": {"width": 1600, "heads": 25, "ff_width": 6400, "layers": 48},
    }

    def problems(self) -> Iterator[Problem]:
        """Invalid combinations of values."""
        if self.width % self.heads:
            yield Problem("width", f"not divisible by heads = {self.heads}", self.width)

    def build(self) -> "Gpt2":
        """The model, with newly initialised weights."""
        return Gpt2(self)


@dataclass(frozen=True)
class Gpt2State:
    """State of the model: the key-value cache of each layer."""

    caches: tuple[Cache, ...]

    @property
    def length(self) -> int:
        """The number of tokens so far."""
        return self.caches[0].length

    def reorder(self, index_B: Tensor) -> "Gpt2State":
        """The state of the texts `index_B`."""
        return Gpt2State(tuple(cache.reorder(index_B) for cache in self.caches))


class Gpt2(nn.Module):
    """The decoder; its output layer is the token embedding."""

    looks: ClassVar = {"layers.*.attention": ("text", "text")}
    parts: ClassVar = dict.fromkeys(("tokens", "positions", "layers.*", "norm"), "text")
    answering: ClassVar = "layers"
    fresh: ClassVar[tuple[str, ...]] = ()
    optional: ClassVar[tuple[str, ...]] = ()

    def __init__(self, config: Gpt2Config) -> None:
        super().__init__()
        self.config = config
        width, norm = config.width, partial(LayerNorm, config.width, config.norm_eps)
        self.tokens = TokenEmbedding(config.vocab_size, width, scaled=False)
        self.positions = Positions(Learned(width, config.context))
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(
                width,
                config.heads,
                config.ff_width,
                norm,
                placement="pre",
                activation=config.activation,
                dropout=config.dropout,
            )
            for _ in range(config.layers)
        )
        self.norm = norm()
        self._initialise()

    def _initialise(self) -> None:
        """Initialises weights from a narrow normal distribution and biases with 0, as in the authors' code."""
        for module in self.modules():
            if isinstance(module, nn.Linear | TokenEmbedding):
                normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
            if isinstance(module, Learned):
                normal_(module.weight, std=0.01)
        for layer in cast(Sequence[EncoderLayer], self.layers):
            for last in (layer.attention.out, layer.feedforward.outer):
                normal_(last.weight, std=0.02 * (2 * self.config.layers) ** -0.5)

    def forward(self, tokens_BT: Tensor) -> Tensor:
        """Logits of the token after each token, given the tokens up to it."""
        return self.tokens.logits(self.hidden(tokens_BT))

    def hidden(self, tokens_BT: Tensor) -> Tensor:
        """Hidden states of the tokens, from which the next ones are predicted."""
        return self.norm(self._read(tokens_BT, [None] * self.config.layers))

    def answer(self, x_BTD: Tensor) -> Tensor:
        """Logits as if x were the output of the last layer."""
        return self.tokens.logits(self.norm(x_BTD))

    def operations(self, call: Call) -> Iterator[Operation]:
        """The logits."""
        yield Operation("logits", "z = E x", call.output, (Gpt2.forward, "self.tokens.logits("), OUTPUTS)

    @property
    def limit(self) -> int:
        """Maximum length of a text in tokens."""
        return self.config.context

    def output_parameters(self) -> tuple[Tensor, None]:
        """The weight matrix of the output layer, which has no bias."""
        return self.tokens.weight, None

    def stack(self) -> Stack:
        """The modules that process each token."""
        return Stack(self.tokens, self.positions, self.layers, self.norm)

    def start(self, tokens_BT: Tensor) -> Gpt2State:
        """Processes the first tokens of the texts, possibly none; `step` takes the next one."""
        caches = tuple(Cache() for _ in self.layers)
        if tokens_BT.size(1):
            self._read(tokens_BT, caches)
        return Gpt2State(caches)

    def step(self, tokens_B: Tensor, state: Gpt2State) -> tuple[Tensor, Gpt2State]:
        """Processes one token of each text; returns the logits of the next one. The given state is consumed."""
        x_B1D = self._read(tokens_B[:, None], state.caches)
        return self.answer(x_B1D)[:, 0], state

    def _read(self, tokens_BT: Tensor, caches: Sequence[Cache | None]) -> Tensor:
        """The output of the last layer for each token, given those before it, including those in the caches."""
        start, length = caches[0].length if caches[0] else 0, tokens_BT.size(1)
        allowed = masks.causal(length, start + length, tokens_BT.device) if length > 1 else None
        x_BTD = self.dropout(self.positions(self.tokens(tokens_BT), start))
        for layer, cache in zip(self.layers, caches, strict=True):
            x_BTD = layer(x_BTD, allowed, cache)
        return x_BTD
