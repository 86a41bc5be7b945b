"""`regard translate`: text in, translations out."""

import json
import sys
from typing import Annotated

import typer

Model = Annotated[str, typer.Option("--model", "-m", help="A run's folder, a model's folder, or a bundled model.")]
Beam = Annotated[int, typer.Option(min=1, help="Translations followed at a time; 1 is greedy search.")]


def translate(
    texts: Annotated[
        list[str] | None, typer.Argument(metavar="TEXT", help="Texts; without any, lines of standard input.")
    ] = None,
    model: Model = "en-es",
    beam: Beam = 4,
    n_best: Annotated[int, typer.Option(min=1, help="Translations to give for each text.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object a line, with scores.")] = False,
) -> None:
    """Translate texts, or standard input line by line.

    Examples:

        regard translate --model runs/dates "Monday, August 3, 1992"

        regard translate --model runs/mine < in.txt > out.txt
    """
    from regard.library import load

    translator = load(model)
    lines = texts or [line.rstrip("\n") for line in sys.stdin]
    for line, found in zip(lines, translator.translate(lines, beam=beam, n_best=n_best), strict=True):
        if as_json:
            answers = [{"text": t.text, "score": t.score, "cut": t.cut} for t in found]
            typer.echo(json.dumps({"source": line, "translations": answers}, ensure_ascii=False))
        else:
            for translation in found:
                typer.echo(translation.text)
