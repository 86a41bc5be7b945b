"""GLUE scores of a model, fine-tuned on each task with several seeds, beside published results."""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from regard import library, recipe
from regard.data.glue import TASKS, find, read
from regard.data.tables import Example
from regard.errors import RegardError
from regard.evaluation.glue import REFERENCE, SUBMISSION, average, counted, scores, write_submission
from regard.training.report import Report
from regard.training.run import train

TRAINED = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")
BESIDE = ("BERT-base", "BERT-large", "Human")
FIXED = ("run", "seed", "task", "data.task", "data.folder", "model.init")  # recipe keys that overrides cannot change

Rows = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By task and metric, in percent: the `median`, `min` and `max` over seeds, and the number of `seeds`."""


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """Fine-tuning of one model on the GLUE tasks."""

    model: str
    data: Path
    """Folder with one subfolder per task."""
    report: Report
    say: Callable[[str], object]
    """Prints messages other than the table."""
    tasks: Sequence[str] = TRAINED
    seeds: int = 1
    runs: Path = Path("runs/glue")
    """Folder for the runs; finished ones are not repeated."""
    submission: Path | None = None
    """Folder for the predictions on the test sets, in the format of the leaderboard."""
    overrides: Sequence[str] = field(default_factory=list)
    """Overrides of the recipe bert/glue."""

    def run(self) -> "Table":
        """Fine-tunes on each task with each seed; finished runs are not repeated."""
        self._check()
        rows: dict[str, Any] = {}
        for task in self.tasks:
            folders = [self.runs / f"{task}-{seed}" for seed in range(1, self.seeds + 1)]
            found = [self._fine_tune(task, run, seed) for seed, run in enumerate(folders, start=1)]
            rows[task] = _spread([{name: values[f"valid_{name}"] for name in TASKS[task].metrics} for values in found])
            for other in self._related(task, "dev"):
                rows[other] = _spread([self._evaluate(other, run) for run in folders])
            if self.submission is not None:
                main = [values[f"valid_{TASKS[task].metrics[0]}"] for values in found]
                self._submit(task, folders[main.index(max(main))], self.submission)
        return Table(rows)

    def _check(self) -> None:
        """Raises an error, such as for missing files, before hours of training."""
        if unknown := [task for task in self.tasks if task not in TRAINED]:
            raise RegardError(f"--tasks {','.join(unknown)}: no such training task; choose from {', '.join(TRAINED)}")
        for key in FIXED:
            if any(override.partition("=")[0].strip() == key for override in self.overrides):
                raise RegardError(f"{key} is set by this command; use --runs, --seeds, --tasks, --data or MODEL")
        for task in self.tasks:
            for split in ("train", "dev", *(["test"] if self.submission is not None else [])):
                find(self.data, TASKS[task], split)

    def _related(self, task: str, split: str) -> list[str]:
        """Further data sets for a task's model, if their files exist: for MNLI, the mismatched set and diagnostics."""
        result = []
        for other in ("mnli-mm", "ax") if task == "mnli" else ():
            try:
                find(self.data, TASKS[other], split)
            except RegardError:
                continue
            result.append(other)
        return result

    def _fine_tune(self, task: str, run: Path, seed: int) -> dict[str, float]:
        """The validation scores of the best model of a run, which is trained first if necessary."""
        overrides = [f"task={task}", f"seed={seed}", f'data.folder="{self.data}"', f'model.init="{self.model}"']
        chosen = recipe.read("bert/glue", [*overrides, f'run="{run}"', *self.overrides])
        self.report.run = run.name
        training = train(recipe.job(chosen), self.report)
        lines = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
        return min((line for line in lines if "valid_loss" in line), key=training.task.selection_loss)

    def _evaluate(self, task: str, run: Path) -> dict[str, float]:
        """The scores of a model on the validation set of another task."""
        path = find(self.data, TASKS[task], "dev")
        examples = list(read(TASKS[task], path))
        return scores(TASKS[task], self._predictions(run, path, examples), [str(e.label) for e in examples])

    def _predictions(self, run: Path, path: Path, examples: Sequence[Example]) -> Any:
        """The predictions of a run's best model for the examples of a file; reports how many were truncated."""
        texts, seconds = [example.text for example in examples], [example.second for example in examples]
        predictions = library.load_for("classify", str(run)).classify(texts, seconds)
        if truncated := sum(prediction.truncated for prediction in predictions):
            self.say(f"{path}: {truncated:,} of {len(texts):,} texts are too long and were truncated")
        return [prediction.answer for prediction in predictions]

    def _submit(self, task: str, run: Path, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for each in (TASKS[name] for name in (task, *self._related(task, "test"))):
            path = find(self.data, each, "test")
            predictions = self._predictions(run, path, list(read(each, path, labelled=False)))
            write_submission(folder / SUBMISSION[each.name], each, predictions)
            self.say(f"{folder / SUBMISSION[each.name]}: {len(predictions):,} predictions for the leaderboard")


@dataclass(frozen=True)
class Table:
    """The scores of a model on the validation sets."""

    rows: Rows

    @property
    def counted(self) -> list[list[str]]:
        """The tasks in the average, each with its validation sets."""
        return counted(self.rows)

    @property
    def average(self) -> float:
        """The mean over tasks of the mean of their metrics; each metric is the median over seeds."""
        return average(
            {task: {name: value["median"] for name, value in metrics.items()} for task, metrics in self.rows.items()}
        )

    def published(self, system: str) -> float | None:
        """The same average for a published system; None if one of its scores was not published."""
        known, tasks = REFERENCE[system], list(chain.from_iterable(self.counted))
        if any(name not in known.get(task, {}) for task in tasks for name in self.rows[task]):
            return None
        return average({task: {name: known[task][name] for name in self.rows[task]} for task in tasks})

    def to_json(self) -> dict[str, Any]:
        """All scores."""
        return {**self.rows, "average": {"score": self.average, "tasks": list(chain.from_iterable(self.counted))}}


def _spread(found: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Median, minimum and maximum of each metric over the seeds, in percent."""
    columns = {name: [100 * values[name] for values in found] for name in found[0]}
    return {
        name: {"median": statistics.median(v), "min": min(v), "max": max(v), "seeds": len(v)}
        for name, v in columns.items()
    }
