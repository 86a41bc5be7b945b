"""BERT: a Transformer encoder that reads a text, or two, in both directions (Devlin et al. 2018).

    x = LayerNorm(token + segment + position);  then encoder layers;  pooled = tanh(W x_[CLS] + b)

It is pre-trained by masked language modelling (MLM) and next-sentence prediction (NSP), then fine-tuned with another
head for a task. A text starts with [CLS], whose pooled hidden state represents the whole text; [SEP] ends each
sentence, and the segment of a token tells which of the two sentences it belongs to.
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
from regard.blocks.feedforward import Activation
from regard.blocks.heads import Pooler
from regard.blocks.initialization import normal_
from regard.blocks.layers import EncoderLayer
from regard.blocks.norms import LayerNorm
from regard.blocks.operations import Call, Operation
from regard.blocks.positions import Learned, Positions
from regard.config import Config, Layers, Positive, Problem, Rate, VocabSize, Width
from regard.models.heads import AnyHead, PretrainingHead


@dataclass(frozen=True, kw_only=True)
class BertConfig(Config):
    """Hyperparameters of a BERT, and its head."""

    kind: Literal["bert"] = "bert"
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
    context: Positive = 512
    """Context length: maximum sequence length in tokens, the number of learned positions."""
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
        if self.width % self.heads:
            yield Problem("width", f"not divisible by heads = {self.heads}", self.width)

    @property
    def task(self) -> str:
        """The task of its head."""
        return self.head.task

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its head; empty if it has none."""
        return self.head.labels

    def build(self) -> "Bert":
        """The model, with newly initialised weights."""
        return Bert(self)


class Bert(nn.Module):
    """The encoder, its pooler, and the head of a task."""

    looks: ClassVar = {"layers.*.attention": ("text", "text")}
    parts: ClassVar = dict.fromkeys(("tokens", "segments", "positions", "norm", "layers.*"), "text")
    answering: ClassVar = "layers"
    fresh: ClassVar = ("head.",)
    optional: ClassVar = ("pooler.", "head.next.")

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        width, norm = config.width, partial(LayerNorm, config.width, config.norm_eps)
        self.tokens = TokenEmbedding(config.vocab_size, width, scaled=False)
        self.segments = TokenEmbedding(config.segments, width, scaled=False)
        self.positions = Positions(Learned(width, config.context))
        self.norm = norm()
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(
                width, config.heads, config.ff_width, norm, activation=config.activation, dropout=config.dropout
            )
            for _ in range(config.layers)
        )
        self.pooler = Pooler(width) if config.head.pooled else None
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
        x_BTD = self.positions(self.tokens(tokens_BT) + self.segments(segments_BT))
        states = [self.dropout(self.norm(x_BTD))]
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
    def limit(self) -> int:
        """Maximum length of a text in tokens, [CLS] and [SEP] included."""
        return self.config.context


def _initialise(module: nn.Module) -> None:
    """Initialises weights from a narrow normal distribution and biases with 0, as in the authors' code."""
    if isinstance(module, nn.Linear | TokenEmbedding | Learned):
        normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
