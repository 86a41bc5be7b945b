"""`regard recipes`: list, show and copy the bundled recipes; list the keys of recipes."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import json_option, output_option
from regard.errors import RegardError
from regard.recipes import bundled, find

if TYPE_CHECKING:
    from regard.reference import Table


def recipes(
    name: Annotated[str | None, typer.Argument(help="Recipe to show; default: list all.")] = None,
    output: Annotated[
        Path | None, output_option("Copy the recipe to this file; or write the keys or the schema to it.")
    ] = None,
    as_json: Annotated[bool, json_option("Print the list as JSON.")] = False,
    keys: Annotated[
        bool, typer.Option("--keys", help="List all keys of recipes: type, default, meaning; with -o, as Markdown.")
    ] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print a JSON schema of recipes, for editors.")] = False,
) -> None:
    """List, show or copy the recipes; list the keys of recipes.

    Examples:

        regard recipes

        regard recipes translate/transformer

        regard recipes translate/transformer -o mine.toml

        regard recipes --keys

        regard recipes --schema -o regard.schema.json
    """
    if keys or schema:
        if name is not None or (keys and schema):
            raise RegardError("--keys and --schema describe all recipes; give only one of them, and no recipe name")
        _reference(keys, output, as_json)
        return
    if name is None:
        if output is not None:
            raise RegardError(f"no recipe to copy to {output}; name one: regard recipes NAME -o {output}")
        titles = {name: path.read_text("utf-8").splitlines()[0].lstrip("# ") for name, path in bundled().items()}
        width = max(map(len, titles))
        typer.echo(json.dumps(titles) if as_json else "\n".join(f"{n:<{width}}  {t}" for n, t in titles.items()))
        return
    if as_json:
        raise RegardError("--json applies only to the list of all recipes; remove it to show the recipe as TOML")
    text = find(name).read_text("utf-8")
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise RegardError(f"{output} already exists and is not overwritten; choose another name") from None
    typer.echo(f"{output}: copied from {name}. Try: regard describe {output}")


def _reference(keys: bool, output: Path | None, as_json: bool) -> None:
    """Prints or writes the keys of recipes, or their schema."""
    from regard import reference

    if output is None and keys and not as_json:
        _show(reference.tables())
        return
    if keys:
        text = reference.as_json() if as_json else reference.markdown()
    else:
        text = json.dumps(reference.schema(), indent=2, ensure_ascii=False)
    if output is None:
        typer.echo(text)
    else:
        output.write_text(text.rstrip("\n") + "\n", "utf-8")
        typer.echo(f"{output}: {'the keys' if keys else 'the schema'} of recipes")


def _show(tables: Sequence["Table"]) -> None:
    """Prints the keys of recipes, one table per recipe section."""
    from rich.table import Table as Columns
    from rich.text import Text

    from regard.cli.console import make_console
    from regard.reference import shape

    console = make_console(highlight=False)
    for table in tables:
        console.print(Text(table.title, "bold"), Text(table.about), "", sep="\n")
        columns = Columns("key", "type", "default", "meaning", box=None, pad_edge=False, header_style="dim")
        for key in table.keys:
            columns.add_row(*map(Text, key))
        for preset, values in table.presets.items():
            columns.add_row("", Text(f"preset {preset}"), "", Text(shape(values)))
        console.print(columns, "")
