"""`regard look`: what attends to what."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.translate import Model

if TYPE_CHECKING:
    from regard.explain.alignment import Alignment

SHADES = " ░▒▓█"


def look(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A sentence to translate.")],
    model: Model = "en-es",
    target: Annotated[str | None, typer.Option(help="A translation of it; without one, the model's own.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a picture instead: .png, .svg or .pdf.")
    ] = None,
) -> None:
    """Show what each word of a translation looked at in the source.

    Examples:

        regard look "The child picked up a small stone."

        regard look --model runs/dates "Monday, August 3, 1992" -o alignment.png

        regard look "The child laughs." --target "El niño se ríe."
    """
    from regard.library import load

    translator = load(model)
    if target is None:
        found = translator.translate([text], align=True)[0][0].alignment
    else:
        (found,) = translator.align([text], [target])
    if found is None or not found.source:
        raise ValueError("there is nothing to look at in an empty text")
    if output is None:
        typer.echo(_drawn(found))
        return
    try:
        from regard.explain import figures
    except ImportError:
        raise ValueError("a picture needs matplotlib; install it with: pip install 'regard[plot]'") from None
    figures.save(figures.alignment(found), output)
    typer.echo(f"{output}: {' '.join(found.target)}")


def _drawn(found: "Alignment") -> str:
    """The matrix in letters: a row for each word written, under the words read."""
    margin = max(map(len, found.target), default=0) + 2
    lines = [" " * margin + "  ".join(found.source)]
    for word, row in zip(found.target, found.weights, strict=True):
        cells = [
            SHADES[min(len(SHADES) - 1, round(weight * len(SHADES)))] * len(source)
            for source, weight in zip(found.source, row, strict=True)
        ]
        lines.append(f"{word:>{margin - 2}}  " + "  ".join(cells))
    return "\n".join(line.rstrip() for line in lines)
