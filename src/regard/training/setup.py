"""What a task is prepared with: its part of a recipe, and what all tasks need done in the same way."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import nn

from regard.codecs import interface as codecs_
from regard.codecs.interface import CodecConfig, Say
from regard.config import Config
from regard.data.batches import Batches
from regard.folders import verify, write_whole
from regard.store.runs import CODECS, check_data
from regard.training.config import TrainConfig


@dataclass(frozen=True)
class InitialModel:
    """A model that training begins with."""

    fingerprint: str
    """A hash of its weights, to see whether they are still the same."""
    codecs: Mapping[str, Any]
    """By role."""
    load: Callable[[nn.Module], None]
    """Gives its weights to a model."""


@dataclass(frozen=True)
class Job:
    """A recipe as the engine sees it."""

    recipe: Config
    """All of it, to be kept in the run's folder; the engine looks at nothing in it."""
    run: Path
    seed: int
    threads: int
    device: str
    train: TrainConfig
    data: Any
    model: Any
    codecs: Mapping[str, CodecConfig]
    """By role."""
    prepare: "Callable[[Setup], Any]"
    """Makes the task, with its data read."""
    start: InitialModel | None


@dataclass
class Setup:
    """A job for a task to prepare, step by step: claim the data, make codecs, count, form batches."""

    job: Job
    say: Say
    counts: list[dict[str, Any]] = field(default_factory=list)
    """What became of the data, for the log."""

    @property
    def data(self) -> Any:
        """The config of the data."""
        return self.job.data

    @property
    def model(self) -> Any:
        """The config of the model, as the recipe has it."""
        return self.job.model

    @property
    def train(self) -> TrainConfig:
        """How to train."""
        return self.job.train

    @property
    def seed(self) -> int:
        """Of all that is random."""
        return self.job.seed

    @property
    def has_initial_model(self) -> bool:
        """Whether training begins with a model that is there already."""
        return self.job.start is not None

    def claim(self, *keys: str) -> None:
        """Makes sure that the run resumes with the data it began with; the keys are hashes of all it depends on."""
        check_data(self.job.run, [*keys, *([self.job.start.fingerprint] if self.job.start else [])])

    def codecs(self, **examples: codecs_.CodecExamples) -> dict[str, Any]:
        """The codecs by role: those of the run, or of the model it begins with, or made from examples of each role."""
        folder, configs = self.job.run / CODECS, self.job.codecs
        if folder.exists():
            verify(folder)
            found = codecs_.load(folder, {role: config.codec for role, config in configs.items()})
            assert found is not None
            return found
        made = dict(self.job.start.codecs) if self.job.start else self._made(examples)
        write_whole(folder, lambda aside: codecs_.save(aside, made))
        return made

    def _made(self, examples: Mapping[str, codecs_.CodecExamples]) -> dict[str, Any]:
        slots: dict[str, list[str]] = {}
        for role, config in self.job.codecs.items():
            slots.setdefault(config.codec.slot, []).append(role)
        made: dict[str, Any] = {}
        for roles in slots.values():
            made |= self.job.codecs[roles[0]].make({role: examples[role] for role in roles}, self.say)
        return made

    def fitted(self, **sizes: Any) -> Any:
        """The model's config with what codecs and data really have; a model to begin with has its own."""
        return self.model if self.has_initial_model else replace(self.model, **sizes)

    def max_length(self, asked: int) -> int:
        """The most tokens of an example: as many as are asked for, as far as a model to begin with can take them."""
        context = getattr(self.model, "context", None)
        return min(asked, context) if self.has_initial_model and context is not None else asked

    def count(self, what: str, text: str, /, **counts: Any) -> None:
        """Tells what became of a part of the data, such as "training"."""
        self.counts.append(counts)
        self.say(f"{what}: {text}")

    def batches(self, train: Any, valid: Any) -> tuple[Batches[Any], Batches[Any]]:
        """Batches to train on, and to validate with."""
        tokens, size = self.train.batch_tokens, self.train.batch_size
        return Batches(train, tokens, self.seed, size), Batches(valid, tokens, 0)
