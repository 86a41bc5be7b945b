"""`regard tag`: tag each word of a text."""

import json

import typer

from regard.cli.options import AsJsonLines, Model, Texts
from regard.cli.texts import chunks


def tag(texts: Texts = None, model: Model = None, as_json: AsJsonLines = False) -> None:
    """Tag each word of a text.

    Examples:

        regard tag --model runs/pos "The brown dog ran"

        regard tag --model runs/tagger --json < sentences.txt
    """
    from regard.library import load_for

    tagger = load_for("tag", model)
    truncated = 0
    for chunk in chunks(texts):
        sentences = [tagger.split(text) for text in chunk]
        for sentence, tags in zip(sentences, tagger.tag(sentences), strict=True):
            truncated += None in tags
            if as_json:
                typer.echo(json.dumps({"words": sentence, "tags": tags}, ensure_ascii=False))
            else:
                typer.echo(" ".join(found or "?" for found in tags))
    if truncated:
        typer.echo(f"truncated texts (too long for the model; the last words have no tag): {truncated:,}", err=True)
