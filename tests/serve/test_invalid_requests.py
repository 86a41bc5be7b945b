"""Random invalid requests: an answer or an error in words, and no effect on later answers."""

import json
import random
from typing import Any

import pytest

fastapi = pytest.importorskip("fastapi")

from starlette.testclient import TestClient  # noqa: E402

from explorers import REQUEST, small_explorer  # noqa: E402
from regard.serve.app import make_app  # noqa: E402

PATH = "decoder.layers.0.cross"
VALID: list[tuple[str, dict[str, Any]]] = [
    ("model", {}),
    ("read", REQUEST),
    ("attention", {**REQUEST, "path": PATH}),
    ("walk", {**REQUEST, "path": "decoder.layers.0", "token": 1, "head": 1}),
    ("what-if", {**REQUEST, "change": {"heads": {PATH: [0]}, "mask": [PATH], "scaling": [], "positions": []}}),
    ("what-if", {**REQUEST, "other": {"source": "eats bread"}}),
    ("heads", REQUEST),
    ("rollout", {**REQUEST, "asks": "target", "answers": "source"}),
    ("positions", {"kind": "own", "length": 8}),
    ("likeness", {"kind": "rotary", "length": 8}),
    ("code", {"file": "regard/errors.py"}),
    ("generate", {"inputs": {"source": "the child"}}),
    ("page", {"address": "view=heads", "asked": [["model", {}], ["read", REQUEST]]}),
]
VALUES = [
    *(None, True, False, 0, -1, 1, 7, 10**6, 10**30, 0.5, -0.0, 1e308, float("nan"), float("inf"), float("-inf")),
    *(
        "",
        " ",
        "*",
        "x" * 5000,
        "\0",
        "\ud800",
        "\u202e",
        "é" * 90,
        "decoder",
        "decoder.layers.0.",
        "__class__",
        "[MASK]",
    ),
    *([], {}, [[]], [None], {"": ""}, {"\ud800": 1}, {"source": None}, {"source": "we", "target": "x"}, {"heads": []}),
]


def changed(value: Any, chosen: random.Random) -> Any:
    """A copy with a random change at a random depth."""
    if isinstance(value, dict) and value and chosen.random() < 0.8:
        key = chosen.choice(list(value))
        kind = chosen.random()
        if kind < 0.15:
            return {other: value[other] for other in value if other != key}
        if kind < 0.3:
            return {**value, chosen.choice(["x", "", "token", "\ud800"]): chosen.choice(VALUES)}
        return {**value, key: changed(value[key], chosen)}
    if isinstance(value, list) and value and chosen.random() < 0.7:
        return [changed(item, chosen) if chosen.random() < 0.5 else item for item in value]
    return chosen.choice(VALUES)


def mangled(body: bytes, chosen: random.Random) -> bytes:
    """The bytes with a part removed, repeated, or replaced by random ones."""
    start, stop = sorted(chosen.randrange(len(body) + 1) for _ in range(2))
    part = chosen.choice([b"", 2 * body[start:stop], chosen.randbytes(stop - start), b"[" * 3000])
    return body[:start] + part + body[stop:]


def test_invalid_requests_are_client_errors_and_change_no_later_answer() -> None:
    chosen, statuses = random.Random(0), list[int]()
    with TestClient(make_app(small_explorer()), "http://localhost", raise_server_exceptions=False) as client:

        def control() -> list[bytes]:
            return [client.post(f"/api/{verb}", json=arguments).content for verb, arguments in VALID]

        expected = control()
        for i in range(300):
            verb, arguments = chosen.choice(VALID)
            arguments = changed(arguments, chosen)
            body = json.dumps(arguments).encode()
            if chosen.random() < 0.2:
                body = mangled(body, chosen)
            if chosen.random() < 0.1:
                verb = chosen.choice(["", "..", "%00", "%ff", "read/", "page/x", "a" * 3000])
            response = client.post(f"/api/{verb}", content=body)
            assert response.status_code < 500, (i, verb, body)
            if response.status_code >= 400:
                assert response.json().keys() == {"error"}, (i, verb, body)
            statuses.append(response.status_code)
        assert control() == expected
    assert {200, 400} <= {*statuses}
