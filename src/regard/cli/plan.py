"""`regard plan`: estimate the cost of a training run before it starts."""

import dataclasses
import json
from typing import Annotated

import typer

from regard.cli.options import AsJson, Overrides, Recipe


def plan(
    name: Recipe,
    overrides: Overrides = None,
    minutes: Annotated[float, typer.Option(min=0.1, help="Time budget: also report how many steps fit into it.")] = 60,
    seconds: Annotated[float, typer.Option("--probe", min=0, help="How many seconds to train for the estimate.")] = 30,
    as_json: AsJson = False,
) -> None:
    """Estimate the time and memory of a training run.

    It trains for a few seconds; nothing is saved.

    Examples:

        regard plan translate/dates --probe 5

        regard plan translate/transformer data.train=my.en-de.tsv model.preset=base --minutes 480
    """
    from regard import recipe
    from regard.training.plan import probe

    chosen = recipe.read(name, overrides or [])
    found = probe(recipe.job(chosen), minutes, seconds)
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(found), indent=2))
        return
    epoch = found.steps_per_epoch
    rows = {
        "parameters": f"{found.parameters:,}",
        "work": f"{found.flops_per_step / 1e9:,.1f} GFLOP per step; training reaches {found.utilisation:.0%} of the "
        f"machine's matrix product speed, {found.limit / 1e9:,.0f} GFLOP/s",
        "speed": f"{found.tokens_per_second:,.0f} tokens/s, {_time(found.seconds_per_step)} per step",
        "epoch": f"{_time(epoch * found.seconds_per_step)}, {epoch:,.0f} steps",
        "validation": f"{_time(found.seconds_per_validation)}, every {chosen.train.validate_every:,} steps",
        "whole run": f"{_time(found.seconds)}, {found.steps:,} steps, {found.steps / epoch:.1f} epochs",
        "peak memory": f"{found.peak_memory / 1e9:.1f} GB",
        "checkpoint": f"{found.checkpoint_bytes / 1e6:,.0f} MB on disk; "
        f"{max(2, chosen.train.average_checkpoints)} are kept",
        f"in {minutes:g} min": f"{found.fitting_steps:,} steps, {found.fitting_steps / epoch:.1f} epochs",
    }
    width = max(map(len, rows))
    typer.echo("\n".join(f"{key:<{width}}  {text}" for key, text in rows.items()))


def _time(seconds: float) -> str:
    """A duration in a suitable unit."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"
