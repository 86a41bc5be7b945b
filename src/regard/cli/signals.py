"""How a verb that trains ends after Ctrl-C or SIGTERM."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def exit_code_of_signal() -> Iterator[None]:
    """Says whether the training can be resumed, and exits with 130 after Ctrl-C and 143 after SIGTERM."""
    from regard.training.distributed import rank
    from regard.training.interrupt import Interrupted

    try:
        yield
    except Interrupted as stopped:
        if rank() == 0:
            typer.echo(f"regard: {stopped}", err=True)
        raise typer.Exit(stopped.exit_code) from None
