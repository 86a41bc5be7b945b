"""`regard convert`: import and export Hugging Face models, and export to faster engines."""

from pathlib import Path
from typing import Annotated, Literal

import typer


def convert(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A Regard model or run, or hf:PATH.")],
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Output folder, or hf:PATH, ct2:PATH, onnx:PATH.")],
    half: Annotated[bool, typer.Option("--half", help="Store weights in 16 bits, which halves the size.")] = False,
    quantize: Annotated[
        Literal["int8"] | None, typer.Option(help="With ct2: quantize to 8 bits, smaller and faster.")
    ] = None,
    download: Annotated[
        bool, typer.Option("--download", help="First download hf:NAME from the Hugging Face Hub; no pickled files.")
    ] = False,
    card: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Model card to copy to README.md.")
    ] = None,
) -> None:
    """Convert a model to or from another format.

    Also upgrades a model of an older Regard, or packages a run for sharing.

    An export to CTranslate2 (ct2:PATH) or ONNX (onnx:PATH) is checked against the model before it is written.

    Examples:

        regard convert hf:opus-mt-en-de runs/opus

        regard convert --download hf:sentence-transformers/all-MiniLM-L6-v2 runs/minilm

        regard convert runs/mine hf:mine-for-transformers

        regard convert hf:bert-base-uncased runs/bert

        regard convert hf:gpt2 runs/gpt2

        regard convert runs/mine en-de --half --card card.md

        regard convert en-es ct2:en-es-int8 --quantize int8

        regard convert runs/sst2 onnx:sst2
    """
    from regard import library
    from regard.data.text import lines_with_ends

    text = None if card is None else "".join(lines_with_ends(card))
    found = library.convert(model, folder, half=half, quantize=quantize, card=text, download=download)
    typer.echo(f"{folder}: converted from {model}" + (f"; checked: {found}" if found else ""))
