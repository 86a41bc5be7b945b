"""`regard tag`: tag each word of a text."""

import json
from collections.abc import Sequence
from typing import Annotated

import typer

from regard.cli.options import AsJsonLines, File, Model, Texts
from regard.cli.texts import chunks
from regard.errors import RegardError


def tag(
    texts: Texts = None,
    file: File = None,
    model: Model = None,
    conll: Annotated[
        bool, typer.Option("--conll", help="Print one word and its tag per line, and an empty line after each text.")
    ] = False,
    as_json: AsJsonLines = False,
) -> None:
    """Tag each word of a text, as in The/DET dog/NOUN barked/VERB. A text is split into words and symbols.

    Examples:

        regard tag --model runs/pos "The brown dog ran"

        regard tag --model runs/tagger --conll --file sentences.txt

        regard tag --model runs/tagger --json < sentences.txt
    """
    from regard.library import load_for

    if conll and as_json:
        raise RegardError("--conll and --json cannot be combined; remove one of them")
    tagger = load_for("tag", model)
    truncated = 0
    for chunk in chunks(texts, file):
        sentences = [tagger.split(text) for text in chunk]
        for sentence, tags in zip(sentences, tagger.tag(sentences), strict=True):
            truncated += None in tags
            if as_json:
                typer.echo(json.dumps({"words": sentence, "tags": tags}, ensure_ascii=False))
            elif conll:
                typer.echo("".join(f"{line}\n" for line in _joined(sentence, tags, "\t")))
            else:
                typer.echo(" ".join(_joined(sentence, tags, "/")))
    if truncated:
        typer.echo(f"truncated texts (too long for the model; the last words have no tag): {truncated:,}", err=True)


def _joined(words: Sequence[str], tags: Sequence[str | None], separator: str) -> list[str]:
    return [f"{word}{separator}{tag or '?'}" for word, tag in zip(words, tags, strict=True)]
