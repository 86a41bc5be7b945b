"""`regard train`: train the model of a recipe."""

import typer

from regard.cli.options import Overrides, Recipe
from regard.cli.signals import exit_code_of_signal


def train(
    name: Recipe,
    overrides: Overrides = None,
) -> None:
    """Train a model. If it is interrupted, run the same command again to resume.

    The run folder holds the model, checkpoints, log.jsonl and curves.png; train.tensorboard=true adds events for
    TensorBoard. Ctrl-C saves a checkpoint first.

    Examples:

        regard train translate/dates

        regard train translate/transformer data.train=my.en-de.tsv run=runs/mine

        regard train translate/transformer 'data.train={path="train.en", target="train.de"}' train.minutes=30

        regard train bert/pretrain data.text="books/*.txt" run=runs/bert

        regard train bert/glue task=sst2 model.init=runs/bert data.folder=glue run=runs/sst2

        regard train runs/mine

        torchrun --nproc-per-node 2 -m regard train translate/transformer data.train=my.en-de.tsv
    """

    from regard import recipe
    from regard.cli.console import make_console
    from regard.training.distributed import rank
    from regard.training.report import Report
    from regard.training.run import train as train_job

    chosen = recipe.read(name, overrides or [])
    with exit_code_of_signal():
        training = train_job(recipe.job(chosen), Report(make_console(stderr=True, quiet=rank() > 0)))
    if training.group.is_first:
        folder, verb = training.run / "model", training.task.verbs[0]
        typer.echo(f'{folder}: trained model. Try: regard {verb} --model {chosen.run} "..."')
