"""Makes the pictures of the explorer in docs/figures, in Chromium, with the bundled model.

python docs/screenshots.py
"""

import shutil
import threading
from pathlib import Path
from queue import Queue
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

import regard
from regard.serve.explorer import Explorer
from regard.serve.server import serve

FIGURES = Path(__file__).parent / "figures"
TEXT = "We are eating bread."
VIEWS: dict[str, dict[str, str]] = {
    "translate": {"word": "2"},
    "heads": {"path": "decoder.layers.1.cross", "head": "3", "row": "3"},
    "walk": {"part": "decoder.layers.1", "token": "3", "head": "3"},
    "whatif": {"off": "decoder.layers.0.cross:2,decoder.layers.1.cross:3"},
    "positions": {"kind": "fourier"},
    "matter": {},
}


def main() -> None:
    """Starts the explorer, shows each view, and takes its picture."""
    found: Queue[str] = Queue()
    explorer = Explorer(regard.load("en-es"), "en-es")
    threading.Thread(target=serve, args=(explorer, "127.0.0.1", 0, found.put), daemon=True).start()
    url = found.get()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for view, state in VIEWS.items():
            page = browser.new_page(viewport={"width": 1000, "height": 860})
            page.goto(f"{url}#{urlencode({'view': view, 'source': TEXT, **state})}")
            page.wait_for_selector(f"main[data-view={view}]:not([data-busy])")
            page.wait_for_timeout(300)
            page.screenshot(path=FIGURES / f"explorer-{view}.png")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
