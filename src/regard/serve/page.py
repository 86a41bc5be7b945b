"""The explorer's page, and saved views: a single HTML file that contains all its answers."""

import base64
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import torch

from regard.serve.explorer import Answer, Explorer, Numbers

FOLDER = Path(__file__).parent / "page"
MODULES = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.js"))
POSITIONS = 48  # the page's default length
STYLE = '<link rel="stylesheet" href="static/style.css">'
IMPORTS = '<script type="importmap">{"imports": {"regard/": "./static/"}}</script>'
START = '<script type="module" src="static/app.js"></script>'


def half(numbers: Numbers) -> bytes:
    """The tensor's bytes as they are sent: float16, little-endian."""
    return numbers.values.to(torch.float16).contiguous().numpy().astype("<f2").tobytes()


def entry(verb: str, arguments: Mapping[str, Any], answer: Answer) -> str:
    """A request and its answer, as one member of the JSON object inside a saved page."""
    key = json.dumps([verb, arguments], separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return f"{_json(key)}: {_json(_packed(answer))}"


def saved(address: str, entries: Iterable[str]) -> list[str]:
    """The parts of a self-contained HTML file: the page, and the answers to the view's requests.

    Args:
        address: the view, as in the fragment of the page's URL.
        entries: what `entry` makes of each request.
    """
    imports = {f"regard/{name}": _inline((FOLDER / name).read_bytes()) for name in MODULES}
    text = (FOLDER / "index.html").read_text("utf-8")
    for old, new in (
        (STYLE, f"<style>{(FOLDER / 'style.css').read_text('utf-8')}</style>"),
        (IMPORTS, f'<script type="importmap">{json.dumps({"imports": imports})}</script>'),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    assert text.count(START) == 1, START
    before, _, after = text.partition(START)
    data = f'<script type="application/json" id="saved">{{"address": {_json(address)}, "answers": {{'
    members = [part for each in entries for part in (",", each)][1:]
    return [before, data, *members, '}}</script><script type="module">import "regard/app.js"</script>', after]


def of_sentence(explorer: Explorer, view: Mapping[str, str]) -> str:
    """A saved page of one sentence: its alignment, all heads, positions, and head importance.

    Args:
        view: what the page shows first, as in its URL: each input by its role, the output as `target`.
    """
    entries: list[str] = []

    def ask(verb: str, **arguments: Any) -> Any:
        answer = explorer.answer(verb, arguments)
        entries.append(entry(verb, arguments, answer))
        return answer

    inputs = {role: view[role] for role in explorer.subject.accepts}
    sentence = {"inputs": inputs} | ({"target": view["target"]} if "target" in view else {})
    model = ask("model")
    ask("read", inputs=inputs)
    ask("read", **sentence)
    for look in model["looks"]:
        ask("attention", **sentence, path=look["path"])
    for asks, answers in ask("heads", **sentence)["rollouts"]:
        ask("rollout", **sentence, asks=asks, answers=answers)
    for verb in ("positions", "likeness") if model["positions"]["paths"] else ():
        ask(verb, kind="own", length=POSITIONS)
    return "".join(saved(urlencode(view), dict.fromkeys(entries)))


def _packed(answer: Answer) -> dict[str, Any]:
    if isinstance(answer, Numbers):
        return {"shape": list(answer.values.shape), "half": base64.b64encode(half(answer)).decode()}
    return {"json": answer}


def _inline(module: bytes) -> str:
    return f"data:text/javascript;base64,{base64.b64encode(module).decode()}"


def _json(value: Any) -> str:
    # escaped, so that no text of a user can close the script element
    return json.dumps(value, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
