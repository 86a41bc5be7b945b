"""A recipe = data + tokenizer + model + training. The types of its fields are the registry of what there is."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from regard import library
from regard.config import Config, ConfigError, Natural, Positive, Problem, Rate, override, parse, read_toml
from regard.data import tokenizer
from regard.data.documents import DocumentsConfig
from regard.data.gpt import Characters
from regard.data.labelled import GlueConfig, TableConfig
from regard.data.sources import DatesConfig, ParallelConfig
from regard.data.tagged import ConlluConfig
from regard.data.windows import TextConfig
from regard.models.bert import BertConfig
from regard.models.gpt2 import Gpt2Config
from regard.models.tagger import TaggerConfig
from regard.recipes import find

DataConfig = Annotated[
    ParallelConfig | DatesConfig | DocumentsConfig | GlueConfig | TableConfig | ConlluConfig | TextConfig,
    Field(discriminator="kind"),
]
Number = Annotated[float, Field(gt=0)]


@dataclass(frozen=True, kw_only=True)
class BytesConfig(Config):
    """Any text, as bytes that are put together."""

    kind: tokenizer.Kind = "bpe"
    vocab_size: Positive = 8000
    joint: bool = True
    """One vocabulary for both languages; or else one of this size for each."""


@dataclass(frozen=True, kw_only=True)
class WordPieceConfig(Config):
    """Words in pieces, as BERT reads them."""

    kind: Literal["wordpiece"] = "wordpiece"
    vocab_size: Positive = 8000
    lowercase: bool = True
    """Small letters only, without accents."""
    vocabulary: str | None = None
    """A file of tokens, one a line, such as BERT's own `vocab.txt`; without one, a vocabulary is learnt."""


@dataclass(frozen=True, kw_only=True)
class WordsConfig(Config):
    """Whole words, as a tagger reads them."""

    kind: Literal["words"] = "words"
    least: Positive = 2
    """A word that was seen less often is unknown."""


@dataclass(frozen=True, kw_only=True)
class CharactersConfig(Config):
    """Each character of a text by itself."""

    kind: Literal["characters"] = "characters"


@dataclass(frozen=True, kw_only=True)
class BytePairsConfig(Config):
    """Any text, as bytes that are put together the way GPT-2 does."""

    kind: Literal["byte_pairs"] = "byte_pairs"
    vocab_size: Positive = 8000
    files: str | None = None
    """A folder with GPT-2's own `encoder.json` and `vocab.bpe` (or `vocab.json` and `merges.txt`); without one, a
    vocabulary is learnt."""


TokenizerConfig = Annotated[
    BytesConfig | WordPieceConfig | WordsConfig | CharactersConfig | BytePairsConfig, Field(discriminator="kind")
]
MODELS = {
    **dict.fromkeys(("parallel", "dates"), ("transformer", "rnn_seq2seq", "conv_seq2seq")),
    **dict.fromkeys(("documents", "glue", "table"), ("bert",)),
    "conllu": ("bert", "tagger"),
    "text": ("gpt2",),
}
"""Which kinds of models learn from which kinds of data."""
READS = {"bert": ("wordpiece",), "tagger": ("words",), "gpt2": ("characters", "byte_pairs")}
"""What each kind of model reads; all others read bytes."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig(Config):
    """How to train. Training ends when the first of its budgets is used up, with the learning rate at zero."""

    steps: Positive | None = None
    epochs: Positive | None = None
    minutes: Number | None = None
    batch_tokens: Positive = 4096
    """The most tokens of a batch on either side, padding included."""
    batch_size: Positive | None = None
    """The most examples of a batch; without it, as many as `batch_tokens` has room for."""
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
    beta2: Rate = 0.98
    """How long Adam remembers the size of gradients."""
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
    """Validations without a better result after which training ends early."""
    checkpoint: Positive = 500
    """Steps from one checkpoint to the next."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """What matrix products are computed in; auto: bfloat16 on a graphics card that has it, or else float32."""
    recompute: bool = False
    """Less memory for more time: layers run again in the backward pass, instead of keeping all that they computed."""
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
    """Threads to compute with; 0: as many as torch chooses, but no more than there are cores."""
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
        kind, known = self.model.kind, MODELS[self.data.kind]
        if kind not in known:
            yield Problem("model.kind", f"data of kind '{self.data.kind}' are for {' or '.join(known)}", kind)
        known = READS.get(kind, ("bpe", "unigram"))
        if self.tokenizer.kind not in known:
            yield Problem("tokenizer.kind", f"a model of kind '{kind}' reads {' or '.join(known)}", self.tokenizer.kind)
        elif not isinstance(self.tokenizer, WordsConfig | CharactersConfig):
            for name in ("vocab_size", "source_vocab_size"):
                size = getattr(self.model, name, None)
                if size is not None and size != self.tokenizer.vocab_size and self.init is None:
                    text = f"differs from tokenizer.vocab_size = {self.tokenizer.vocab_size}; leave it out"
                    yield Problem(f"model.{name}", text, size)


def read(name: str, overrides: Sequence[str] = ()) -> Recipe:
    """The recipe of that name, or in the file of that path, with overrides such as `model.heads=8` applied."""
    path = find(name)
    file = read_toml(path)
    data, given = override(file, overrides), override({}, overrides)
    if "init" in data:
        raise ConfigError([Problem("init", "write it as model.init", data["init"])], str(path))
    if "task" in data:
        # a task of GLUE is a run of its own, unless another name is given
        task = data.pop("task")
        data = override(data, [f"data.task={task}", *([] if "run" in given else [f"run=runs/{task}"])])
    text, model = data.get("tokenizer", {}), data.get("model", {})
    if isinstance(text, dict) and isinstance(model, dict):
        data["model"] = model = _without_shape(model, given.get("model", {}))
        if "head" in model:
            raise ConfigError([Problem("model.head", "is what the data ask for; leave it out")], str(path))
        if "init" in model:
            # what was asked for beside `init` changes the model that is taken; the rest of a recipe's model gives way
            asked = data if "init" in file.get("model", {}) else given
            vain = [*{"tokenizer"} & asked.keys(), *(f"model.{key}" for key in {"preset"} & asked["model"].keys())]
            if vain:
                why = "comes with the model of model.init; leave it out"
                raise ConfigError([Problem(key, why) for key in vain], str(path))
            data = {**data, **_initial(asked["model"], path)}
        else:
            text.setdefault("kind", BytesConfig.kind)
            if text["kind"] == "words":
                # the least there can be, until the data have been read
                model = {"sizes": [2, 2, 2], "labels": ["", "_"], **model}
            elif text["kind"] == "characters":
                model = {"vocab_size": 1, **model}
            else:
                # a model has the vocabulary of its tokenizer
                size = text.get("vocab_size", BytesConfig.vocab_size)
                model.setdefault("vocab_size", size)
                if text.get("joint") is False:
                    model.setdefault("source_vocab_size", size)
            data = {**data, "tokenizer": text, "model": model}
    return parse(Recipe, data, str(path))


def _without_shape(model: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe's model without the shape that the file spells out, if another one is asked for by its name."""
    kinds = {kind.kind: kind for kind in get_args(library.AnyModelConfig)}
    presets = kinds[model["kind"]].presets if "preset" in asked and model.get("kind") in kinds else {}
    shape = {key for preset in presets.values() for key in preset}
    return {key: value for key, value in model.items() if key in asked or key not in shape}


def _initial(model: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """The parts of a recipe that come with the model it begins with."""
    init = model["init"]
    if not isinstance(init, str):
        raise ConfigError([Problem("model.init", "should be the name or folder of a model", init)], str(path))
    contents = library.read(init)
    changes = {key: value for key, value in model.items() if key != "init"}
    known = json.loads(contents.config.to_json())
    return {"init": init, "tokenizer": _tokenizer(contents), "model": {**known, **changes}}


def _tokenizer(contents: library.Contents) -> dict[str, Any]:
    """What the tokenizer of a model is like."""
    config = contents.config
    if isinstance(config, TaggerConfig):
        return {"kind": "words"}
    if isinstance(config, BertConfig):
        return {"kind": "wordpiece", "vocab_size": config.vocab_size}
    if isinstance(contents.tokenizers[0], Characters):
        return {"kind": "characters"}
    if isinstance(config, Gpt2Config):
        return {"kind": "byte_pairs", "vocab_size": config.vocab_size}
    return {"kind": "bpe", "vocab_size": config.vocab_size, "joint": config.source_vocab_size is None}
