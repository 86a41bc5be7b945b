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


def saved(address: str, answered: Iterable[tuple[str, Mapping[str, Any], Answer]]) -> str:
    """A self-contained HTML file: the page, and the answers to the view's requests.

    Args:
        address: the view, as in the fragment of the page's URL.
        answered: verbs, their arguments, and the answers.
    """
    answers = {
        json.dumps([verb, arguments], separators=(",", ":"), ensure_ascii=False, sort_keys=True): _packed(answer)
        for verb, arguments, answer in answered
    }
    imports = {f"regard/{name}": _inline((FOLDER / name).read_bytes()) for name in MODULES}
    text = (FOLDER / "index.html").read_text("utf-8")
    for old, new in (
        (STYLE, f"<style>{(FOLDER / 'style.css').read_text('utf-8')}</style>"),
        (IMPORTS, f'<script type="importmap">{json.dumps({"imports": imports})}</script>'),
        (
            START,
            _data({"address": address, "answers": answers}) + '<script type="module">import "regard/app.js"</script>',
        ),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def of_sentence(explorer: Explorer, view: Mapping[str, str]) -> str:
    """A saved page of one sentence: its alignment, all heads, positions, and head importance.

    Args:
        view: what the page shows first, as in its URL: each input by its role, the output as `target`.
    """
    answered: list[tuple[str, Mapping[str, Any], Answer]] = []

    def ask(verb: str, **arguments: Any) -> Any:
        answered.append((verb, arguments, explorer.answer(verb, arguments)))
        return answered[-1][2]

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
    return saved(urlencode(view), answered)


def _packed(answer: Answer) -> dict[str, Any]:
    if isinstance(answer, Numbers):
        return {"shape": list(answer.values.shape), "half": base64.b64encode(half(answer)).decode()}
    return {"json": answer}


def _inline(module: bytes) -> str:
    return f"data:text/javascript;base64,{base64.b64encode(module).decode()}"


def _data(value: dict[str, Any]) -> str:
    # escaped, so that no text of a user can close the script element
    text = json.dumps(value, ensure_ascii=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="saved">{text}</script>'
