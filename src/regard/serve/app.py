"""The explorer's server: one model, one computation at a time, and a short request queue."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from regard.errors import RegardError
from regard.serve import page
from regard.serve.access import LOOPBACK, Access, security_headers
from regard.serve.explorer import Answer, Explorer, Numbers, Question, validated
from regard.serve.limits import Body, OneAtATime
from regard.serve.worker import Worker

MAX_BODY = 1024 * 1024  # maximum size of a request body in bytes
MAX_PAGE = 64 * 1024 * 1024  # maximum size of the answers in a saved page, in characters
MAX_PENDING = 8  # maximum number of pending requests, including the running one
TIMEOUT = 30.0  # timeout of a request in seconds, including the time in the queue

log = logging.getLogger("regard.serve")


class SavedView(BaseModel):
    """A view to save: its address, and the requests that it made."""

    address: Annotated[str, Field(max_length=MAX_BODY)]
    asked: Annotated[list[tuple[str, dict[str, Any]]], Field(max_length=200)]


def make_app(
    explorer: Explorer,
    *,
    hosts: Sequence[str] = LOOPBACK,
    token: str | None = None,
    queue: int = MAX_PENDING,
    seconds: float = TIMEOUT,
) -> FastAPI:
    """The server for one model.

    Args:
        hosts: accepted host names, as protection against DNS rebinding.
        token: what a browser must know in order to be answered; None: nothing.
    """
    worker = Worker(queue, seconds)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        yield
        worker.close()

    app = FastAPI(title="Regard", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.worker = worker
    app.add_middleware(OneAtATime, path="/api/page")
    app.add_middleware(Body, limit=MAX_BODY)
    app.add_middleware(Access, hosts=hosts, token=token)
    index = (page.FOLDER / "index.html").read_text("utf-8")

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
        return JSONResponse({"error": "internal error; see the server's log"}, 500, security_headers())

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
                    yield json.dumps(partial_output, ensure_ascii=False, allow_nan=False) + "\n"
            except (HTTPException, RegardError):
                return  # such as a full queue: the page's next request reports the error
            except Exception:
                log.exception("%s failed", request.url.path)  # the status has been sent already

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    @app.post("/api/page")
    async def save(request: Request) -> StreamingResponse:
        view = validated(SavedView, await _arguments(request))
        entries, size = dict[str, None](), 0
        try:
            async with asyncio.timeout(seconds):
                for verb, arguments in view.asked:
                    entry = await worker.do(partial(_entry, explorer, verb, arguments))
                    entries[entry], size = None, size + len(entry)
                    if size > MAX_PAGE:
                        limit = f"{MAX_PAGE / 2**20:g} MiB"
                        raise RegardError(f"the view is too large to be saved: more than {limit}; use a shorter text")
        except TimeoutError:
            raise HTTPException(503, f"the view could not be saved within {seconds:g} seconds") from None
        return StreamingResponse(_each(page.saved(view.address, entries)), media_type="text/html")

    @app.post("/api/{verb}")
    async def ask(verb: str, request: Request) -> Response:
        arguments = await _arguments(request)
        return await worker.do(lambda: _response(explorer.answer(verb, arguments)))

    app.mount("/static", StaticFiles(directory=page.FOLDER), name="static")
    return app


async def _arguments(request: Request) -> dict[str, Any]:
    try:
        arguments = json.loads(await request.body() or b"{}")
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        raise HTTPException(400, "the request body must be a JSON object")
    return arguments


def _entry(explorer: Explorer, verb: str, arguments: dict[str, Any]) -> str:
    return page.entry(verb, arguments, explorer.answer(verb, arguments))


async def _each(parts: Iterable[str]) -> AsyncIterator[str]:
    for part in parts:
        yield part


def _response(answer: Answer) -> Response:
    if isinstance(answer, Numbers):
        shape = ",".join(map(str, answer.values.shape))
        return Response(page.half(answer), media_type="application/octet-stream", headers={"x-shape": shape})
    return JSONResponse(answer)
