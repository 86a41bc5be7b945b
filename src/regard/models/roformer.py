"""RoFormer: BERT's encoder with rotary positions, for texts of any length (Su et al. 2021).

    f(q, m) = R_m q,  f(k, n) = R_n k;  so that  f(q, m) · f(k, n) = q · R_(n−m) k  depends on the distance only

    x = LayerNorm(token + segment);  then encoder layers;  pooled = g(W x_[CLS] + b),  g the layers' activation

Each layer rotates its queries and keys by their positions. There is no table of positions, so texts may have any
length, but the model may not generalise to distances that it was not trained on. Tasks and heads are BERT's.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn

from regard.blocks import masks
from regard.blocks.dropout import Dropout
from regard.blocks.embedding import TokenEmbedding
from regard.blocks.feedforward import ACTIVATIONS, Activation
from regard.blocks.heads import Pooler
from regard.blocks.initialization import normal_
from regard.blocks.layers import EncoderLayer
from regard.blocks.norms import LayerNorm
from regard.blocks.operations import Call, Operation
from regard.config import Config, Layers, Positive, Problem, Rate, VocabSize, Width
from regard.models.heads import AnyHead, PretrainingHead


@dataclass(frozen=True, kw_only=True)
class RoFormerConfig(Config):
    """Hyperparameters of a RoFormer, and its head."""

    kind: Literal["roformer"] = "roformer"
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
    segments: Positive = 2
    """Number of segment embeddings (token types)."""
    activation: Activation = "gelu"
    """Activation function of the feed-forward layers."""
    norm_eps: Annotated[float, Field(gt=0)] = 1e-12
    """Epsilon of layer normalization, added to the variance."""
    dropout: Rate = 0.1
    """Dropout rate."""
    head: Annotated[AnyHead, Field(discriminator="kind")] = PretrainingHead()  # noqa: RUF009, it is frozen
    """Head for the task. Chosen by the data, not written in a recipe."""

    presets: ClassVar = {
        "tiny": {"width": 128, "heads": 2, "ff_width": 512, "layers": 2},
        "mini": {"width": 256, "heads": 4, "ff_width": 1024, "layers": 4},
        "small": {"width": 512, "heads": 8, "ff_width": 2048, "layers": 4},
        "base": {"width": 768, "heads": 12, "ff_width": 3072, "layers": 12},
        "large": {"width": 1024, "heads": 16, "ff_width": 4096, "layers": 24},
    }

    def problems(self) -> Iterator[Problem]:
        """Invalid combinations of values."""
        if self.width % (2 * self.heads):
            why = f"not divisible by 2 × heads = {2 * self.heads}; each head rotates pairs of dimensions"
            yield Problem("width", why, self.width)

    @property
    def task(self) -> str:
        """The task of its head."""
        return self.head.task

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its head; empty if it has none."""
        return self.head.labels

    def build(self) -> "RoFormer":
        """The model, with newly initialised weights."""
        return RoFormer(self)


class RoFormer(nn.Module):
    """The encoder, its pooler, and the head of a task."""

    looks: ClassVar = {"layers.*.attention": ("text", "text")}
    parts: ClassVar = dict.fromkeys(("tokens", "segments", "norm", "layers.*"), "text")
    answering: ClassVar = "layers"
    fresh: ClassVar = ("head.",)
    optional: ClassVar = ("pooler.", "head.next.")

    def __init__(self, config: RoFormerConfig) -> None:
        super().__init__()
        self.config = config
        width, norm = config.width, partial(LayerNorm, config.width, config.norm_eps)
        self.tokens = TokenEmbedding(config.vocab_size, width, scaled=False)
        self.segments = TokenEmbedding(config.segments, width, scaled=False)
        self.norm = norm()
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(
                width,
                config.heads,
                config.ff_width,
                norm,
                activation=config.activation,
                dropout=config.dropout,
                rotary=True,
            )
            for _ in range(config.layers)
        )
        self.pooler = Pooler(width, ACTIVATIONS[config.activation]) if config.head.pooled else None
        self.head = config.head.build(config)
        self.apply(_initialise)

    def forward(self, tokens_BT: Tensor, segments_BT: Tensor, is_padding_BT: Tensor | None = None) -> Tensor:
        """The output of the head: for each token or, as a sequence of length 1, for the text."""
        return self.answer(self.hidden(tokens_BT, segments_BT, is_padding_BT))

    def hidden(self, tokens_BT: Tensor, segments_BT: Tensor, is_padding_BT: Tensor | None = None) -> Tensor:
        """The hidden states of the last layer, one vector per token."""
        return self.states(tokens_BT, segments_BT, is_padding_BT)[-1]

    def states(self, tokens_BT: Tensor, segments_BT: Tensor, is_padding_BT: Tensor | None = None) -> list[Tensor]:
        """All hidden states: the input of the first layer, and the output of each layer."""
        states = [self.dropout(self.norm(self.tokens(tokens_BT) + self.segments(segments_BT)))]
        allowed = None if is_padding_BT is None else masks.padding(is_padding_BT)
        for layer in self.layers:
            states.append(layer(states[-1], allowed))
        return states

    def pool(self, x_BTD: Tensor) -> Tensor:
        """The pooled vector, which represents the whole text."""
        assert self.pooler is not None
        return self.pooler(x_BTD)

    def answer(self, x_BTD: Tensor) -> Tensor:
        """The output of the head, given hidden states."""
        if self.head is None:
            return x_BTD
        return self.head.answer(self.pool(x_BTD) if self.config.head.reads == "pooled" else x_BTD, self.tokens)

    def operations(self, call: Call) -> Iterator[Operation]:
        """The pooler, if the head reads it, and the head."""
        if self.head is not None:
            if self.pooler is not None and self.config.head.reads == "pooled":
                yield from call.tell(self.pooler)
            yield from self.head.answer_operations(call)

    @property
    def limit(self) -> None:
        """Maximum length of a text in tokens: unlimited."""
        return None


def _initialise(module: nn.Module) -> None:
    """Initialises weights from a narrow normal distribution and biases with 0, as in BERT."""
    if isinstance(module, nn.Linear | TokenEmbedding):
        normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
