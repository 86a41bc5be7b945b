"""A recipe = data + tokenizer + model + training. The types of its fields are the registry of what there is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from regard.config import Config, Natural, Positive, Problem, Rate, override, parse, read_toml
from regard.data import tokenizer
from regard.data.sources import DatesConfig, ParallelConfig
from regard.models.conv_seq2seq import ConvSeq2SeqConfig
from regard.models.rnn_seq2seq import RnnSeq2SeqConfig
from regard.models.transformer import TransformerConfig
from regard.recipes import find

DataConfig = Annotated[ParallelConfig | DatesConfig, Field(discriminator="kind")]
AnyModelConfig = TransformerConfig | RnnSeq2SeqConfig | ConvSeq2SeqConfig
ModelConfig = Annotated[AnyModelConfig, Field(discriminator="kind")]
Number = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(Config):
    """How text becomes tokens."""

    kind: tokenizer.Kind = "bpe"
    vocab_size: Positive = 8000
    joint: bool = True
    """One vocabulary for both languages; or else one of this size for each."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Config):
    """How to train. Training ends when the first of its budgets is used up, with the learning rate at zero."""

    steps: Positive | None = None
    epochs: Positive | None = None
    minutes: Number | None = None
    batch_tokens: Positive = 4096
    """The most tokens of a batch on either side, padding included."""
    accumulate: Positive = 1
    """Batches that make one step."""
    learning_rate: Number = 1e-3
    warmup: Natural = 500
    """Steps in which the learning rate rises to its full height."""
    schedule: Literal["constant", "inverse_sqrt", "linear", "cosine"] = "inverse_sqrt"
    """What it does then."""
    cooldown: Rate = 0.2
    """Share of the budget at the end in which it falls to zero, whatever the schedule."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    smoothing: Rate = 0.1
    """Label smoothing: this share of each target is spread over the whole vocabulary."""
    clip: Number = 1.0
    """Longest gradient of a step."""
    average: Rate = 0.999
    """The model that is kept is a moving average of the weights that keeps this share at each step; 0: no average."""
    validate: Positive = 500
    """Steps from one validation to the next."""
    patience: Positive | None = None
    """Validations without a better loss after which training ends early."""
    checkpoint: Positive = 500
    """Steps from one checkpoint to the next."""

    def problems(self) -> Iterator[Problem]:
        """Values that cannot go together."""
        if self.steps is self.epochs is self.minutes is None:
            yield Problem("steps", "training needs a budget; set steps, epochs or minutes, or several of them")


@dataclass(frozen=True, kw_only=True)
class Recipe(Config):
    """The contents of a recipe file."""

    run: str = "runs/regard"
    """The folder that everything about this training goes into."""
    seed: Natural = 1
    threads: Natural = 0
    """Threads to compute with; 0: as many as torch chooses."""
    data: DataConfig
    tokenizer: TokenizerConfig
    model: ModelConfig
    train: TrainConfig

    def problems(self) -> Iterator[Problem]:
        """Values that cannot go together."""
        for name, size in (("vocab_size", self.model.vocab_size), ("source_vocab_size", self.model.source_vocab_size)):
            if size is not None and size != self.tokenizer.vocab_size:
                text = f"differs from tokenizer.vocab_size = {self.tokenizer.vocab_size}; leave it out"
                yield Problem(f"model.{name}", text, size)
        if self.model.pad_id != tokenizer.PAD:
            yield Problem("model.pad_id", f"the tokenizer pads with {tokenizer.PAD}; leave it out", self.model.pad_id)


@dataclass(frozen=True, kw_only=True)
class _Model(Config):
    model: ModelConfig


def read_model(data: Mapping[str, Any], source: str) -> AnyModelConfig:
    """The config of a model, of whatever kind."""
    return parse(_Model, {"model": data}, source).model


def read(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of that name, or in the file of that path, with overrides such as `model.heads=8` applied."""
    path = find(name)
    data = override(read_toml(path), overrides)
    text, model = data.get("tokenizer", {}), data.get("model", {})
    if isinstance(text, dict) and isinstance(model, dict):
        # a model has the vocabulary of its tokenizer
        size = text.get("vocab_size", TokenizerConfig.vocab_size)
        model.setdefault("vocab_size", size)
        if text.get("joint") is False:
            model.setdefault("source_vocab_size", size)
        data = {**data, "tokenizer": text, "model": model}
    return parse(Recipe, data, str(path))
