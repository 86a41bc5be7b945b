"""`regard fill`: predict masked words."""

import json
from typing import Annotated

import typer

from regard.cli.options import AsJsonLines, File, Model, Texts
from regard.cli.texts import chunks


def fill(
    texts: Texts = None,
    file: File = None,
    model: Model = None,
    top_k: Annotated[int, typer.Option(min=1, help="Number of words to show for each mask.")] = 5,
    as_json: AsJsonLines = False,
) -> None:
    """Predict the words behind [MASK].

    There is one line for each mask, with the most probable words and their probabilities.

    Examples:

        regard fill --model runs/bert "The [MASK] barked at the cat."

        regard fill --model hf:bert-base-uncased --top-k 3 --json "The [MASK] barked at the [MASK]."

        regard fill --model runs/bert --file sentences.txt
    """
    from regard.library import load_for

    filler = load_for("fill", model)
    for chunk in chunks(texts, file):
        for text, masks in zip(chunk, filler.fill(chunk, top_k), strict=True):
            if as_json:
                found = [[{"word": each.word, "probability": each.probability} for each in mask] for mask in masks]
                typer.echo(json.dumps({"text": text, "masks": found}, ensure_ascii=False))
                continue
            for mask in masks:
                typer.echo("\t".join(f"{each.word} {each.probability:.3f}" for each in mask))
