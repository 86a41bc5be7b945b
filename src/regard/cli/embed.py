"""`regard embed`: embeddings of texts."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.options import Engine, File, Model, Texts, output_option
from regard.cli.texts import chunks
from regard.counts import counted

CHUNK_SIZE = 8192  # texts at once


def embed(
    texts: Texts = None,
    file: File = None,
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
    """Compute an embedding for each text, including empty lines. Texts that are too long are truncated.

    Examples:

        regard embed --model runs/bert "A man is eating." "Someone has lunch."

        regard embed --model hf:all-MiniLM-L6-v2 --file sentences.txt -o vectors.npy --normalise

        regard embed --model runs/bert --file sentences.txt -o vectors.npy --layers -4: --join concatenate --pool mean

        regard embed --model runs/bert < sentences.txt

        regard embed --model runs/bert --file sentences.txt -o vectors.npy --engine ct2
    """
    import torch

    from regard.library import load_for
    from regard.tasks import vectors

    if output is not None:
        vectors.expect_format(output)
    encoder = load_for("embed", model, engine)
    chosen = vectors.parse_layers(layers, encoder.model.config.layers)
    truncated = 0
    seen: list[str] = []
    parts: list[torch.Tensor] = []
    for chunk in chunks(texts, file, CHUNK_SIZE, prints=output is None):
        vectors_ND = encoder.embed(chunk, layers=chosen, join=join, pool=pool, normalise=normalise)
        truncated += sum(encoded.is_truncated for encoded in encoder.encode(chunk))
        if output is not None:
            seen += chunk
            parts.append(vectors_ND)
            continue
        for text, vector in zip(chunk, vectors_ND.tolist(), strict=True):
            typer.echo(json.dumps({"text": text, "vector": vector}, ensure_ascii=False))
    if truncated:
        typer.echo(f"texts truncated to {encoder.model.limit} tokens: {truncated:,}", err=True)
    if output is not None:
        vectors_ND = torch.cat(parts or [encoder.embed([], layers=chosen, join=join)])
        vectors.write(output, seen, vectors_ND)
        typer.echo(f"{output}: {counted(len(seen), 'vector')} of width {vectors_ND.size(1)}")
