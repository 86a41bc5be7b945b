"""`regard convert`: models of Hugging Face in and out."""

from pathlib import Path
from typing import Annotated

import typer


def convert(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A model or run of ours, or hf:PATH.")],
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="A new folder, or hf:PATH for one of Hugging Face.")],
    half: Annotated[bool, typer.Option("--half", help="Store weights in 16 bits: half the size.")] = False,
    card: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A file to become the model's card, README.md.")
    ] = None,
) -> None:
    """Convert a model from Hugging Face's library, or to it, with its tokenizer: BERT, GPT-2, Marian; or pack ours.

    Examples:

        regard convert hf:opus-mt-en-de runs/opus

        regard convert runs/mine hf:mine-for-transformers

        regard convert hf:bert-base-uncased runs/bert

        regard convert hf:gpt2 runs/gpt2

        regard convert runs/mine en-de --half --card card.md
    """
    from regard import library

    library.convert(model, folder, half=half, card=None if card is None else card.read_text("utf-8"))
    typer.echo(f"{folder}: converted from {model}")
