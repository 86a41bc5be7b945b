"""Latency of the explorer, with the bundled model and a sentence of about twenty tokens.

    python benchmarks/explorer.py

Each request goes over HTTP, as from the page, with sentences that are not in the cache yet; the target is a response
within 200 ms.
"""

import json
import statistics
import threading
import time
import urllib.request
from queue import Queue
from typing import Any

import regard
from harness import machine
from regard.serve.explorer import Explorer
from regard.serve.server import serve

ROUNDS = 20
SENTENCE = "In {year}, the old teacher walked to the red house near the sea."


def ask(url: str, verb: str, arguments: dict[str, Any]) -> tuple[float, bytes]:
    """Seconds until the response is complete, and the response."""
    body = json.dumps(arguments).encode()
    start = time.perf_counter()
    with urllib.request.urlopen(urllib.request.Request(f"{url}api/{verb}", body)) as response:
        answer = response.read()
    return time.perf_counter() - start, answer


def main() -> None:
    """Start the server, send requests and print a table."""
    explorer = Explorer(regard.load("en-es"), "en-es")
    found: Queue[str] = Queue()
    threading.Thread(target=serve, args=(explorer, "127.0.0.1", 0, found.put), daemon=True).start()
    url = found.get()
    time.sleep(1)
    path, part = "decoder.layers.1.cross", "decoder.layers.1"
    more: dict[str, dict[str, Any]] = {
        "read": {},
        "attention": {"path": path},
        "walk": {"path": part, "token": 3},
        "what-if": {"change": {"heads": {path: [0]}}},
        "heads": {},
    }
    seconds: dict[str, list[float]] = {verb: [] for verb in (*more, "positions")}
    tokens = []
    for year in range(1900, 1901 + ROUNDS):  # the first is a warm-up
        inputs = {"source": SENTENCE.format(year=year)}
        tokens.append(explorer.subject.count(inputs))
        for verb, arguments in more.items():
            seconds[verb].append(ask(url, verb, {"inputs": inputs, **arguments})[0])
        seconds["positions"].append(ask(url, "positions", {"length": 48})[0])
    print(f"{machine()}; sentences of {min(tokens)} to {max(tokens)} tokens; milliseconds, {ROUNDS} rounds")
    print("| request | median | maximum |\n|---|---|---|")
    for verb, times in seconds.items():
        counted = [1000 * value for value in times[1:]]
        print(f"| {verb} | {statistics.median(counted):.0f} | {max(counted):.0f} |")


if __name__ == "__main__":
    main()
