"""A recipe = data + tokenizer + model + training. The types of its fields are the registry of what there is."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from regard import library
from regard.config import Config, ConfigError, Natural, Positive, Problem, Rate, override, parse, read_toml
from regard.data import tokenizer
from regard.data.sources import DatesConfig, ParallelConfig
from regard.recipes import find

DataConfig = Annotated[ParallelConfig | DatesConfig, Field(discriminator="kind")]
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
    average_last: Natural = 0
    """At the end, the mean weights of so many last checkpoints are tried, too, and kept if they are better."""
    validate: Positive = 500
    """Steps from one validation to the next."""
    patience: Positive | None = None
    """Validations without a better loss after which training ends early."""
    checkpoint: Positive = 500
    """Steps from one checkpoint to the next."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """What matrix products are computed in; auto: bfloat16 on a graphics card that has it, or else float32."""
    shard: bool = False
    """With several processes, each trains a part of the weights only (FSDP), for models that are too large for one; the
    first also keeps a whole copy on the CPU, to validate with."""

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
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to compute; auto: on a graphics card, if there is one."""
    init: str | None = None
    """The model that weights and tokenizer are taken from. Written as `model.init`."""
    data: DataConfig
    tokenizer: TokenizerConfig
    model: library.ModelConfig
    train: TrainConfig

    def problems(self) -> Iterator[Problem]:
        """Values that cannot go together."""
        for name, size in (("vocab_size", self.model.vocab_size), ("source_vocab_size", self.model.source_vocab_size)):
            if size is not None and size != self.tokenizer.vocab_size and self.init is None:
                text = f"differs from tokenizer.vocab_size = {self.tokenizer.vocab_size}; leave it out"
                yield Problem(f"model.{name}", text, size)
        if self.model.pad_id != tokenizer.PAD:
            yield Problem("model.pad_id", f"the tokenizer pads with {tokenizer.PAD}; leave it out", self.model.pad_id)


def read(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of that name, or in the file of that path, with overrides such as `model.heads=8` applied."""
    path = find(name)
    file = read_toml(path)
    data = override(file, overrides)
    if "init" in data:
        raise ConfigError([Problem("init", "write it as model.init", data["init"])], str(path))
    text, model = data.get("tokenizer", {}), data.get("model", {})
    if isinstance(text, dict) and isinstance(model, dict):
        if "init" in model:
            # what was asked for beside `init` changes the model that is taken; the rest of a recipe's model gives way
            asked = data if "init" in file.get("model", {}) else override({}, overrides)
            vain = [*{"tokenizer"} & asked.keys(), *(f"model.{key}" for key in {"preset"} & asked["model"].keys())]
            if vain:
                why = "comes with the model of model.init; leave it out"
                raise ConfigError([Problem(key, why) for key in vain], str(path))
            data = {**data, **_initial(asked["model"], path)}
        else:
            # a model has the vocabulary of its tokenizer
            size = text.get("vocab_size", TokenizerConfig.vocab_size)
            model.setdefault("vocab_size", size)
            if text.get("joint") is False:
                model.setdefault("source_vocab_size", size)
            data = {**data, "tokenizer": text, "model": model}
    return parse(Recipe, data, str(path))


def _initial(model: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The parts of a recipe that come with the model it begins with."""
    init = model["init"]
    if not isinstance(init, str):
        raise ConfigError([Problem("model.init", "should be the name or folder of a model", init)], str(path))
    config = library.read(init).config
    changes = {key: value for key, value in model.items() if key != "init"}
    text = {"vocab_size": config.vocab_size, "joint": config.source_vocab_size is None}
    return {"init": init, "tokenizer": text, "model": {**json.loads(config.to_json()), **changes}}
