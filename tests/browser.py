"""The explorer in a real browser."""

import shutil
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest

pytest.importorskip("fastapi")
sync_api = pytest.importorskip("playwright.sync_api")
import uvicorn  # noqa: E402

from regard.serve.app import make_app  # noqa: E402
from regard.serve.explorer import Explorer  # noqa: E402

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; install it with: make browser")
expect = sync_api.expect
BREAD = "We are eating bread."


def serving(explorer: Explorer) -> Iterator[str]:
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(make_app(explorer), log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
    server.should_exit = True
    thread.join()


def open_view(page, address: str, view: str, **state: str) -> None:
    page.goto("about:blank")  # otherwise a URL that differs only after the # would not reload the page
    page.goto(f"{address}#{urlencode({'view': view, 'text': BREAD, **state})}")
    ready(page, view)


def ready(page, view: str) -> None:
    page.wait_for_selector(f"main[data-view={view}]:not([data-busy])")
