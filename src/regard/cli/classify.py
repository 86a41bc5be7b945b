"""`regard classify`: what a model says of texts."""

import json
from typing import Annotated

import typer

from regard.cli.options import AsJsonLines, Model, Texts
from regard.cli.texts import chunks
from regard.errors import RegardError


def classify(
    texts: Texts = None,
    model: Model = None,
    second: Annotated[str | None, typer.Option(help="A second text, for models that compare two.")] = None,
    as_json: AsJsonLines = False,
) -> None:
    """Say what each text is, and how sure the model is of it. In standard input, a tab parts a text from its second.

    Examples:

        regard classify --model runs/sst2 "a charming and often affecting journey"

        regard classify --model runs/rte "It rains." --second "The street is wet." --json

        regard classify --model runs/sst2 < reviews.txt
    """
    from regard.library import load_for

    if second is not None and not texts:
        raise RegardError("--second goes with texts on the command line; in standard input, a tab parts two texts")
    classifier = load_for("classify", model)
    truncated = 0
    for chunk in chunks(texts):
        pairs = [(text, second) if texts else _parted(text) for text in chunk]
        for (text, other), prediction in zip(pairs, classifier.classify(*zip(*pairs, strict=True)), strict=True):
            truncated += prediction.truncated
            if as_json:
                pair = {} if other is None else {"second": other}
                found = {
                    "label": prediction.label,
                    "value": prediction.value,
                    "probabilities": prediction.probabilities,
                }
                typer.echo(
                    json.dumps({"text": text, **pair, **found, "truncated": prediction.truncated}, ensure_ascii=False)
                )
            elif prediction.label is None:
                typer.echo(f"{prediction.value:.3f}")
            else:
                typer.echo(f"{prediction.label}\t{prediction.value:.3f}")
    if truncated:
        typer.echo(f"texts too long for the model, whose ends were not read: {truncated:,}", err=True)


def _parted(line: str) -> tuple[str, str | None]:
    one, is_pair, other = line.partition("\t")
    return one, other if is_pair else None
