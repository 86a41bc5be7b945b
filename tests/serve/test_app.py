import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest
import torch

fastapi = pytest.importorskip("fastapi")

from starlette.testclient import TestClient  # noqa: E402

from explorers import REQUEST, small_explorer  # noqa: E402
from regard.serve import app as app_module  # noqa: E402
from regard.serve import page, worker  # noqa: E402
from regard.serve.app import MAX_BODY, make_app  # noqa: E402
from regard.serve.explorer import Explorer  # noqa: E402
from regard.serve.server import _listening, serve  # noqa: E402


@pytest.fixture
def explorer() -> Explorer:
    return small_explorer()


@pytest.fixture
def client(explorer):
    with TestClient(make_app(explorer), "http://localhost", raise_server_exceptions=False) as client:
        yield client


def test_the_page_loads_nothing_from_other_sites(client) -> None:
    response = client.get("/")
    assert response.status_code == 200
    assert "default-src 'self'" in response.headers["content-security-policy"]
    for name in ("style.css", *page.MODULES):
        assert client.get(f"/static/{name}").status_code == 200
        assert "http" not in client.get(f"/static/{name}").text.replace("http://www.w3.org/2000/svg", "")
    assert client.get("/health").json() == {"status": "ok", "model": "mine"}


def test_attention_weights_are_sent_as_float16(client, explorer) -> None:
    question = {**REQUEST, "path": "decoder.layers.0.cross"}
    response = client.post("/api/attention", json=question)
    shape = tuple(map(int, response.headers["x-shape"].split(",")))
    weights = numpy.frombuffer(response.content, "<f2").reshape(shape)
    expected = explorer.answer("attention", question).values.numpy()
    numpy.testing.assert_allclose(weights, expected, atol=2**-11)  # half precision has eleven bits


def test_responses_equal_the_answers_of_the_explorer(client, explorer) -> None:
    for verb in ("read", "heads", "what-if"):
        answer = client.post(f"/api/{verb}", json=REQUEST).json()
        assert answer == json.loads(json.dumps(explorer.answer(verb, REQUEST)))


def test_generation_is_streamed_line_by_line(client, explorer) -> None:
    response = client.post("/api/generate", json={"inputs": {"source": "the child"}})
    lines = [json.loads(line) for line in response.text.splitlines()]
    assert lines == json.loads(json.dumps(list(explorer.generate("the child"))))
    assert lines


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/api/read", b"{", 400, "the request body must be a JSON object"),
        ("/api/read", b"[]", 400, "the request body must be a JSON object"),
        ("/api/read", b"[" * 200_000, 400, "the request body must be a JSON object"),
        ("/api/read", b"\xff\xfe", 400, "the request body must be a JSON object"),
        ("/api/read", b"{}", 400, "inputs: Field required"),
        ("/api/generate", b"{}", 400, "inputs: Field required"),
        ("/api/page", b"{}", 400, "address: Field required; asked: Field required"),
        ("/api/nothing", b"{}", 400, "unknown verb 'nothing'; valid:"),
        ("/nowhere", b"{}", 404, "Not Found"),
        ("/api/read", b" " * (MAX_BODY + 1), 413, "the request is too large; the limit is 1,048,576 bytes"),
    ],
)
def test_errors_are_returned_as_json_with_a_message(client, path, body, status, message) -> None:
    response = client.post(path, content=body)
    assert response.status_code == status
    assert response.json()["error"].startswith(message)


def test_the_size_limit_applies_to_requests_without_content_length(client) -> None:
    response = client.post("/api/read", content=(b" " * 100_000 for _ in range(20)))
    assert response.status_code == 413


def test_internal_errors_reveal_no_details(client, explorer, monkeypatch, caplog) -> None:
    def fail(_question) -> None:
        raise RuntimeError("secret: /home/somebody/model")

    monkeypatch.setitem(explorer.verbs, "heads", (explorer.verbs["heads"][0], fail))
    response = client.post("/api/heads", json=REQUEST)
    assert response.status_code == 500
    assert response.json() == {"error": "internal error; see the server's log"}
    assert "secret" in caplog.text


@pytest.mark.parametrize("origin", ["http://evil.example", "http://localhost:3000", "null"])
def test_requests_from_other_origins_are_refused(client, origin) -> None:
    response = client.post("/api/model", headers={"origin": origin}, json={})
    assert response.status_code == 400
    assert response.json() == {"error": "requests from other sites are not allowed"}
    same = {"origin": "http://localhost:7007", "host": "localhost:7007"}
    assert client.post("/api/model", headers=same, json={}).status_code == 200


@pytest.mark.parametrize("port", ["", ":7007"])
@pytest.mark.parametrize("name", ["localhost", "LOCALHOST", "127.0.0.1", "[::1]"])
def test_requests_with_local_host_names_are_accepted(client, name, port) -> None:
    headers = {"host": name + port, "origin": f"http://{name}{port}"}
    assert client.post("/api/model", headers=headers, json={}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:7007", "localhost.evil.example", "127.0.0.1.evil.example", "evil@localhost"),
        *("", "[", "[::1", "[::1]evil.example", "::1", "[::2]:7007", "localhost:evil", "localhost:7007, evil.example"),
    ],
)
def test_other_host_names_are_refused_to_prevent_dns_rebinding(client, host) -> None:
    for headers in ({"host": host}, {"host": host, "origin": f"http://{host}"}):
        response = client.post("/api/model", headers=headers, json={})
        assert response.status_code == 400
        assert "default-src 'self'" in response.headers["content-security-policy"]


def waiting_app(seconds: float):
    explorer, gate, begun = small_explorer(), threading.Event(), threading.Event()

    def wait(_question) -> dict[str, str]:
        begun.set()
        gate.wait(20)
        return {"status": "done"}

    explorer.verbs["model"] = (explorer.verbs["model"][0], wait)
    return make_app(explorer, queue=1, seconds=seconds), gate, begun


def test_requests_beyond_the_queue_are_rejected_and_say_when_to_retry(monkeypatch) -> None:
    monkeypatch.setattr(worker, "PATIENCE", 0.1)
    app, gate, begun = waiting_app(20)
    with TestClient(app, "http://localhost") as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/api/model", json={})
        assert begun.wait(10)
        response = client.post("/api/model", json={})
        gate.set()
        assert response.status_code == 429
        assert response.json() == {"error": "too many requests; try again in a moment"}
        assert int(response.headers["retry-after"]) >= 1
        assert first.result().json() == {"status": "done"}
        assert client.get("/health").status_code == 200  # /health does not wait in the queue


def test_a_request_beyond_the_queue_waits_for_a_place_before_it_is_rejected(monkeypatch) -> None:
    monkeypatch.setattr(worker, "PATIENCE", 20)
    app, gate, begun = waiting_app(20)
    with TestClient(app, "http://localhost") as client, ThreadPoolExecutor(2) as pool:
        first = pool.submit(client.post, "/api/model", json={})
        assert begun.wait(10)
        second = pool.submit(client.post, "/api/model", json={})
        gate.set()
        assert [first.result().status_code, second.result().status_code] == [200, 200]


def test_a_slow_request_times_out_and_does_not_block_others() -> None:
    app, gate, _ = waiting_app(0.2)
    with TestClient(app, "http://localhost") as client:
        response = client.post("/api/model", json={})
        assert response.status_code == 503
        assert response.json() == {"error": "no answer within 0.2 seconds; try a shorter text"}
        gate.set()
        deadline = time.monotonic() + 10
        while client.post("/api/model", json={}).status_code != 200:
            assert time.monotonic() < deadline


def test_a_saved_page_is_self_contained(client) -> None:
    text = "the </script><b>child"
    given = {"inputs": {"source": text}}
    asked = [["model", {}], ["read", given], ["attention", {**given, "path": "decoder.layers.0.cross"}]]
    html = client.post("/api/page", json={"address": "view=heads", "asked": asked}).text
    for outside in ("static/", "src=", '<link rel="stylesheet"', "</script><b>"):
        assert outside not in html
    assert html.count("</script>") == 3  # the import map, the answers, the start
    imports = json.loads(html.split('<script type="importmap">')[1].split("</script>")[0])["imports"]
    assert {"regard/app.js", "regard/media.js", "regard/media/text.js"} <= imports.keys()


def test_a_view_that_is_too_large_is_not_saved(client, monkeypatch) -> None:
    view = {"address": "view=heads", "asked": [["model", {}], ["read", REQUEST], ["heads", REQUEST]]}
    assert client.post("/api/page", json=view).status_code == 200
    monkeypatch.setattr(app_module, "MAX_PAGE", 2**9)
    response = client.post("/api/page", json=view)
    assert response.status_code == 400
    assert response.json()["error"].startswith("the view is too large to be saved: more than")


def test_views_are_saved_one_at_a_time() -> None:
    app, gate, begun = waiting_app(20)
    view = {"address": "", "asked": [["model", {}]]}
    with TestClient(app, "http://localhost") as client, ThreadPoolExecutor(1) as pool:
        first = pool.submit(client.post, "/api/page", json=view)
        assert begun.wait(10)
        response = client.post("/api/page", json=view)
        gate.set()
        assert response.status_code == 429
        assert response.json() == {"error": "another view is being saved; try again in a moment"}
        assert int(response.headers["retry-after"]) >= 1
        assert first.result().status_code == 200
        assert client.post("/api/page", json=view).status_code == 200


def no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


@pytest.mark.parametrize("scale", [1e30, float("inf")])
def test_infinite_numbers_are_null(scale) -> None:
    explorer = small_explorer()
    with torch.no_grad():
        explorer.subject.model.encoder.layers[0].feedforward.outer.bias.fill_(scale).mul_(1e9)
    questions = [
        ("read", REQUEST),
        ("heads", REQUEST),
        ("walk", {**REQUEST, "path": "encoder.layers.0", "token": 0}),
    ]
    with TestClient(make_app(explorer), "http://localhost") as client:
        found = {}
        for verb, arguments in questions:
            response = client.post(f"/api/{verb}", json=arguments)
            assert response.status_code == 200, response.text
            found[verb] = json.loads(response.text, parse_constant=no_constant)
        assert found["walk"]["steps"][-1]["values"] == [None] * 8
        html = client.post("/api/page", json={"address": "", "asked": questions}).text
        text = html.split('<script type="application/json" id="saved">')[1].split("</script>")[0]
        assert len(json.loads(text, parse_constant=no_constant)["answers"]) == len(questions)


def test_a_port_in_use_is_reported(explorer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ValueError, match=rf"cannot listen on 127.0.0.1:{port} \(.*\); choose another port with"):
            serve(explorer, "127.0.0.1", port, lambda _: None)


def test_small_responses_are_sent_without_delay() -> None:
    # asyncio sets TCP_NODELAY only on connections of a listener whose protocol is given
    with _listening("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_an_error_during_generation_ends_the_stream_and_is_logged_once(client, explorer, monkeypatch, caplog) -> None:
    def fails(_inputs):
        yield from ()
        raise RuntimeError("inside")

    monkeypatch.setattr(explorer.subject, "generate", fails)
    response = client.post("/api/generate", json={"inputs": {"source": "the child"}})
    assert (response.status_code, response.text) == (200, "")
    assert caplog.text.count("Traceback") == 1
