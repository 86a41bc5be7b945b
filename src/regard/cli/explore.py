"""`regard explore`: look inside a model in the browser."""

import threading
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Model
from regard.errors import RegardError


def explore(
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="Text to show first; default: an example.")
    ] = None,
    model: Model = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines connect, with a token.")
    ] = "127.0.0.1",
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further host name of this server, as behind a proxy; may be repeated."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free port.")] = 7007,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Open the explorer in the browser.

    It shows attention maps and every step of the computation with its numbers, and has interventions.

    Examples:

        regard explore

        regard explore --model runs/dates "Monday, August 3, 1992"

        regard explore --model runs/bert "The [MASK] barked at the cat."

        regard explore --model runs/mine --port 8000 --no-browser
    """
    try:
        from regard.serve.server import serve
    except ImportError:
        raise RegardError("the explorer needs a web server; install it with: pip install 'regard[serve]'") from None
    from regard.library import default_for, load_for
    from regard.serve.explorer import Explorer

    def ready(url: str) -> None:
        typer.echo(f"The explorer is at {url} (stop it with Ctrl-C)")
        if browser:
            # in a thread: a text-mode browser would block the server that it waits for
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    name = model or default_for("explore")
    serve(Explorer(load_for("explore", name), Path(name).name, text), host, port, ready, allowed_host or ())
