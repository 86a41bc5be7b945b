"""Options and arguments that several verbs share."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer


def json_option(help: str) -> Any:  # noqa: A002, named as in typer
    """The option `--json` with the given help text."""
    return typer.Option("--json", help=help)


def output_option(help: str) -> Any:  # noqa: A002, named as in typer
    """The option `--output` with the given help text."""
    return typer.Option("--output", "-o", help=help)


Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="Folder of a run or model, hf:PATH for a Hugging Face model, or a bundled model; default: the bundled "
        "model for this command, if there is one.",
    ),
]
ModelArgument = Annotated[str, typer.Argument(metavar="MODEL", help="Folder of a run or model, or a bundled model.")]
Engine = Annotated[
    Literal["torch", "ct2"],
    typer.Option(help="Inference engine: torch, or CTranslate2 (ct2) in 8 bits, which is faster."),
]

Recipe = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A bundled recipe, a recipe file, or the folder of a run.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Recipe overrides, such as data.train=my.tsv or train.minutes=30."),
]

Texts = Annotated[
    list[str] | None, typer.Argument(metavar="TEXT", help="Texts; default: lines of standard input, as they arrive.")
]
File = Annotated[
    Path | None,
    typer.Option(
        "--file", exists=True, dir_okay=False, help="Read the texts from this file, plain or .gz, one a line."
    ),
]
Source = Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Lines to translate, plain or .gz.")]
TestData = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        help="Classifiers: a table or JSONL, or a folder of images; taggers: CoNLL-U or IOB; language models: a text; "
        "plain or .gz.",
    ),
]
TestSource = Annotated[
    Path | None, typer.Option(exists=True, dir_okay=False, help="Translators: lines to translate, plain or .gz.")
]
TestReference = Annotated[
    Path | None, typer.Option(exists=True, dir_okay=False, help="Translators: reference translations, line by line.")
]

BEAM = typer.Option(min=1, help="Beam size; 1 is greedy search. Default: 4.", show_default=False)
LENGTH_PENALTY = typer.Option(
    min=0,
    help="Length penalty: above 1 prefers longer translations, below 1 shorter ones. Default: 1.",
    show_default=False,
)
Align = Annotated[bool, typer.Option("--align", help="Also print word alignments: 0-0 1-2, source first.")]

AsJson = Annotated[bool, json_option("Print as JSON.")]
AsJsonLines = Annotated[bool, json_option("Print one JSON object per line.")]
