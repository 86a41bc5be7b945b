"""`regard describe`: what a recipe's model is made of, before anything is trained."""

import dataclasses
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from torch import nn


def describe(
    name: Annotated[str, typer.Argument(metavar="RECIPE", help="A bundled recipe or a file of your own.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Changes, such as model.heads=8.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Show a model's parts, their parameters, and the names of its attentions.

    Examples:

        regard describe translate/transformer

        regard describe translate/transformer model.preset=big tokenizer.vocab_size=37000
    """
    import torch

    from regard import recipe
    from regard.blocks.capture import attention_cores, position_modules

    whole = recipe.read(name, overrides or [])
    config = whole.model
    with torch.device("meta"):  # shapes without memory, so that the largest model is described at once
        model = config.build()
    description = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "parts": outline(model),
        "attention": list(attention_cores(model)),
        "positions": list(position_modules(model)),
        "config": dataclasses.asdict(config),
    }
    if not whole.init and not all(codec.is_known for codec in whole.codecs.values()):
        about = "its vocabulary comes with the data; what is counted here is the smallest that there can be"
        typer.echo(f"regard: {about}", err=True)
    if as_json:
        typer.echo(json.dumps(description, indent=2))
    else:
        show(description)


def outline(model: "nn.Module") -> list[dict[str, Any]]:
    """The parts of a model that have parameters of their own, each parameter counted once, layers one by one."""
    counted: set[int] = set()
    rows = []
    for path, module in model.named_modules():
        own = [p for p in module.parameters(recurse=False) if id(p) not in counted]
        counted.update(map(id, own))
        if own:
            shapes = [list(p.shape) for p in own]
            rows.append({"path": path, "shapes": shapes, "parameters": sum(p.numel() for p in own)})
    return rows


def show(description: dict[str, Any]) -> None:
    """Prints a description as a table, layers of the same make in one line."""
    from rich.console import Console
    from rich.table import Table

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


def starred(path: str) -> str:
    """A module path with the number of the layer left open, which is also a pattern for `capture`."""
    return ".".join("*" if part.isdigit() else part for part in path.split("."))
