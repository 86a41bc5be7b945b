"""`regard lab`: the lectures' claims as experiments."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.encode import MustModel

lab = typer.Typer(help="The lectures' claims as experiments.", no_args_is_help=True, rich_markup_mode=None)
Conllu = Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Tagged sentences, CoNLL-U, plain or .gz.")]


@lab.callback()
def options() -> None:
    """The lectures' claims as experiments."""


@lab.command()
def layers(
    model: MustModel,
    train: Conllu,
    valid: Conllu,
    most: Annotated[int, typer.Option(min=1, help="Sentences to learn from, at most.")] = 2000,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Draw the table: .png, .svg or .pdf.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print as JSON.")] = False,
) -> None:
    """Which layers of a BERT make the best features? Tag words with a linear layer on each choice of them.

    Examples:

        regard lab layers --model hf:all-MiniLM-L6-v2 --train train.conllu --valid dev.conllu -o layers.png
    """
    from itertools import islice

    from regard.data.conllu import sentences
    from regard.lab.layers import study
    from regard.library import load_for

    if output is not None:
        from regard.explain import figures

        figures.expect_format(output)
    encoder = load_for("embed", model)
    found = study(encoder, list(islice(sentences(train), most)), list(sentences(valid)))
    if output is not None:
        figures.save(figures.bars(found, "words tagged right, %"), output)
    if as_json:
        typer.echo(json.dumps(found))
        return
    width = max(map(len, found))
    for name, accuracy in found.items():
        typer.echo(f"{name:<{width}}  {accuracy:6.2f}")
