"""`regard train`: train the model of a recipe."""

import os

import typer

from regard.cli.options import Overrides, Recipe


def train(
    name: Recipe,
    overrides: Overrides = None,
) -> None:
    """Train a model. If it is interrupted, run the same command again to resume.

    Examples:

        regard train translate/dates

        regard train translate/transformer data.train=my.en-de.tsv run=runs/mine

        regard train translate/transformer 'data.train={path="train.en", target="train.de"}' train.minutes=30

        regard train bert/pretrain data.text="books/*.txt" run=runs/bert

        regard train bert/glue task=sst2 model.init=runs/bert data.folder=glue run=runs/sst2

        regard train runs/mine

        torchrun --nproc-per-node 2 -m regard train translate/transformer data.train=my.en-de.tsv
    """
    from rich.console import Console

    from regard import recipe
    from regard.training.interrupt import Interrupted
    from regard.training.report import Report

    chosen = recipe.read(name, overrides or [])
    training = recipe.training(chosen, Report(Console(stderr=True, quiet=bool(int(os.environ.get("RANK", 0))))))
    try:
        folder = training.train()
    except Interrupted as stopped:
        training.report.say(f"regard: {stopped}")
        raise typer.Exit(stopped.exit_code) from None
    if training.group.is_first:
        typer.echo(f'{folder}: trained model. Try: regard {training.task.verbs[0]} --model {chosen.run} "..."')
