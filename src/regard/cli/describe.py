"""`regard describe`: the structure of a model, trained or not."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import AsJson, Overrides

if TYPE_CHECKING:
    from rich.console import Console

    from regard.library import Contents


def describe(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="A recipe, or a model: a run, a model folder, a bundled model, hf:FOLDER."),
    ],
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Show the parts, parameters and attention names of a model.

    The model is that of a recipe before training, or a trained one, whose task, labels and codecs are shown, too. A run
    folder means its trained model, or with overrides its recipe.

    Examples:

        regard describe translate/transformer

        regard describe translate/transformer model.preset=big tokenizer.vocab_size=37000

        regard describe en-es

        regard describe runs/mine --json
    """
    from regard import library, recipe
    from regard.explain.outline import describe as describe_model

    if library.is_model(name) and not overrides:
        contents = library.read_about(name)
        description = {**describe_model(contents.config), **_purpose(contents)}
    else:
        whole = recipe.read(name, overrides or [])
        description = describe_model(whole.model)
        if not whole.init and not all(codec.is_known for codec in whole.codecs.values()):
            about = "the vocabulary size depends on the data; these counts use the smallest possible vocabulary"
            typer.echo(f"regard: {about}", err=True)
    if as_json:
        typer.echo(json.dumps(description, indent=2))
    else:
        _show(description)


def _purpose(contents: "Contents") -> dict[str, Any]:
    """What a trained model is for, as JSON-compatible data."""
    codecs = {role: {"kind": codec.kind, **codec.sizes()} for role, codec in contents.codecs.items()}
    labels = list(getattr(contents.config, "labels", ()))
    verbs = list(contents.system.task(contents.task).verbs)
    return {"task": contents.task, "verbs": verbs, "labels": labels, "codecs": codecs}


def _show(description: dict[str, Any]) -> None:
    """Prints a description as a table, with identical layers in one row."""
    from rich.table import Table

    from regard.cli.console import make_console
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
    console = make_console(highlight=False)
    console.print(f"[bold]{description['config']['kind']}[/bold]")
    if "task" in description:
        _show_purpose(console, description)
    console.print(table)
    for what in ("attention", "positions"):
        names = dict.fromkeys(map(starred, description[what]))
        console.print(f"\n[bold]{what}[/bold]  {', '.join(names) or 'none'}")


def _show_purpose(console: "Console", description: dict[str, Any]) -> None:
    from rich.text import Text

    rows = {"task": f"{description['task']} (regard {', '.join(description['verbs'])})"}
    if description["labels"]:
        rows["labels"] = ", ".join(description["labels"])
    for role, codec in description["codecs"].items():
        sizes = ", ".join(f"{key} {value}" for key, value in codec.items() if key != "kind")
        rows[f"codec of {role}"] = f"{codec['kind']}, {sizes}"
    for name, text in rows.items():
        console.print(Text.assemble((name, "bold"), "  ", text))
    console.print()
