"""`regard embed`: texts as vectors."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.options import Engine, Model, output_option
from regard.cli.texts import given


def embed(
    file: Annotated[
        Path | None, typer.Argument(exists=True, dir_okay=False, help="Texts, one a line; without it, standard input.")
    ] = None,
    model: Model = None,
    output: Annotated[Path | None, output_option("Write to .npy, .json or .parquet; without it, JSON lines.")] = None,
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
    from regard.library import load_for
    from regard.tasks import vectors

    if output is not None:
        vectors.expect_format(output)
    encoder = load_for("embed", model, engine)
    texts = list(given() if file is None else lines(file))
    chosen = vectors.parse_layers(layers, encoder.model.config.layers)
    vectors_ND = encoder.embed(texts, layers=chosen, join=join, pool=pool, normalise=normalise)
    if truncated := sum(encoded.is_truncated for encoded in encoder.encode(texts)):
        typer.echo(
            f"texts of more than {encoder.model.limit} tokens, whose ends were not read: {truncated:,}", err=True
        )
    if output is not None:
        vectors.write(output, texts, vectors_ND)
        typer.echo(f"{output}: {len(texts):,} vectors of width {vectors_ND.size(1)}")
        return
    for text, vector in zip(texts, vectors_ND.tolist(), strict=True):
        typer.echo(json.dumps({"text": text, "vector": vector}, ensure_ascii=False))
