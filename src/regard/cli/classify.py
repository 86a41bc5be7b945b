"""`regard classify`: label texts or pairs of texts."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import AsJsonLines, File, Model, Texts
from regard.cli.texts import chunks
from regard.errors import RegardError

if TYPE_CHECKING:
    from regard.tasks.image_classification import ImageClassifier


def classify(
    texts: Texts = None,
    file: File = None,
    model: Model = None,
    second: Annotated[str | None, typer.Option(help="Second text, for models that classify pairs.")] = None,
    as_json: AsJsonLines = False,
) -> None:
    """Classify texts or images: a label and its probability for each.

    Images are given as files. In a file or standard input, a tab separates pairs of texts.

    Examples:

        regard classify --model runs/sst2 "a charming and often affecting journey"

        regard classify --model runs/rte "It rains." --second "The street is wet." --json

        regard classify --model runs/sst2 --file reviews.txt

        regard classify --model runs/images cat.jpg dog.png --json
    """
    from regard.library import load_for

    if second is not None and not texts:
        raise RegardError(
            "--second needs a text on the command line; in a file or on standard input, separate the texts with a tab"
        )
    classifier = load_for("classify", model)
    if "image" in classifier.accepts:
        _classify_images(classifier, texts, file, second, as_json)
        return
    truncated = 0
    for chunk in chunks(texts, file):
        # for a model of single texts, a tab is a space
        pairs = [(text, second) if texts or classifier.pairs is False else _split_pair(text) for text in chunk]
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
        typer.echo(f"truncated texts (too long for the model): {truncated:,}", err=True)


def _split_pair(line: str) -> tuple[str, str | None]:
    one, is_pair, other = line.partition("\t")
    return one, other if is_pair else None


def _classify_images(
    classifier: "ImageClassifier", paths: list[str] | None, file: Path | None, second: str | None, as_json: bool
) -> None:
    if second is not None:
        raise RegardError("--second is for pairs of texts; this model classifies images")
    # the name of a file is what is meant here, so there is no warning about it
    for chunk in [paths] if paths else chunks(None, file):
        for path, prediction in zip(chunk, classifier.classify(chunk), strict=True):
            if as_json:
                found = {"label": prediction.label, "value": prediction.value}
                typer.echo(json.dumps({"image": path, **found, "probabilities": prediction.probabilities}))
            else:
                typer.echo(f"{prediction.label}\t{prediction.value:.3f}" + ("" if len(chunk) == 1 else f"\t{path}"))
