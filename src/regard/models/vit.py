"""ViT: a Transformer encoder that reads an image as a sequence of patches (Dosovitskiy et al. 2021).

    x = [class token, W · patch_1 + b, ..., W · patch_P + b] + positions;  pre-norm encoder layers;  y = LayerNorm(x)

The class token's last hidden state represents the image; the mean or an attention-weighted mean of all patches are the
alternatives. Beside the paper's linear stem there is the convolutional one of Compact Transformers (Hassani et al.
2021), which learns from fewer images.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import Tensor, nn

from regard.blocks.dropout import Dropout
from regard.blocks.feedforward import Activation
from regard.blocks.heads import LinearHead
from regard.blocks.initialization import normal_
from regard.blocks.layers import EncoderLayer
from regard.blocks.norms import LayerNorm
from regard.blocks.operations import OUTPUTS, Call, Operation
from regard.blocks.patches import (
    AttentionPool,
    ConvolutionalStem,
    Learned2d,
    LinearStem,
    PatchEmbedding,
    Sinusoidal2d,
)
from regard.blocks.positions import Positions
from regard.config import Config, Positive, Problem, Rate
from regard.models.heads import Labels

Pool = Literal["class", "mean", "attention"]
POOLED = {"class": "x_class", "mean": "mean of all x_p", "attention": "Σ_p softmax(w · x_p) x_p"}


@dataclass(frozen=True, kw_only=True)
class ImageClassificationHead(Config):
    """Classifies an image."""

    task: ClassVar[str] = "image_classification"
    kind: Literal["classification"] = "classification"
    labels: Labels
    """Class names. Taken from the data."""

    def build(self, config: "VitConfig") -> LinearHead:
        """The head, with newly initialised weights."""
        return LinearHead(config.width, len(self.labels), config.dropout)


@dataclass(frozen=True, kw_only=True)
class VitConfig(Config):
    """Hyperparameters of a ViT, and its head."""

    kind: Literal["vit"] = "vit"
    image_size: tuple[Positive, Positive]
    """Rows and columns of an image in pixels. Taken from the image codec."""
    channels: Literal[1, 3] = 3
    """Channels of an image: 1 grey, 3 colour. Taken from the image codec."""
    stem: Literal["linear", "convolution"] = "linear"
    """How patches become vectors: one linear layer, or convolutions with max pooling."""
    patch: Positive = 16
    """Rows and columns of a patch in pixels. The convolutional stem needs a power of 2, and halves once per factor."""
    pool: Pool = "class"
    """What represents the image: the class token, the mean of all patches, or an attention-weighted mean of them."""
    positions: Literal["learned", "sinusoidal"] = "learned"
    """Positional encoding of patches: learned vectors, or sines and cosines of row and column."""
    distillation: Literal["none", "token", "head"] = "none"
    """DeiT's second class token: `head` gives it its own head, whose logits are averaged with those of the first."""
    width: Positive = 768
    """Model width (d_model, hidden size)."""
    heads: Positive = 12
    """Number of attention heads per layer."""
    ff_width: Positive = 3072
    """Feed-forward width (d_ff, intermediate size)."""
    layers: Positive = 12
    """Number of layers."""
    activation: Activation = "gelu"
    """Activation function of the feed-forward layers."""
    norm_eps: Annotated[float, Field(gt=0)] = 1e-6
    """Epsilon of layer normalization, added to the variance."""
    dropout: Rate = 0.0
    """Dropout rate."""
    head: ImageClassificationHead
    """Head for the task. Chosen by the data, not written in a recipe."""

    presets: ClassVar = {
        "micro": {"width": 128, "heads": 4, "ff_width": 256, "layers": 6, "patch": 4},
        "mini": {"width": 192, "heads": 6, "ff_width": 384, "layers": 7, "patch": 4},
        "tiny": {"width": 192, "heads": 3, "ff_width": 768, "layers": 12, "patch": 16},
        "small": {"width": 384, "heads": 6, "ff_width": 1536, "layers": 12, "patch": 16},
        "base": {"width": 768, "heads": 12, "ff_width": 3072, "layers": 12, "patch": 16},
        "large": {"width": 1024, "heads": 16, "ff_width": 4096, "layers": 24, "patch": 16},
        "huge": {"width": 1280, "heads": 16, "ff_width": 5120, "layers": 32, "patch": 14},
    }

    def problems(self) -> Iterator[Problem]:
        """Invalid combinations of values."""
        if self.width % self.heads:
            yield Problem("width", f"not divisible by heads = {self.heads}", self.width)
        if self.positions == "sinusoidal" and self.width % 4:
            yield Problem("width", "not divisible by 4, as 2-D sinusoidal positions need", self.width)
        if min(self.image_size) < self.patch:
            size = " × ".join(map(str, self.image_size))
            yield Problem("patch", f"larger than the image, {size} pixels; choose a smaller patch", self.patch)
        if self.distillation != "none" and self.pool != "class":
            yield Problem("distillation", "needs pool = 'class'", self.distillation)
        if self.stem == "convolution" and (self.patch < 2 or self.patch & (self.patch - 1)):
            yield Problem("patch", "not a power of 2, as the convolutional stem needs", self.patch)

    @property
    def task(self) -> str:
        """The task of its head."""
        return self.head.task

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of its head; empty if it has none."""
        return self.head.labels

    @property
    def extra(self) -> int:
        """The number of class tokens, which come before the patches."""
        return 0 if self.pool != "class" else 1 if self.distillation == "none" else 2

    @property
    def tokens(self) -> int:
        """The number of tokens of an image: its patches and the class token."""
        rows, columns = self.make_stem().grid(*self.image_size)
        return rows * columns + self.extra

    def make_stem(self) -> LinearStem | ConvolutionalStem:
        """The stem, with newly initialised weights."""
        if self.stem == "linear":
            return LinearStem(self.channels, self.patch, self.width)
        return ConvolutionalStem(self.channels, self.patch.bit_length() - 1, self.width)

    def build(self) -> "Vit":
        """The model, with newly initialised weights."""
        return Vit(self)


class Vit(nn.Module):
    """The encoder and the head of a task."""

    answering: ClassVar = "layers"
    fresh: ClassVar = ("head.", "distilled.")
    optional: ClassVar = ("pool.", "distilled.")

    def __init__(self, config: VitConfig) -> None:
        super().__init__()
        self.config = config
        width, norm = config.width, partial(LayerNorm, config.width, config.norm_eps)
        stem = config.make_stem()
        self.grid = stem.grid(*config.image_size)
        self.embedding = PatchEmbedding(stem, width, config.extra)
        encoding = Learned2d if config.positions == "learned" else Sinusoidal2d
        self.positions = Positions(encoding(width, self.grid, config.extra))
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
        self.pool = AttentionPool(width) if config.pool == "attention" else None
        self.head = config.head.build(config)
        self.distilled = config.head.build(config) if config.distillation == "head" else None
        self.apply(_initialise)

    def forward(self, images_BCYX: Tensor) -> Tensor:
        """The logits of all labels, as a sequence of length 1."""
        return self.answer(self.hidden(images_BCYX))

    def hidden(self, images_BCYX: Tensor) -> Tensor:
        """The hidden states of the last layer, before the last norm: one vector per token."""
        return self.states(images_BCYX)[-1]

    def states(self, images_BCYX: Tensor) -> list[Tensor]:
        """All hidden states: the input of the first layer, and the output of each layer."""
        x_BTD = self.positions(self.embedding(images_BCYX), self.embedding.stem.grid(*images_BCYX.shape[2:]))
        states = [self.dropout(x_BTD)]
        for layer in self.layers:
            states.append(layer(states[-1]))
        return states

    def pooled(self, x_BTD: Tensor) -> Tensor:
        """The vector that represents the image, as a sequence of length 1, given normed hidden states."""
        if self.pool is not None:
            return self.pool(x_BTD)
        return x_BTD[:, :1] if self.config.extra else x_BTD.mean(1, keepdim=True)

    def answer(self, x_BTD: Tensor) -> Tensor:
        """The output of the head, given hidden states."""
        normed_BTD = self.norm(x_BTD)
        logits_B1V = self.head(self.pooled(normed_BTD))
        return logits_B1V if self.distilled is None else (logits_B1V + self.distilled(normed_BTD[:, 1:2])) / 2

    def operations(self, call: Call) -> Iterator[Operation]:
        """The vector that represents the image, and the head."""
        where = Vit.answer, "logits_B1V = self.head("
        pooled_B1D = self.pooled(call.of(self.norm).output)
        yield Operation("pooled", POOLED[self.config.pool], pooled_B1D, where)
        yield Operation("logits", "z = W x + b", call.output, where, OUTPUTS)

    @property
    def looks(self) -> Mapping[str, tuple[str, str]]:
        """Patches attend to patches; an attention pool attends to them for the prediction."""
        pool = {"pool": ("prediction", "image")} if self.pool is not None else {}
        return {"layers.*.attention": ("image", "image"), **pool}

    @property
    def parts(self) -> Mapping[str, str]:
        """The modules that a patch passes through."""
        return dict.fromkeys(("embedding", "positions", "layers.*", "norm"), "image")

    @property
    def limit(self) -> None:
        """Maximum number of patches: none, because positions are interpolated for larger images."""
        return


def _initialise(module: nn.Module) -> None:
    """Initialises linear layers from a narrow normal distribution, convolutions by their fan-in, and biases with 0."""
    if isinstance(module, nn.Linear):
        normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    if isinstance(module, nn.Conv2d):
        normal_(module.weight, std=(2 / module.weight[0].numel()) ** 0.5)
