"""`regard explore`: a model, opened up in a browser."""

import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Model
from regard.errors import RegardError


def explore(
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="A sentence to begin with; without it, an example.")
    ] = None,
    model: Model = None,
    host: Annotated[str, typer.Option(help="Listen at this address; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Listen at this port; 0: any that is free.")] = 7007,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Open the explorer: what attends to what, every step with its numbers, and what would happen if.

    Examples:

        regard explore

        regard explore --model runs/dates "Monday, August 3, 1992"

        regard explore --model runs/bert "The [MASK] barked at the cat."

        regard explore --model runs/mine --port 8000 --no-browser
    """
    try:
        from regard.serve.app import serve
    except ImportError:
        raise RegardError("the explorer needs a web server; install it with: pip install 'regard[serve]'") from None
    from regard.library import default_for, load_for
    from regard.serve.explorer import Explorer

    def ready(url: str) -> None:
        typer.echo(f"The explorer is at {url} (Ctrl-C ends it)")
        if browser:
            # beside the server, which a browser of the terminal waits for
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    name = model or default_for("explore")
    serve(Explorer(load_for("explore", name), Path(name).name, text), host, port, ready)
