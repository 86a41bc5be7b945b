"""`regard lab`: experiments that test the lectures' claims."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import AsJson, Model, output_option

if TYPE_CHECKING:
    from regard.lab.experiment import Experiment

lab = typer.Typer(rich_markup_mode=None)
Conllu = Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Tagged sentences, CoNLL-U, plain or .gz.")]
Plot = Annotated[Path | None, output_option("Plot the result to this .png, .svg or .pdf file.")]


@lab.callback(invoke_without_command=True)
def experiments(context: typer.Context) -> None:
    """Run experiments that test the lectures' claims. Without a name, list all experiments.

    Examples:

        regard lab

        regard lab layers --help
    """
    if context.invoked_subcommand is None:
        from regard.lab.registry import EXPERIMENTS

        width = max(len(experiment.name) for experiment in EXPERIMENTS)
        for experiment in EXPERIMENTS:
            typer.echo(f"{experiment.name:<{width}}  {experiment.claim}")


@lab.command()
def layers(
    train: Conllu,
    valid: Conllu,
    model: Model = None,
    max_examples: Annotated[int, typer.Option(min=1, help="Maximum number of training sentences.")] = 2000,
    output: Plot = None,
    as_json: AsJson = False,
) -> None:
    """Which layers of a BERT give the best features? Tag words with a linear probe on each choice of layers.

    Examples:

        regard lab layers --model hf:all-MiniLM-L6-v2 --train train.conllu --valid dev.conllu -o layers.png
    """
    from itertools import islice

    from regard.data.conllu import sentences
    from regard.lab.layers import Layers
    from regard.library import load_for

    _begin(Layers, output, as_json)
    encoder = load_for("embed", model)
    found = Layers.run(encoder, list(islice(sentences(train), max_examples)), list(sentences(valid)))
    _end(found, output, as_json)


def _begin(experiment: "type[Experiment]", output: Path | None, as_json: bool) -> None:
    """Prints claim and prediction to standard error before the run."""
    if output is not None:
        from regard.explain import figures

        figures.expect_format(output)
    if not as_json:
        typer.echo(f"claim: {experiment.claim}\nprediction: {experiment.prediction}", err=True)


def _end(found: "Experiment", output: Path | None, as_json: bool) -> None:
    """Prints the results, and the verdict on the prediction to standard error."""
    if output is not None:
        from regard.explain import figures

        figures.save(found.figure(), output)
    if as_json:
        typer.echo(json.dumps(found.to_json()))
        return
    width = max(map(len, found.values))
    for name, value in found.values.items():
        typer.echo(f"{name:<{width}}  {value:6.2f}")
    typer.echo(f"verdict: {found.verdict}", err=True)
