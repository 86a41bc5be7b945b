"""`regard glue`: GLUE scores of a model."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import AsJson, ModelArgument, Overrides
from regard.cli.signals import exit_code_of_signal

if TYPE_CHECKING:
    from regard.lab.glue import Table


def glue(
    model: ModelArgument,
    data: Annotated[Path, typer.Option(exists=True, file_okay=False, help="Folder with one subfolder per task.")],
    overrides: Overrides = None,
    tasks: Annotated[str | None, typer.Option(help="Tasks, separated by commas; default: all nine.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Number of fine-tuning runs per task, with different seeds.")] = 1,
    runs: Annotated[Path, typer.Option(help="Folder for the runs; finished runs are not repeated.")] = Path(
        "runs/glue"
    ),
    submission: Annotated[
        Path | None, typer.Option(help="Also write test set predictions to this folder, for the leaderboard.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Fine-tune a model on the GLUE tasks, and show its scores.

    The recipe is bert/glue; published scores are shown next to the model's own.

    Examples:

        regard glue runs/bert --data glue/ --tasks cola,rte,mrpc,stsb

        regard glue hf:all-MiniLM-L6-v2 train.learning_rate=5e-5 train.epochs=5 --data glue/ --tasks rte --seeds 5
    """
    from regard.cli.console import make_console
    from regard.lab.glue import TRAINED, Benchmark
    from regard.training.report import Report

    benchmark = Benchmark(
        model=model,
        data=data,
        report=Report(make_console(stderr=True)),
        say=lambda text: typer.echo(text, err=True),
        tasks=TRAINED if tasks is None else [task.strip() for task in tasks.split(",")],
        seeds=seeds,
        runs=runs,
        submission=submission,
        overrides=overrides or [],
    )
    with exit_code_of_signal():
        table = benchmark.run()
    if as_json:
        typer.echo(json.dumps(table.to_json()))
    else:
        _show(table)


def _show(found: "Table") -> None:
    from rich.table import Table

    from regard.cli.console import make_console
    from regard.evaluation.glue import REFERENCE
    from regard.lab.glue import BESIDE

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("task")
    table.add_column("metric")
    for heading in ("dev, median", "range", *BESIDE):
        table.add_column(heading, justify="right")
    for task, metrics in found.rows.items():
        for name, value in metrics.items():
            spread = f"{value['min']:.1f} … {value['max']:.1f}" if value["seeds"] > 1 else ""
            published = [REFERENCE[system].get(task, {}).get(name) for system in BESIDE]
            cells = ["" if x is None else f"{x:.1f}" for x in published]
            table.add_row(task, name, f"{value['median']:.1f}", spread, *cells)
    averages = [found.published(system) for system in BESIDE]
    cells = ["" if x is None else f"{x:.1f}" for x in averages]
    table.add_row("average", f"{len(found.counted)} of 9", f"{found.average:.1f}", "", *cells)
    console = make_console(highlight=False)
    console.print(table)
    console.print(
        "\nOurs: the best validation score of each run. Others: published test scores.\n"
        "The average is over the tasks that were run, each with the mean of its metrics. Both sets of MNLI count as "
        "one task, ax is not counted, and a model without a published score for a task has no average."
    )
