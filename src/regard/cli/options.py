"""Options and arguments that several verbs share."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer


def json_option(help: str) -> Any:  # noqa: A002, as typer calls it
    """The option `--json` of a verb whose JSON needs a word."""
    return typer.Option("--json", help=help)


def output_option(help: str) -> Any:  # noqa: A002, as typer calls it
    """The option `--output` of a verb, which says what it writes there."""
    return typer.Option("--output", "-o", help=help)


Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        "-m",
        help="A run's folder, a model's folder, hf:FOLDER of Hugging Face's, or a bundled model; without it, the "
        "bundled one that serves this verb.",
    ),
]
ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="A run's folder, a model's folder, or a bundled model.")
]
Engine = Annotated[
    Literal["torch", "ct2"], typer.Option(help="What computes: torch, or CTranslate2 in 8 bits, which is faster.")
]

Recipe = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A bundled recipe, a file of your own, or the folder of a run.")
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(metavar="KEY=VALUE", help="Changes of the recipe, such as data.train=my.tsv or train.minutes=30."),
]

Texts = Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="Texts; without any, lines of standard input.")]
Source = Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Lines to translate, plain or .gz.")]
Reference = Annotated[Path, typer.Option(exists=True, dir_okay=False, help="Their translations, line by line.")]

Beam = Annotated[int, typer.Option(min=1, help="Translations followed at a time; 1 is greedy search.")]
LengthPenalty = Annotated[
    float, typer.Option(min=0, help="Above 1, longer translations are preferred; below it, shorter ones.")
]
Align = Annotated[bool, typer.Option("--align", help="Also say which words stand for which: 0-0 1-2, source first.")]

AsJson = Annotated[bool, json_option("Print as JSON.")]
AsJsonLines = Annotated[bool, json_option("A JSON object a line.")]
