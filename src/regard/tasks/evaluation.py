"""The evaluation of an opened model: the files it asks for, its settings, and what it gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from regard.config import Config, override, parse
from regard.errors import RegardError

S = TypeVar("S", bound=Config)


@dataclass(frozen=True)
class Evaluation:
    """What a test set shows of a model."""

    scores: Mapping[str, Any]
    """For programs: plain data, as JSON has it."""
    lines: Sequence[str]
    """For people."""
    predictions: Sequence[str] | None = None
    """One a line, in the order of the test set; None: the model predicts nothing that could be written."""
    warnings: Sequence[str] = ()
    """What is wrong with the files, but did not stop the evaluation."""


@dataclass(frozen=True)
class EvaluatedWith(Generic[S]):
    """What a model is evaluated with."""

    model: str
    """What the model is, such as "a translator"."""
    files: tuple[str, ...]
    """The roles of the files of its test set, all of which it needs."""
    settings: type[S]

    def paths(self, files: Mapping[str, Path]) -> list[Path]:
        """The files in the order of their roles; `RegardError` unless they are exactly those that the model needs."""
        if files.keys() != set(self.files):
            needed, extra = _options(self.files), _options([role for role in files if role not in self.files])
            raise RegardError(f"{self.model} is evaluated with {needed}" + (f", not with {extra}" if extra else ""))
        return [files[role] for role in self.files]

    def parse(self, overrides: Sequence[str]) -> S:
        """The settings, with changes such as `beam=1`."""
        return parse(self.settings, override({}, overrides), f"settings to evaluate {self.model}")


class Evaluable(Protocol[S]):
    """An opened model that can be evaluated."""

    evaluated_with: EvaluatedWith[S]

    def evaluate(self, files: Mapping[str, Path], settings: S) -> Evaluation:
        """Tries the model on a test set, whose files are given by role."""
        ...


def _options(roles: Sequence[str]) -> str:
    return " and ".join(f"--{role}" for role in roles)
