"""The systems of the house: one line each. What a recipe may name and what a folder opens as is derived from them.

A system is a model, its codecs by role, the tasks it serves, and, where Hugging Face has the same model, the module
that converts it in and out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from regard.codecs.gpt2 import ByteBpeConfig, CharactersConfig
from regard.codecs.interface import CodecConfig
from regard.codecs.subword import SubwordConfig
from regard.codecs.wordpiece import WordPieceConfig
from regard.codecs.words import WordsConfig
from regard.config import Config
from regard.errors import RegardError
from regard.interop import bert, gpt2, marian, roformer
from regard.models.bert import BertConfig
from regard.models.conv_seq2seq import ConvSeq2SeqConfig
from regard.models.gpt2 import Gpt2Config
from regard.models.rnn_seq2seq import RnnSeq2SeqConfig
from regard.models.rnn_tagger import RnnTaggerConfig
from regard.models.roformer import RoFormerConfig
from regard.models.transformer import TransformerConfig
from regard.tasks.classification import ClassificationTask
from regard.tasks.completion import CompletionTask
from regard.tasks.embedding import EmbeddingTask
from regard.tasks.pretraining import PretrainingTask
from regard.tasks.tagging import TaggingTask, WordTaggingTask
from regard.tasks.translation import TranslationTask
from regard.training.task import Task


@dataclass(frozen=True)
class System:
    """One system."""

    model: type[Config]
    """The config of its model, whose `kind` is the system's name."""
    codecs: Mapping[str, tuple[type[CodecConfig], ...]]
    """For each role, what its codec may be."""
    tasks: tuple[type[Task], ...]
    family: ModuleType | None = None
    """What converts it from and to Hugging Face's library."""

    @property
    def name(self) -> str:
        """What recipes, folders and errors call it."""
        kind: str = self.model.kind  # type: ignore[attr-defined]
        return kind

    def task(self, name: str) -> type[Task]:
        """The task of that name."""
        for task in self.tasks:
            if task.name == name:
                return task
        raise RegardError(f"models of kind '{self.name}' are for {_listed(self.tasks)}, not for {name!r}")

    def task_of(self, config: Any) -> type[Task]:
        """What a model of this config is for: what the config says, or the only thing that such models are for."""
        name = getattr(config, "task", None)
        return self.tasks[0] if name is None else self.task(name)

    def codec(self, role: str, kind: str) -> type[Any]:
        """The codec of a role that is of this kind."""
        for config in self.codecs.get(role, ()):
            if config.codec.kind == kind:
                return config.codec
        raise RegardError(f"models of kind '{self.name}' have no codec of kind {kind!r} for {role!r}")


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
)


def system(kind: Any) -> System:
    """The system whose models are of this kind."""
    for each in SYSTEMS:
        if each.name == kind:
            return each
    raise RegardError(f"no models are of kind {kind!r}; there are {', '.join(each.name for each in SYSTEMS)}")


def model_configs() -> tuple[type[Config], ...]:
    """The configs of all models."""
    return tuple(each.model for each in SYSTEMS)


def data_configs() -> tuple[type[Config], ...]:
    """The configs of all data that some task learns from."""
    return tuple(dict.fromkeys(config for each in SYSTEMS for task in each.tasks for config in task.data))


def slots() -> dict[str, tuple[type[CodecConfig], ...]]:
    """The tables of a recipe that describe codecs, and what each may be."""
    result: dict[str, dict[type[CodecConfig], None]] = {}
    for each in SYSTEMS:
        for configs in each.codecs.values():
            for config in configs:
                result.setdefault(config.codec.slot, {})[config] = None
    return {slot: tuple(configs) for slot, configs in result.items()}


def trained_on(data: type[Config]) -> Iterator[tuple[System, type[Task]]]:
    """The systems that learn from data of this kind, each with the task."""
    return ((each, task) for each in SYSTEMS for task in each.tasks if data in task.data)


def _listed(tasks: tuple[type[Task], ...]) -> str:
    return " or ".join(task.name for task in tasks)
