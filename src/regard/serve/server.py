"""Runs the explorer's server: its socket, time limits of connections, and what happens when it is stopped."""

import asyncio
import logging
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType

import torch
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from regard.errors import RegardError
from regard.serve.access import LOOPBACK, WILDCARDS, host_names
from regard.serve.app import make_app
from regard.serve.explorer import Explorer
from regard.serve.worker import Worker

MAX_CONNECTIONS = 128  # beyond it, connections without a complete request are closed
BACKLOG = 128  # also the number of errors at a time if no more files can be opened
RECEIVE_TIMEOUT = 10.0  # time in seconds for a client to send a request
SEND_TIMEOUT = 30.0  # time in seconds for a client to read the next part of a response
GRACE = 10.0  # time in seconds to answer pending requests after SIGTERM
SMALL_MODEL = 30_000_000  # number of parameters below which a single thread is faster


class Connection(H11Protocol):
    """A connection that is closed if its client takes too long to send a request or to read the response."""

    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Starts the time limit of the first request; closes another connection if there are too many."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._receiving: asyncio.TimerHandle | None = None
        self._sending: asyncio.TimerHandle | None = None
        self._watch()
        open_ = [each for each in self.connections if isinstance(each, Connection) and not each.is_closing]
        if len(open_) > MAX_CONNECTIONS:
            waiting = (each for each in open_ if each.is_waiting)  # at least this one
            min(waiting, key=lambda each: each._since).transport.close()

    @property
    def is_closing(self) -> bool:
        """Whether the connection is closed, perhaps after the rest of a response."""
        return self.transport.is_closing()

    @property
    def is_waiting(self) -> bool:
        """Whether the connection is idle, or its request is incomplete."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def data_received(self, data: bytes) -> None:
        """Stops the time limit once the request is complete."""
        super().data_received(data)
        self._watch()

    def _watch(self) -> None:
        if not self.is_waiting:
            _stop(self._receiving)
            self._receiving = None
        elif self._receiving is None:
            self._receiving = self.loop.call_later(RECEIVE_TIMEOUT, self.transport.close)

    def pause_writing(self) -> None:
        """Starts the time limit for reading the response."""
        super().pause_writing()
        self._sending = self.loop.call_later(SEND_TIMEOUT, self.transport.abort)

    def resume_writing(self) -> None:
        """Stops the time limit for reading the response."""
        super().resume_writing()
        _stop(self._sending)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stops all time limits."""
        super().connection_lost(exc)
        _stop(self._receiving)
        _stop(self._sending)

    def shutdown(self) -> None:
        """Closes the connection after the pending response; at once, if the request is incomplete."""
        if self.is_waiting:
            self.transport.close()
        else:
            super().shutdown()


def _stop(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


class Server(uvicorn.Server):
    """A server that answers pending requests after SIGTERM, and cancels them after Ctrl-C."""

    def __init__(self, app: FastAPI) -> None:
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            log_level="warning",
            use_colors=False,
            backlog=BACKLOG,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=int(GRACE) + 5,
        )
        super().__init__(config)
        self._worker: Worker = app.state.worker
        self.is_interrupted = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Notes which signal arrived."""
        if sig == signal.SIGINT and not self.is_interrupted:
            self.is_interrupted = True
            self._loop.call_soon_threadsafe(self._cancel)
        if not self.should_exit:  # a second one would cut the connections at once
            super().handle_exit(sig, frame)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serves until a signal arrives."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Waits for pending responses, and for a limited time only."""
        self._loop.call_later(GRACE, self._cancel)
        await super().shutdown(sockets)

    def _cancel(self) -> None:
        self._worker.close()
        self._loop.call_later(1.0, self._abort)  # after the responses that say so

    def _abort(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()


class OncePerMinute(logging.Filter):
    """Logs a message once a minute, so that a client cannot fill the disk."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log the record."""
        message, now = str(record.msg).partition("\n")[0], time.monotonic()
        if now - self._last.get(message, -60.0) < 60.0:
            return False
        self._last[message] = now
        return True


def serve(
    explorer: Explorer,
    host: str,
    port: int,
    ready: Callable[[str], object],
    allowed_hosts: Sequence[str] = (),
) -> None:
    """Serves until interrupted; calls `ready` with the URL once the server listens.

    Args:
        host: address to listen on; if other machines can connect to it, the URL contains a token.
        allowed_hosts: further host names under which the server is known.
    """
    is_local = host in LOOPBACK
    token = None if is_local else secrets.token_urlsafe(24)
    if sum(parameter.numel() for parameter in explorer.subject.model.parameters()) < SMALL_MODEL:
        torch.set_num_threads(1)  # one token of a small model takes less time than starting a thread
    with _listening(host, port) as listener:
        server = Server(make_app(explorer, hosts=[*host_names(host), *allowed_hosts], token=token))
        for name in ("asyncio", "uvicorn.error"):
            logging.getLogger(name).addFilter(OncePerMinute())
        address = "localhost" if is_local else socket.gethostname() if host in WILDCARDS else _bracketed(host)
        query = "" if token is None else f"?token={token}"
        ready(f"http://{address}:{listener.getsockname()[1]}/{query}")
        server.run(sockets=[listener])
        if server.is_interrupted:  # uvicorn repeats the signal, but background jobs of a shell script ignore SIGINT
            raise KeyboardInterrupt


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio disables Nagle's algorithm only if the protocol is given; otherwise each small response is 40 ms late
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if sys.platform != "win32":  # on Windows, this option lets two servers share a port
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise RegardError(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another port with --port"
        ) from None
    listener.listen()
    return listener


def _bracketed(host: str) -> str:
    """The host as in URLs: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host
