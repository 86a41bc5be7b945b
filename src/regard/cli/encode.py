"""`regard classify`, `regard tag` and `regard embed`: what a model says of texts, of words, and as numbers."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.translate import Engine
from regard.errors import RegardError

if TYPE_CHECKING:
    from torch import Tensor

MustModel = Annotated[
    str, typer.Option("--model", "-m", help="A run, a model's folder, or hf:FOLDER of Hugging Face's.")
]
AsJson = Annotated[bool, typer.Option("--json", help="A JSON object a line.")]
Texts = Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Texts; without any, lines of standard input.")]
AT_ONCE = 1024  # lines of standard input


def classify(
    model: MustModel,
    texts: Texts = None,
    second: Annotated[str | None, typer.Option(help="A second text, for models that compare two.")] = None,
    as_json: AsJson = False,
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
    cut = 0
    for chunk in _chunks(texts):
        pairs = [(text, second) if texts else _parted(text) for text in chunk]
        for (text, other), verdict in zip(pairs, classifier.classify(*zip(*pairs, strict=True)), strict=True):
            cut += verdict.cut
            if as_json:
                pair = {} if other is None else {"second": other}
                found = {"label": verdict.label, "value": verdict.value, "probabilities": verdict.probabilities}
                typer.echo(json.dumps({"text": text, **pair, **found, "cut": verdict.cut}, ensure_ascii=False))
            elif verdict.label is None:
                typer.echo(f"{verdict.value:.3f}")
            else:
                typer.echo(f"{verdict.label}\t{verdict.value:.3f}")
    if cut:
        typer.echo(f"texts too long for the model, whose ends were not read: {cut:,}", err=True)


def tag(model: MustModel, texts: Texts = None, as_json: AsJson = False) -> None:
    """Give each word of a text its tag.

    Examples:

        regard tag --model runs/pos "The brown dog ran"

        regard tag --model runs/tagger --json < sentences.txt
    """
    from regard.library import load_for
    from regard.tasks.tagging import words

    tagger = load_for("tag", model)
    cut = 0
    for chunk in _chunks(texts):
        sentences = [words(text) for text in chunk]
        for sentence, tags in zip(sentences, tagger.tag(sentences), strict=True):
            cut += None in tags
            if as_json:
                typer.echo(json.dumps({"words": sentence, "tags": tags}, ensure_ascii=False))
            else:
                typer.echo(" ".join(found or "?" for found in tags))
    if cut:
        typer.echo(f"texts too long for the model, whose last words have no tag: {cut:,}", err=True)


def embed(
    model: MustModel,
    file: Annotated[
        Path | None, typer.Argument(exists=True, dir_okay=False, help="Texts, one a line; without it, standard input.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to .npy, .json or .parquet; without it, JSON lines.")
    ] = None,
    layers: Annotated[
        str, typer.Option(help="Which layers: -1 is the last, -4: the last four, 1,2 these two; 0 goes into the first.")
    ] = "-1",
    join: Annotated[
        Literal["mean", "sum", "concatenate"], typer.Option(help="What becomes of several layers.")
    ] = "mean",
    pool: Annotated[
        Literal["mean", "cls", "max"], typer.Option(help="Mean of all tokens, the vector of [CLS], or the maximum.")
    ] = "mean",
    normalise: Annotated[bool, typer.Option("--normalise", help="Vectors of length 1.")] = False,
    engine: Engine = "torch",
) -> None:
    """Turn texts into vectors; an empty line has one, too. The end of a text that is too long is not read.

    Examples:

        regard embed --model hf:all-MiniLM-L6-v2 sentences.txt -o vectors.npy --normalise

        regard embed --model runs/bert sentences.txt -o vectors.npy --layers -4: --join concatenate --pool mean

        regard embed --model runs/bert < sentences.txt

        regard embed --model runs/bert sentences.txt -o vectors.npy --engine ct2
    """
    from regard.data.text import lines
    from regard.folders import expect_parent
    from regard.library import load_for

    if output is not None and output.suffix not in (".npy", ".json", ".parquet"):
        raise RegardError(f"{output}: write to .npy, .json or .parquet")
    if output is not None:
        expect_parent(output)
    encoder = load_for("embed", model, engine)
    texts = list(lines(file)) if file is not None else [text for chunk in _chunks(None) for text in chunk]
    chosen = _layers(layers, encoder.model.config.layers + 1)
    vectors_ND = encoder.embed(texts, layers=chosen, join=join, pool=pool, normalise=normalise)
    if cut := sum(encoded.is_cut for encoded in encoder.encode(texts)):
        typer.echo(f"texts of more than {encoder.model.limit} tokens, whose ends were not read: {cut:,}", err=True)
    _write(output, texts, vectors_ND)


def _layers(text: str, count: int) -> list[int]:
    """The layers that a text such as `-4:` or `1,2` names."""
    every = list(range(count))
    try:
        if ":" in text:
            return every[slice(*(int(part) if part else None for part in text.split(":")))]
        return [int(part) for part in text.split(",")]
    except (ValueError, TypeError):
        raise RegardError(f"--layers {text}: write numbers such as -1 or 1,2, or a range such as -4:") from None


def _write(output: Path | None, texts: Sequence[str], vectors_ND: "Tensor") -> None:
    import numpy as np

    if output is None:
        for text, vector in zip(texts, vectors_ND.tolist(), strict=True):
            typer.echo(json.dumps({"text": text, "vector": vector}, ensure_ascii=False))
        return
    if output.suffix == ".npy":
        np.save(output, vectors_ND.numpy())
    elif output.suffix == ".json":
        output.write_text(json.dumps(vectors_ND.tolist()), "utf-8")
    else:
        try:
            from regard.cli.parquet import write
        except ImportError:
            raise RegardError(
                f"{output}: Parquet needs pyarrow; pip install 'regard[parquet]', or write to .npy or .json"
            ) from None
        write(output, texts, vectors_ND.tolist())
    typer.echo(f"{output}: {len(texts):,} vectors of width {vectors_ND.size(1)}")


def _parted(line: str) -> tuple[str, str | None]:
    one, is_pair, other = line.partition("\t")
    return one, other if is_pair else None


def _chunks(texts: Sequence[str] | None) -> Iterator[list[str]]:
    """The texts given, or those of standard input as they come."""
    from regard.data.text import decoded

    if texts:
        yield list(texts)
        return
    chunk = []
    for line in decoded(sys.stdin.buffer, "standard input"):
        chunk.append(line)
        if len(chunk) == AT_ONCE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
