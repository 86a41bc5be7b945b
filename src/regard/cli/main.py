"""`regard`: the verbs, and how errors are reported."""

import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.cache import cache
from regard.cli.classify import classify
from regard.cli.compare import compare
from regard.cli.complete import complete
from regard.cli.convert import convert
from regard.cli.curves import curves
from regard.cli.describe import describe
from regard.cli.doctor import doctor
from regard.cli.embed import embed
from regard.cli.evaluate import evaluate
from regard.cli.explore import explore
from regard.cli.fill import fill
from regard.cli.glue import glue
from regard.cli.lab import lab
from regard.cli.look import look
from regard.cli.plan import plan
from regard.cli.recipes import recipes
from regard.cli.score import score
from regard.cli.tag import tag
from regard.cli.terminal import protect
from regard.cli.train import train
from regard.cli.translate import translate
from regard.errors import RegardError
from regard.version import __version__

WAIT = 10.0  # seconds

app = typer.Typer(
    name="regard",
    help="Train a Transformer, trust it, look inside it.",
    epilog="Start with: regard recipes",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain text is fast, and works with any screen reader
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (
    *(train, translate, complete, classify, tag, fill, embed, evaluate, score, compare, curves, glue),
    *(look, explore, convert, recipes, describe, plan, doctor, cache),
):
    app.command()(verb)
app.add_typer(lab, name="lab")


def _version(show: bool) -> None:
    if show:
        typer.echo(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options that come before a verb."""


def main() -> None:
    """Runs the command. User errors are reported in one line; any other exception is a bug and keeps its traceback."""
    protect()
    try:
        _expect_utf8(sys.argv[1:])
        app()
    except BrokenPipeError:
        # the reader closed the pipe, as in `regard recipes | head`; nothing more may be written, not even at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (RegardError, OSError) as error:
        _wait_for_first_process()
        typer.echo(f"regard: {error}", err=True)
        sys.exit(1)
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        requested = re.search(r"llocate ([\d.]+ ?\w+)", str(error))
        size = f" for {requested[1]}" if requested else ""
        remedy = "choose smaller batches (train.batch_tokens, train.batch_size), shorter texts or a smaller model"
        typer.echo(f"regard: not enough memory{size}; {remedy}", err=True)
        sys.exit(1)


def _wait_for_first_process() -> None:
    """Under torchrun, lets the first process report an error that all processes have; then torchrun ends this one."""
    if int(os.environ.get("RANK", 0)) > 0:
        time.sleep(WAIT)  # an error of this process alone is reported after that


def _expect_utf8(arguments: Sequence[str]) -> None:
    """Raises `RegardError` for an argument that is no text; file names may be any bytes."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            if not Path(argument).exists():
                raise RegardError(f"the argument {os.fsencode(argument)!r} is not UTF-8") from None


def _is_out_of_memory(error: Exception) -> bool:
    """Whether an error of torch or Python is about memory; torch's own class is used only for graphics cards."""
    texts = ("can't allocate memory", "not enough memory", "out of memory")
    return isinstance(error, MemoryError) or any(text in str(error) for text in texts)
