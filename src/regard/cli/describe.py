"""`regard describe`: the structure of a recipe's model, before any training."""

import json
from typing import Any

import typer

from regard.cli.options import AsJson, Overrides, Recipe


def describe(
    name: Recipe,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Show a model's modules, their parameter counts, and the names of its attention modules.

    Examples:

        regard describe translate/transformer

        regard describe translate/transformer model.preset=big tokenizer.vocab_size=37000
    """
    from regard import recipe
    from regard.explain.outline import describe as describe_model

    whole = recipe.read(name, overrides or [])
    description = describe_model(whole.model)
    if not whole.init and not all(codec.is_known for codec in whole.codecs.values()):
        about = "the vocabulary size depends on the data; these counts use the smallest possible vocabulary"
        typer.echo(f"regard: {about}", err=True)
    if as_json:
        typer.echo(json.dumps(description, indent=2))
    else:
        _show(description)


def _show(description: dict[str, Any]) -> None:
    """Prints a description as a table, with identical layers in one row."""
    from rich.console import Console
    from rich.table import Table

    from regard.explain.outline import starred

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("part", "shapes"):
        table.add_column(heading, overflow="fold")
    for heading in ("times", "parameters"):
        table.add_column(heading, justify="right")
    groups: dict[tuple[str, str], list[int]] = {}
    for row in description["parts"]:
        shapes = ", ".join("×".join(map(str, shape)) for shape in row["shapes"])
        groups.setdefault((starred(row["path"]), shapes), []).append(row["parameters"])
    for (path, shapes), counts in groups.items():
        table.add_row(path, shapes, str(len(counts)) if len(counts) > 1 else "", f"{sum(counts):,}")
    table.add_section()
    table.add_row("all", "", "", f"{description['parameters']:,}", style="bold")
    console = Console(highlight=False)
    console.print(f"[bold]{description['config']['kind']}[/bold]")
    console.print(table)
    for what in ("attention", "positions"):
        names = dict.fromkeys(map(starred, description[what]))
        console.print(f"\n[bold]{what}[/bold]  {', '.join(names) or 'none'}")
