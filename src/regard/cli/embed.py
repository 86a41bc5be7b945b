"""`regard embed`: embeddings of texts."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.options import Engine, Model, output_option
from regard.cli.texts import given


def embed(
    file: Annotated[
        Path | None,
        typer.Argument(exists=True, dir_okay=False, help="File with one text per line; default: standard input."),
    ] = None,
    model: Model = None,
    output: Annotated[
        Path | None, output_option("Write to .npy, .json or .parquet; default: print JSON lines.")
    ] = None,
    layers: Annotated[
        str, typer.Option(help="Layers: -1 (last), -4: (last four), 1,2 (these two); 0 is the embedding layer.")
    ] = "-1",
    join: Annotated[
        Literal["mean", "sum", "concatenate"], typer.Option(help="How to combine several layers.")
    ] = "mean",
    pool: Annotated[
        Literal["mean", "cls", "max"],
        typer.Option(help="Pooling: mean of all tokens, the vector of [CLS], or maximum."),
    ] = "mean",
    normalise: Annotated[bool, typer.Option("--normalise", help="Scale vectors to length 1.")] = False,
    engine: Engine = "torch",
) -> None:
    """Compute an embedding for each line of text, including empty lines. Texts that are too long are truncated.

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
        typer.echo(f"texts truncated to {encoder.model.limit} tokens: {truncated:,}", err=True)
    if output is not None:
        vectors.write(output, texts, vectors_ND)
        typer.echo(f"{output}: {len(texts):,} vectors of width {vectors_ND.size(1)}")
        return
    for text, vector in zip(texts, vectors_ND.tolist(), strict=True):
        typer.echo(json.dumps({"text": text, "vector": vector}, ensure_ascii=False))
