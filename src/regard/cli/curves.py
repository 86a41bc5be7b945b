"""`regard curves`: learning curves of several runs in one figure."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.options import json_option, output_option
from regard.counts import counted

DEFAULT = Path("curves.png")


def curves(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Folders of runs, finished or still training.")],
    by: Annotated[Literal["step", "epoch", "minutes"], typer.Option(help="The x axis.")] = "step",
    output: Annotated[
        Path | None, output_option("Write the figure to this .png, .svg or .pdf file; default: curves.png.")
    ] = None,
    as_json: Annotated[bool, json_option("Print the curves as JSON; without -o, draw nothing.")] = False,
) -> None:
    """Draw the learning curves of runs in one figure.

    Each metric has a panel, and each run a line.

    Examples:

        regard curves runs/a runs/b -o curves.png

        regard curves runs/a runs/b --by minutes
    """
    from regard.explain.view import figure_module
    from regard.training import curves as logs

    path = output if as_json else output or DEFAULT
    if path is not None:
        figure_module().expect_format(path)
    found = {str(run): logs.curves(run, by) for run in runs}
    if path is not None:
        figure_module().save(figure_module().compared_curves(found, by), path)
    if as_json:
        typer.echo(json.dumps({"by": by, "runs": found}))
    else:
        metrics = dict.fromkeys(name for each in found.values() for name in each)
        typer.echo(f"{path}: {', '.join(metrics)} of {counted(len(found), 'run')}")
