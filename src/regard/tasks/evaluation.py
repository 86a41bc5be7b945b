"""The evaluation of a loaded model: the files it needs, its settings and its results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from regard.config import Config, override, parse
from regard.errors import RegardError
from regard.evaluation import comparison
from regard.evaluation.comparison import Comparison

S = TypeVar("S", bound=Config)


@dataclass(frozen=True)
class Evaluation:
    """The results of a model on a test set."""

    scores: Mapping[str, Any]
    """For programs: data that can be written as JSON; fractions are in percent, as for people."""
    lines: Sequence[str]
    """For people."""
    predictions: Sequence[str] | None = None
    """One per line, in the order of the test set; None if the model has no predictions to write."""
    warnings: Sequence[str] = ()
    """Problems in the files that did not stop the evaluation."""
    examples: Any = None
    """What `EvaluatedWith.compare` takes."""


@dataclass(frozen=True)
class EvaluatedWith(Generic[S]):
    """The files and settings that an evaluation needs."""

    model: str
    """A description of the model, such as "a translator"."""
    files: tuple[str, ...]
    """The roles of the files in the test set; all are required."""
    settings: type[S]
    compare: Callable[[Sequence[Any], int], list[Comparison]] = comparison.compare
    """Tests the differences between the `examples` of several models, with this number of samples."""

    def paths(self, files: Mapping[str, Path]) -> list[Path]:
        """The files in the order of their roles; `RegardError` if one is missing or superfluous."""
        if files.keys() != set(self.files):
            needed, extra = _options(self.files), _options([role for role in files if role not in self.files])
            raise RegardError(f"{self.model} is evaluated with {needed}" + (f", not with {extra}" if extra else ""))
        return [files[role] for role in self.files]

    def parse(self, overrides: Sequence[str]) -> S:
        """The settings, with overrides such as `beam=1`."""
        return parse(self.settings, override({}, overrides), f"settings to evaluate {self.model}")


class Evaluable(Protocol[S]):
    """A loaded model that can be evaluated."""

    evaluated_with: EvaluatedWith[S]

    def evaluate(self, files: Mapping[str, Path], settings: S) -> Evaluation:
        """Evaluates the model on a test set, whose files are given by role."""
        ...


def _options(roles: Sequence[str]) -> str:
    return " and ".join(f"--{role}" for role in roles)
