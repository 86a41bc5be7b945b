"""The explorer's server: one model, one computation at a time, and a short request queue."""

import asyncio
import base64
import hashlib
import json
import logging
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any, TypeVar

import torch
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.errors import RegardError
from regard.serve import page
from regard.serve.explorer import Answer, Explorer, Numbers, Question, validated

MAX_BODY = 1024 * 1024  # maximum size of a request body in bytes
MAX_PENDING = 8  # maximum number of pending requests, including the running one
TIMEOUT = 30.0  # timeout of a request in seconds, including the time in the queue
SMALL_MODEL = 30_000_000  # number of parameters below which a single thread is faster
LOOPBACK = ("localhost", "127.0.0.1", "::1")

log = logging.getLogger("regard.serve")
T = TypeVar("T")


class SavedView(BaseModel):
    """A view to save: its address, and the requests that it made."""

    address: Annotated[str, Field(max_length=MAX_BODY)]
    asked: Annotated[list[tuple[str, dict[str, Any]]], Field(max_length=200)]


class Worker:
    """Runs one job at a time, because capturing sets hooks on the model; refuses jobs when the queue is full."""

    def __init__(self, queue: int, seconds: float) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="regard")
        self._waiting, self._queue, self._seconds = 0, queue, seconds

    async def do(self, work: Callable[[], T]) -> T:
        """Queues the work and returns its result."""
        if self._waiting >= self._queue:
            raise HTTPException(429, "too many requests; try again in a moment")
        self._waiting += 1
        loop, job = asyncio.get_running_loop(), self._pool.submit(work)
        job.add_done_callback(lambda _: loop.is_closed() or loop.call_soon_threadsafe(self._done))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(job), self._seconds)
        except TimeoutError:
            # a waiting job is cancelled; a running one keeps its place in the queue until it ends
            raise HTTPException(503, f"no answer within {self._seconds:g} seconds; try a shorter text") from None

    def _done(self) -> None:
        self._waiting -= 1

    def close(self) -> None:
        """Cancels waiting jobs; the running one finishes."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class BodyLimit:
    """Refuses requests whose body is too large, with or without a content-length header."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app, self.limit = app, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reads the body, checks its size, and forwards the request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                await Response(status_code=400)(scope, receive, send)  # the client is gone
                return
            body, more = body + message.get("body", b""), message.get("more_body", False)
            if len(body) > self.limit:
                text = f"the request is too large; the limit is {self.limit:,} bytes"
                await JSONResponse({"error": text}, 413, {"connection": "close"})(scope, receive, send)
                return
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        await self.app(scope, replay, send)


def make_app(
    explorer: Explorer, *, hosts: Sequence[str] = LOOPBACK, queue: int = MAX_PENDING, seconds: float = TIMEOUT
) -> FastAPI:
    """The server for one model.

    Args:
        hosts: accepted host names, as protection against DNS rebinding; empty: all.
    """
    worker = Worker(queue, seconds)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        worker.close()

    app = FastAPI(title="Regard", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.add_middleware(BodyLimit, limit=MAX_BODY)
    names = [_bracketed(host) for host in hosts] or ["*"]
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)
    index = (page.FOLDER / "index.html").read_text("utf-8")

    @app.middleware("http")
    async def with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        origin = request.headers.get("origin")
        if origin and origin.partition("//")[2] != request.headers.get("host"):
            response: Response = JSONResponse({"error": "requests from other sites are not allowed"}, 400)
        else:
            response = await call_next(request)
        response.headers.update(_headers())
        return response

    @app.exception_handler(HTTPException)
    async def refused(_request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    @app.exception_handler(RegardError)
    @app.exception_handler(OSError)
    async def wrong(_request: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"error": str(error)}, 400)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        log.error("%s failed", request.url.path, exc_info=error)
        return JSONResponse({"error": "internal error; see the server's log"}, 500, _headers())

    @app.get("/")
    async def start() -> HTMLResponse:
        return HTMLResponse(index)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok", "model": explorer.name}

    @app.post("/api/generate")
    async def generate(request: Request) -> StreamingResponse:
        inputs = validated(Question, await _arguments(request)).inputs
        outputs = await worker.do(lambda: explorer.generate(inputs))

        async def lines() -> AsyncIterator[str]:
            try:
                while (partial_output := await worker.do(lambda: next(outputs, None))) is not None:
                    yield json.dumps(partial_output, ensure_ascii=False) + "\n"
            except HTTPException:
                return  # the server is busy: the page's next request reports the error

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    @app.post("/api/page")
    async def save(request: Request) -> HTMLResponse:
        view = validated(SavedView, await _arguments(request))
        try:
            async with asyncio.timeout(seconds):
                answered = [
                    (verb, arguments, await worker.do(partial(explorer.answer, verb, arguments)))
                    for verb, arguments in view.asked
                ]
        except TimeoutError:
            raise HTTPException(503, f"the view could not be saved within {seconds:g} seconds") from None
        return HTMLResponse(await asyncio.to_thread(page.saved, view.address, answered))

    @app.post("/api/{verb}")
    async def ask(verb: str, request: Request) -> Response:
        arguments = await _arguments(request)
        return _response(await worker.do(lambda: explorer.answer(verb, arguments)))

    app.mount("/static", StaticFiles(directory=page.FOLDER), name="static")
    return app


def serve(explorer: Explorer, host: str, port: int, ready: Callable[[str], object]) -> None:
    """Serves until interrupted; calls `ready` with the URL once the server listens."""
    is_local = host in LOOPBACK
    if sum(parameter.numel() for parameter in explorer.subject.model.parameters()) < SMALL_MODEL:
        torch.set_num_threads(1)  # one token of a small model takes less time than starting a thread
    with _listening(host, port) as listener:
        name = "localhost" if is_local else _bracketed(host)
        ready(f"http://{name}:{listener.getsockname()[1]}/")
        # other machines may use any host name
        app = make_app(explorer, hosts=LOOPBACK if is_local else ())
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5, timeout_keep_alive=5)
        uvicorn.Server(config).run(sockets=[listener])


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


def _headers() -> dict[str, str]:
    imports = page.IMPORTS.removeprefix('<script type="importmap">').removesuffix("</script>")
    digest = base64.b64encode(hashlib.sha256(imports.encode()).digest()).decode()
    scripts = f"script-src 'self' 'sha256-{digest}'"
    embedding = "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    return {
        "content-security-policy": f"default-src 'self'; {scripts}; img-src 'self' data: blob:; {embedding}",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
    }


def _bracketed(host: str) -> str:
    """The host as in URLs and Host headers: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


async def _arguments(request: Request) -> dict[str, Any]:
    try:
        arguments = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise HTTPException(400, "the request body must be a JSON object")
    return arguments


def _response(answer: Answer) -> Response:
    if isinstance(answer, Numbers):
        shape = ",".join(map(str, answer.values.shape))
        return Response(page.half(answer), media_type="application/octet-stream", headers={"x-shape": shape})
    return JSONResponse(answer)
