"""The explorer's server with real sockets: clients that leave, clients that stall, and the log."""

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

fastapi = pytest.importorskip("fastapi")

from explorers import REQUEST, answer, connect, request, running, small_explorer  # noqa: E402
from regard.serve import server  # noqa: E402
from regard.serve.app import make_app  # noqa: E402
from regard.serve.explorer import Explorer, Numbers  # noqa: E402


@pytest.fixture
def explorer() -> Explorer:
    return small_explorer()


def replace(explorer: Explorer, verb: str, method) -> None:
    explorer.verbs[verb] = (explorer.verbs[verb][0], method)


@pytest.mark.parametrize("way", ["heads", "page"])
def test_a_running_computation_stops_when_its_client_leaves(explorer, way) -> None:
    begun, x_BTD = threading.Event(), torch.zeros(1, 1, 8)

    def endless(_question) -> None:
        norm = torch.nn.LayerNorm(8)
        while True:
            norm(x_BTD)
            begun.set()

    replace(explorer, "heads", endless)
    view = {"address": "", "asked": [["heads", REQUEST]] * 3}
    with running(make_app(explorer)) as (port, _):
        with connect(port) as client:
            client.sendall(request(way, REQUEST if way == "heads" else view))
            assert begun.wait(20)
        assert answer(port, "read", REQUEST).startswith(b"HTTP/1.1 200")


def test_a_computation_that_times_out_is_stopped(explorer) -> None:
    def endless(_question) -> None:
        norm = torch.nn.LayerNorm(8)
        while True:
            norm(torch.zeros(1, 8))

    replace(explorer, "heads", endless)
    with running(make_app(explorer, queue=1, seconds=0.2)) as (port, _):
        assert answer(port, "heads", REQUEST).startswith(b"HTTP/1.1 503")
        assert answer(port, "model", {}).startswith(b"HTTP/1.1 200")


def test_a_waiting_computation_never_starts_when_its_client_leaves(explorer) -> None:
    begun, gate, calls = threading.Event(), threading.Event(), []

    def wait(_question) -> dict[str, str]:
        begun.set()
        gate.wait(20)
        return {}

    replace(explorer, "model", wait)
    replace(explorer, "heads", lambda _question: calls.append("heads") or {})
    app = make_app(explorer, queue=2)
    with running(app) as (port, _), ThreadPoolExecutor(1) as pool:
        first = pool.submit(answer, port, "model", {})
        assert begun.wait(20)
        with connect(port) as client:
            client.sendall(request("heads", REQUEST))
            until(lambda: app.state.worker._places.locked())  # the request is in the queue
        until(lambda: not app.state.worker._places.locked())
        gate.set()
        assert first.result().startswith(b"HTTP/1.1 200")
        assert answer(port, "read", REQUEST).startswith(b"HTTP/1.1 200")
    assert calls == []


def until(condition) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    "start",
    [b"", b"POST /api/model HTTP/1.1\r\nHost: local", request("read", REQUEST)[:-10]],
    ids=["nothing", "half of the headers", "half of the body"],
)
def test_clients_that_never_finish_a_request_are_disconnected(explorer, monkeypatch, start) -> None:
    monkeypatch.setattr(server, "RECEIVE_TIMEOUT", 0.3)
    with running(make_app(explorer)) as (port, _), connect(port) as client:
        client.sendall(start)
        assert client.recv(1000) == b""
        assert answer(port, "read", REQUEST).startswith(b"HTTP/1.1 200")


def test_a_connection_may_stay_open_between_complete_requests(explorer, monkeypatch) -> None:
    monkeypatch.setattr(server, "RECEIVE_TIMEOUT", 0.3)
    with running(make_app(explorer)) as (port, _), connect(port) as client:
        for pause in (0, 0.5):
            time.sleep(pause)
            client.sendall(request("model", {}))
            response = b""
            while not response.endswith(b"}"):
                response += client.recv(65536)
            assert response.startswith(b"HTTP/1.1 200")


def test_a_client_that_does_not_read_the_response_is_disconnected(explorer, monkeypatch) -> None:
    monkeypatch.setattr(server, "SEND_TIMEOUT", 0.3)
    replace(explorer, "attention", lambda _question: Numbers(torch.zeros(8, 1000, 1000)))
    with running(make_app(explorer)) as (port, web), connect(port) as client:
        client.sendall(request("attention", {**REQUEST, "path": "x"}))
        assert client.recv(12) == b"HTTP/1.1 200"
        until(lambda: not web.server_state.connections)


@pytest.mark.parametrize("start", [b"", request("read", REQUEST)[:-10]], ids=["silent", "half of the body"])
def test_many_stalled_connections_do_not_keep_others_out(explorer, monkeypatch, start) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 4)
    monkeypatch.setattr(server, "RECEIVE_TIMEOUT", 600)
    with running(make_app(explorer)) as (port, web):
        stalled = [connect(port) for _ in range(10)]
        try:
            for client in stalled:
                client.sendall(start)
            assert answer(port, "read", REQUEST).startswith(b"HTTP/1.1 200")
            until(lambda: len(web.server_state.connections) <= 4)
        finally:
            for client in stalled:
                client.close()


def test_pending_requests_are_answered_when_the_server_stops(explorer) -> None:
    begun, gate = threading.Event(), threading.Event()

    def wait(_question) -> dict[str, str]:
        begun.set()
        gate.wait(20)
        return {"status": "done"}

    replace(explorer, "model", wait)
    app = make_app(explorer)
    with running(app) as (port, web), ThreadPoolExecutor(2) as pool:
        pending = [pool.submit(answer, port, "model", {})]
        assert begun.wait(20)
        pending.append(pool.submit(answer, port, "read", REQUEST))
        until(lambda: len(app.state.worker._answers) == 2)  # both have arrived
        web.should_exit = True
        until(lambda: not web.servers[0].is_serving())
        gate.set()
        for response in pending:
            assert response.result().startswith(b"HTTP/1.1 200")


def test_pending_requests_are_refused_when_the_grace_period_is_over(explorer, monkeypatch, caplog) -> None:
    monkeypatch.setattr(server, "GRACE", 0.2)
    begun = threading.Event()

    def endless(_question) -> None:
        norm = torch.nn.LayerNorm(8)
        while True:
            norm(torch.zeros(1, 8))
            begun.set()

    replace(explorer, "heads", endless)
    app = make_app(explorer)
    with running(app) as (port, web), ThreadPoolExecutor(2) as pool:
        pending = [pool.submit(answer, port, "heads", REQUEST)]
        assert begun.wait(20)
        pending.append(pool.submit(answer, port, "read", REQUEST))
        until(lambda: len(app.state.worker._answers) == 2)  # both have arrived
        web.should_exit = True
        for response in pending:
            text = response.result()
            assert text.startswith(b"HTTP/1.1 503")
            assert text.endswith(b'{"error":"the explorer is shutting down"}')
    assert caplog.text == ""


def test_a_message_is_logged_once_a_minute(monkeypatch) -> None:
    times = iter([0.0, 1.0, 2.0, 61.0])
    monkeypatch.setattr(server.time, "monotonic", lambda: next(times))
    filter_ = server.OncePerMinute()
    messages = ["out of files\nsocket: 1", "out of files\nsocket: 2", "another", "out of files\nsocket: 3"]
    records = [logging.LogRecord("asyncio", logging.ERROR, "", 0, message, (), None) for message in messages]
    assert [filter_.filter(record) for record in records] == [True, False, True, True]
