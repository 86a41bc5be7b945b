"""All systems, one line each. Valid recipes and the classes of loaded models are derived from them.

A system is a model, its codecs by role, its tasks, and, if Hugging Face's library has the same model, the module that
converts it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from regard.codecs.gpt2 import ByteBpeConfig, CharactersConfig
from regard.codecs.interface import CodecConfig
from regard.codecs.pixels import PixelsConfig
from regard.codecs.subword import SubwordConfig
from regard.codecs.wordpiece import WordPieceConfig
from regard.codecs.words import WordsConfig
from regard.config import Config
from regard.errors import RegardError
from regard.interop import bert, gpt2, marian, roformer, vit
from regard.models.bert import BertConfig
from regard.models.conv_seq2seq import ConvSeq2SeqConfig
from regard.models.gpt2 import Gpt2Config
from regard.models.rnn_seq2seq import RnnSeq2SeqConfig
from regard.models.rnn_tagger import RnnTaggerConfig
from regard.models.roformer import RoFormerConfig
from regard.models.transformer import TransformerConfig
from regard.models.vit import VitConfig
from regard.tasks.classification import ClassificationTask
from regard.tasks.completion import CompletionTask
from regard.tasks.embedding import EmbeddingTask
from regard.tasks.image_classification import ImageClassificationTask
from regard.tasks.pretraining import PretrainingTask
from regard.tasks.tagging import TaggingTask, WordTaggingTask
from regard.tasks.translation import TranslationTask
from regard.training.task import Task


@dataclass(frozen=True)
class System:
    """A kind of model, with its codecs and tasks."""

    model: type[Config]
    """The config class of the model; its `kind` is the name of the system."""
    codecs: Mapping[str, tuple[type[CodecConfig], ...]]
    """The codec configs that each role accepts."""
    tasks: tuple[type[Task], ...]
    family: ModuleType | None = None
    """The module that converts it from and to the format of Hugging Face's library."""

    @property
    def name(self) -> str:
        """Its name in recipes, model folders and errors."""
        kind: str = self.model.kind  # type: ignore[attr-defined]
        return kind

    def task(self, name: str) -> type[Task]:
        """The task of that name."""
        for task in self.tasks:
            if task.name == name:
                return task
        known = _listed(task.name for task in self.tasks)
        raise RegardError(f"models of kind '{self.name}' have no task {name!r}; choose {known}")

    def task_of(self, config: Any) -> type[Task]:
        """The task of a model with this config: the one that the config names, or else the only task of the system."""
        name = getattr(config, "task", None)
        return self.tasks[0] if name is None else self.task(name)

    def codec(self, role: str, kind: str) -> type[Any]:
        """The codec class of that kind, for a role."""
        for config in self.codecs.get(role, ()):
            if config.codec.kind == kind:
                return config.codec
        raise RegardError(f"models of kind '{self.name}' cannot use a codec of kind {kind!r} as {role!r}")


ENCODER = (PretrainingTask, ClassificationTask, TaggingTask, EmbeddingTask)
PAIR = {"source": (SubwordConfig,), "target": (SubwordConfig,)}
SYSTEMS = (
    System(TransformerConfig, PAIR, (TranslationTask,), marian),
    System(RnnSeq2SeqConfig, PAIR, (TranslationTask,)),
    System(ConvSeq2SeqConfig, PAIR, (TranslationTask,)),
    System(BertConfig, {"text": (WordPieceConfig,)}, ENCODER, bert),
    System(RoFormerConfig, {"text": (WordPieceConfig,)}, ENCODER, roformer),
    System(RnnTaggerConfig, {"text": (WordsConfig,)}, (WordTaggingTask,)),
    System(Gpt2Config, {"text": (CharactersConfig, ByteBpeConfig)}, (CompletionTask,), gpt2),
    System(VitConfig, {"image": (PixelsConfig,)}, (ImageClassificationTask,), vit),
)


def system(kind: Any) -> System:
    """The system with models of this kind."""
    for each in SYSTEMS:
        if each.name == kind:
            return each
    raise RegardError(f"unknown kind of model {kind!r}; choose {_listed(each.name for each in SYSTEMS)}")


def model_configs() -> tuple[type[Config], ...]:
    """The configs of all models."""
    return tuple(each.model for each in SYSTEMS)


def data_configs() -> tuple[type[Config], ...]:
    """The configs of all data that a task can be trained on."""
    return tuple(dict.fromkeys(config for each in SYSTEMS for task in each.tasks for config in task.data))


def slots() -> dict[str, tuple[type[CodecConfig], ...]]:
    """The tables of a recipe that describe codecs, and the configs that each accepts."""
    result: dict[str, dict[type[CodecConfig], None]] = {}
    for each in SYSTEMS:
        for configs in each.codecs.values():
            for config in configs:
                result.setdefault(config.codec.slot, {})[config] = None
    return {slot: tuple(configs) for slot, configs in result.items()}


def trained_on(data: type[Config]) -> Iterator[tuple[System, type[Task]]]:
    """The systems that can be trained on data of this kind, each with the task."""
    return ((each, task) for each in SYSTEMS for task in each.tasks if data in task.data)


def _listed(names: Iterable[str]) -> str:
    return " or ".join(names)
