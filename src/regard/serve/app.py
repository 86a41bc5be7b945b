"""The explorer's server: one model, one computation at a time, a short queue, and no surprises for whoever asks."""

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
from regard.serve.explorer import Answer, Asked, Explorer, Numbers, understood

BODY = 1024 * 1024  # bytes that a request may have
QUEUE = 8  # questions that may wait, the one at work included
SECONDS = 30.0  # that a request may take, waiting included
SMALL = 30_000_000  # parameters, below which threads cost more than they give
LOOPBACK = ("localhost", "127.0.0.1", "::1")

log = logging.getLogger("regard.serve")
T = TypeVar("T")


class SavedView(BaseModel):
    """A view to be saved: its address, and what it had asked."""

    address: Annotated[str, Field(max_length=BODY)]
    asked: Annotated[list[tuple[str, dict[str, Any]]], Field(max_length=200)]


class Worker:
    """Does one thing after the other, as what looks inside a model sets hooks on it; turns away what is too much."""

    def __init__(self, queue: int, seconds: float) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="regard")
        self._waiting, self._queue, self._seconds = 0, queue, seconds

    async def do(self, work: Callable[[], T]) -> T:
        """The result of the work, once it is its turn."""
        if self._waiting >= self._queue:
            raise HTTPException(429, "too many questions at once; ask again in a moment")
        self._waiting += 1
        loop, job = asyncio.get_running_loop(), self._pool.submit(work)
        job.add_done_callback(lambda _: loop.is_closed() or loop.call_soon_threadsafe(self._done))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(job), self._seconds)
        except TimeoutError:
            # what has not begun never will; what has begun keeps its place until it ends
            raise HTTPException(503, f"no answer within {self._seconds:g} seconds; try a shorter text") from None

    def _done(self) -> None:
        self._waiting -= 1

    def close(self) -> None:
        """Drops what has not begun; the work at hand ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class BodyLimit:
    """Refuses requests with a body that is too large, whether they admit its size or not."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app, self.limit = app, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes the request on, and counts as it comes in."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                await Response(status_code=400)(scope, receive, send)  # which nobody reads
                return
            body, more = body + message.get("body", b""), message.get("more_body", False)
            if len(body) > self.limit:
                text = f"a request may have {self.limit:,} bytes"
                await JSONResponse({"error": text}, 413, {"connection": "close"})(scope, receive, send)
                return
        whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return whole.pop() if whole else await receive()

        await self.app(scope, again, send)


def make_app(
    explorer: Explorer, *, hosts: Sequence[str] = LOOPBACK, queue: int = QUEUE, seconds: float = SECONDS
) -> FastAPI:
    """The server for one model.

    Args:
        hosts: names under which it may be asked, so that no other site's page can ask by a name of its own; none: any.
    """
    worker = Worker(queue, seconds)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        worker.close()

    app = FastAPI(title="Regard", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.add_middleware(BodyLimit, limit=BODY)
    names = [_in_address(host) for host in hosts] or ["*"]
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=names, www_redirect=False)
    index = (page.FOLDER / "index.html").read_text("utf-8")

    @app.middleware("http")
    async def with_manners(request: Request, go_on: Callable[[Request], Awaitable[Response]]) -> Response:
        origin = request.headers.get("origin")
        if origin and origin.partition("//")[2] != request.headers.get("host"):
            response: Response = JSONResponse({"error": "another site may not ask"}, 400)
        else:
            response = await go_on(request)
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
        return JSONResponse({"error": "something went wrong inside; the server's log says what"}, 500, _headers())

    @app.get("/")
    async def start() -> HTMLResponse:
        return HTMLResponse(index)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok", "model": explorer.name}

    @app.post("/api/generate")
    async def generate(request: Request) -> StreamingResponse:
        inputs = understood(Asked, await _arguments(request)).inputs
        longer = await worker.do(lambda: explorer.generate(inputs))

        async def lines() -> AsyncIterator[str]:
            try:
                while (so_far := await worker.do(lambda: next(longer, None))) is not None:
                    yield json.dumps(so_far, ensure_ascii=False) + "\n"
            except HTTPException:
                return  # too much to do: the answer, which is asked for next, will tell

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    @app.post("/api/page")
    async def save(request: Request) -> HTMLResponse:
        view = understood(SavedView, await _arguments(request))
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
    """Serves until it is interrupted; calls back with the address once it listens."""
    is_local = host in LOOPBACK
    if sum(parameter.numel() for parameter in explorer.subject.model.parameters()) < SMALL:
        torch.set_num_threads(1)  # one token of a small model is done before a second thread has begun
    with _listening(host, port) as listener:
        name = "localhost" if is_local else _in_address(host)
        ready(f"http://{name}:{listener.getsockname()[1]}/")
        # who lets other machines in knows best by which names they ask
        app = make_app(explorer, hosts=LOOPBACK if is_local else ())
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=5, timeout_keep_alive=5)
        uvicorn.Server(config).run(sockets=[listener])


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sends small answers at once only where the protocol is named; else each waits some 40 ms
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if sys.platform != "win32":  # where it would let two servers have the same port
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise RegardError(f"cannot listen at {host}:{port} ({error.strerror}); choose another with --port") from None
    listener.listen()
    return listener


def _headers() -> dict[str, str]:
    imports = page.IMPORTS.removeprefix('<script type="importmap">').removesuffix("</script>")
    digest = base64.b64encode(hashlib.sha256(imports.encode()).digest()).decode()
    scripts = f"script-src 'self' 'sha256-{digest}'"
    elsewhere = "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
    return {
        "content-security-policy": f"default-src 'self'; {scripts}; img-src 'self' data: blob:; {elsewhere}",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
    }


def _in_address(host: str) -> str:
    """The host as URLs and Host headers write it: IPv6 addresses in brackets."""
    return f"[{host}]" if ":" in host else host


async def _arguments(request: Request) -> dict[str, Any]:
    try:
        arguments = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise HTTPException(400, "a question should be a JSON object")
    return arguments


def _response(answer: Answer) -> Response:
    if isinstance(answer, Numbers):
        shape = ",".join(map(str, answer.values.shape))
        return Response(page.half(answer), media_type="application/octet-stream", headers={"x-shape": shape})
    return JSONResponse(answer)
