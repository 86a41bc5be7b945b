"""The input of a task: the parts of a recipe, and the preparation that all tasks share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import nn

from regard.codecs import interface as codecs_
from regard.codecs.interface import CodecConfig, Say
from regard.config import Config
from regard.data.batches import Batches
from regard.errors import RegardError
from regard.folders import verify, write_folder
from regard.store.runs import CODECS, check_data
from regard.training.config import TrainConfig


@dataclass(frozen=True)
class InitialModel:
    """A trained model that the weights are initialised from (`model.init`)."""

    fingerprint: str
    """A hash of its weights, to detect whether they have changed."""
    codecs: Mapping[str, Any]
    """By role."""
    load: Callable[[nn.Module], None]
    """Copies its weights into a model."""


@dataclass(frozen=True)
class Job:
    """A recipe in the form that the training loop takes."""

    recipe: Config
    """The whole recipe, saved in the run folder; the training loop reads nothing from it."""
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
    """Reads the data and creates the task."""
    start: InitialModel | None


@dataclass
class Setup:
    """Helper for creating a task step by step: claim the data, train codecs, count examples, form batches."""

    job: Job
    say: Say
    counts: list[dict[str, Any]] = field(default_factory=list)
    """How many examples were kept and left out, for the log."""

    @property
    def data(self) -> Any:
        """The config of the data."""
        return self.job.data

    @property
    def model(self) -> Any:
        """The config of the model, as in the recipe."""
        return self.job.model

    @property
    def train(self) -> TrainConfig:
        """The training options."""
        return self.job.train

    @property
    def seed(self) -> int:
        """The random seed."""
        return self.job.seed

    @property
    def has_initial_model(self) -> bool:
        """Whether the weights are initialised from a trained model (`model.init`)."""
        return self.job.start is not None

    def claim(self, *keys: str) -> None:
        """Makes sure that a run resumes with the data it started with; the keys are hashes of all that data."""
        check_data(self.job.run, [*keys, *([self.job.start.fingerprint] if self.job.start else [])])

    def codecs(self, **examples: codecs_.CodecExamples) -> dict[str, Any]:
        """The codecs by role: those of the run, else of the initial model, else trained on examples of each role."""
        folder, configs = self.job.run / CODECS, self.job.codecs
        if folder.exists():
            try:
                verify(folder)
            except RegardError as error:
                model = self.job.run / "model"
                copy = f"the same file may be in {model}; otherwise " if model.is_dir() else ""
                remedy = f"{copy}start again with another run=..."
                raise RegardError(f"{error}; {remedy}") from None
            found = codecs_.load(folder, {role: config.codec for role, config in configs.items()})
            assert found is not None
            return found
        made = dict(self.job.start.codecs) if self.job.start else self._trained_codecs(examples)
        write_folder(folder, lambda temporary: codecs_.save(temporary, made))
        return made

    def _trained_codecs(self, examples: Mapping[str, codecs_.CodecExamples]) -> dict[str, Any]:
        slots: dict[str, list[str]] = {}
        for role, config in self.job.codecs.items():
            slots.setdefault(config.codec.slot, []).append(role)
        made: dict[str, Any] = {}
        for roles in slots.values():
            made |= self.job.codecs[roles[0]].make({role: examples[role] for role in roles}, self.say)
        return made

    def fitted(self, **sizes: Any) -> Any:
        """The model's config with sizes from codecs and data; unchanged if there is an initial model."""
        return self.model if self.has_initial_model else replace(self.model, **sizes)

    def max_length(self, requested: int) -> int:
        """The maximum number of tokens of an example: `requested`, limited by the context of an initial model."""
        context = getattr(self.model, "context", None)
        return min(requested, context) if self.has_initial_model and context is not None else requested

    def count(self, what: str, text: str, /, **counts: Any) -> None:
        """Reports how many examples of a part of the data, such as "training", were kept and left out."""
        self.counts.append(counts)
        self.say(f"{what}: {text}")

    def batches(self, train: Any, valid: Any) -> tuple[Batches[Any], Batches[Any]]:
        """Batches for training and for validation."""
        tokens, size = self.train.batch_tokens, self.train.batch_size
        return Batches(train, tokens, self.seed, size), Batches(valid, tokens, 0)
