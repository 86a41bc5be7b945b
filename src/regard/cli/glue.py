"""`regard glue`: the GLUE table of a model."""

import json
import statistics
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.evaluate import ModelArgument
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.data.tables import Example

TRAINED = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")
BESIDE = ("BERT-base", "BERT-large", "Human")


def glue(
    model: ModelArgument,
    data: Annotated[Path, typer.Option(exists=True, file_okay=False, help="A folder with a folder for each task.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Changes of the recipe bert/glue.")
    ] = None,
    tasks: Annotated[str, typer.Option(help="Some of the nine tasks, parted by commas.")] = ",".join(TRAINED),
    seeds: Annotated[int, typer.Option(min=1, help="Fine-tunings of each task, with different seeds.")] = 1,
    runs: Annotated[Path, typer.Option(help="The folder for the runs; finished ones are not repeated.")] = Path(
        "runs/glue"
    ),
    submission: Annotated[
        Path | None, typer.Option(help="Also answer the test sets, in a folder of files for the leaderboard.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Fine-tune a model on GLUE's tasks, and show how well it does beside published models.

    Examples:

        regard glue runs/bert --data glue/ --tasks cola,rte,mrpc,stsb

        regard glue hf:all-MiniLM-L6-v2 train.epochs=5 --data glue/ --tasks rte --seeds 5
    """
    from regard.data.glue import TASKS
    from regard.evaluation.glue import average, counted

    chosen = [task.strip() for task in tasks.split(",")]
    if unknown := [task for task in chosen if task not in TRAINED]:
        raise RegardError(f"--tasks {','.join(unknown)}: no such task to train; there are {', '.join(TRAINED)}")
    for key in ("run", "seed", "task", "data.task", "data.folder", "model.init"):
        if any(override.partition("=")[0].strip() == key for override in overrides or []):
            raise RegardError(f"{key} is set by this command; use --runs, --seeds, --tasks, --data or MODEL for it")
    _check(data, chosen, submission is not None)
    rows: dict[str, dict[str, Any]] = {}
    for task in chosen:
        folders = [runs / f"{task}-{seed}" for seed in range(1, seeds + 1)]
        found = [_tuned(model, task, data, run, seed, overrides or []) for seed, run in enumerate(folders, start=1)]
        rows[task] = _spread([{name: values[f"valid_{name}"] for name in TASKS[task].metrics} for values in found])
        for other in _also(task, data, "dev"):
            rows[other] = _spread([_tried(run, data, other) for run in folders])
        if submission is not None:
            first = [values[f"valid_{TASKS[task].metrics[0]}"] for values in found]
            _submit(folders[first.index(max(first))], data, task, submission)
    if as_json:
        mean = {"score": average(_medians(rows)), "tasks": list(chain.from_iterable(counted(rows)))}
        typer.echo(json.dumps({**rows, "average": mean}))
    else:
        _show(rows)


def _check(data: Path, tasks: list[str], tests: bool) -> None:
    """Files that are missing are told before hours of work."""
    from regard.data.glue import TASKS, find

    for task in tasks:
        for split in ("train", "dev", *(["test"] if tests else [])):
            find(data, TASKS[task], split)


def _also(task: str, data: Path, split: str) -> list[str]:
    """Other questions of which a model for a task can be asked, where there are files: for MNLI, its other halves."""
    from regard.data.glue import TASKS, find

    result = []
    for other in ("mnli-mm", "ax") if task == "mnli" else ():
        try:
            find(data, TASKS[other], split)
        except RegardError:
            continue
        result.append(other)
    return result


def _spread(found: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Of each metric over all seeds, in percent."""
    columns = {name: [100 * values[name] for values in found] for name in found[0]}
    return {
        name: {"median": statistics.median(v), "least": min(v), "most": max(v), "seeds": len(v)}
        for name, v in columns.items()
    }


def _medians(rows: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    return {task: {name: value["median"] for name, value in metrics.items()} for task, metrics in rows.items()}


def _tried(run: Path, data: Path, task: str) -> dict[str, float]:
    """The scores of a model on the validation set of another task."""
    from regard.data.glue import TASKS, find, read
    from regard.evaluation.glue import scores

    path = find(data, TASKS[task], "dev")
    examples = list(read(TASKS[task], path))
    said = _said(run, path, examples)
    return scores(TASKS[task], said, [str(e.label) for e in examples])


def _said(run: Path, path: Path, examples: "list[Example]") -> Any:
    """What the best model of a run says of the examples of a file; how many were too long is told."""
    from regard.library import load_for

    texts, seconds = [example.text for example in examples], [example.second for example in examples]
    verdicts = load_for("classify", str(run)).classify(texts, seconds)
    if cut := sum(verdict.cut for verdict in verdicts):
        typer.echo(f"{path}: {cut:,} of {len(texts):,} texts are too long and were cut", err=True)
    return [verdict.said for verdict in verdicts]


def _tuned(model: str, task: str, data: Path, run: Path, seed: int, overrides: list[str]) -> dict[str, float]:
    """What the best model of a run reaches on the validation set; the run is made if it is not there."""
    from rich.console import Console

    from regard import recipe
    from regard.training.report import Report

    asked = [f"task={task}", f"seed={seed}", f'data.folder="{data}"', f'model.init="{model}"', f'run="{run}"']
    training = recipe.training(recipe.read("bert/glue", [*asked, *overrides]), Report(Console(stderr=True)))
    training.train()
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text("utf-8").splitlines()]
    return min((line for line in lines if "valid_loss" in line), key=training.task.worth)


def _submit(run: Path, data: Path, task: str, folder: Path) -> None:
    from regard.data.glue import TASKS, find, read
    from regard.evaluation.glue import SUBMISSION, write_submission

    folder.mkdir(parents=True, exist_ok=True)
    for question in (TASKS[name] for name in (task, *_also(task, data, "test"))):
        path = find(data, question, "test")
        examples = list(read(question, path, labelled=False))
        said = _said(run, path, examples)
        write_submission(folder / SUBMISSION[question.name], question, said)
        typer.echo(f"{folder / SUBMISSION[question.name]}: {len(said):,} answers for the leaderboard", err=True)


def _show(rows: dict[str, dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    from regard.evaluation.glue import REFERENCE, average, counted

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("task")
    table.add_column("metric")
    for heading in ("dev, median", "from … to", *BESIDE):
        table.add_column(heading, justify="right")
    for task, metrics in rows.items():
        for name, value in metrics.items():
            spread = f"{value['least']:.1f} … {value['most']:.1f}" if value["seeds"] > 1 else ""
            published = [REFERENCE[row].get(task, {}).get(name) for row in BESIDE]
            cells = ["" if x is None else f"{x:.1f}" for x in published]
            table.add_row(task, name, f"{value['median']:.1f}", spread, *cells)
    averages = [_average(REFERENCE[row], rows) for row in BESIDE]
    cells = ["" if x is None else f"{x:.1f}" for x in averages]
    table.add_row("average", f"{len(counted(rows))} of 9", f"{average(_medians(rows)):.1f}", "", *cells)
    console = Console(highlight=False)
    console.print(table)
    console.print(
        "\nOurs: the best of each run's validations. The others: on the test sets, as published.\n"
        "The average is over the tasks that were run, each with the mean of its metrics. Both sets of MNLI are one "
        "task, ax does not count, and a model for which a number was not published has none."
    )


def _average(published: dict[str, dict[str, float]], rows: dict[str, dict[str, Any]]) -> float | None:
    """Of the published numbers for all that counts in the average of these rows; None if any is lacking."""
    from regard.evaluation.glue import average, counted

    tasks = list(chain.from_iterable(counted(rows)))
    if any(name not in published.get(task, {}) for task in tasks for name in rows[task]):
        return None
    return average({task: {name: published[task][name] for name in rows[task]} for task in tasks})
