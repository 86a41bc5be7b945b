"""`regard recipes`: list, show and copy the recipes that come with Regard."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import json_option, output_option
from regard.errors import RegardError
from regard.recipes import bundled, find


def recipes(
    name: Annotated[str | None, typer.Argument(help="A recipe to show; without it, all are listed.")] = None,
    output: Annotated[Path | None, output_option("Copy the recipe to this file, to change it there.")] = None,
    as_json: Annotated[bool, json_option("List as JSON.")] = False,
) -> None:
    """List the recipes, show one, or copy one.

    Examples:

        regard recipes

        regard recipes translate/transformer

        regard recipes translate/transformer -o mine.toml
    """
    if name is None:
        if output is not None:
            raise RegardError(f"which recipe is to be copied to {output}? Name one: regard recipes NAME -o {output}")
        titles = {name: path.read_text("utf-8").splitlines()[0].lstrip("# ") for name, path in bundled().items()}
        width = max(map(len, titles))
        typer.echo(json.dumps(titles) if as_json else "\n".join(f"{n:<{width}}  {t}" for n, t in titles.items()))
        return
    if as_json:
        raise RegardError("--json goes with the list of all recipes; a recipe itself is TOML")
    text = find(name).read_text("utf-8")
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise RegardError(f"{output} exists and is left as it is; choose another name") from None
    typer.echo(f"{output}: a copy of {name}; try: regard describe {output}")
