"""Limits of requests: the size of their bodies, the disconnection of their client, and one saved page at a time."""

import asyncio
from contextlib import suppress

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Body:
    """Refuses requests whose body is too large, and cancels the answer as soon as its client disconnects."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app, self.limit = app, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reads the body, checks its size, and forwards the request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > self.limit:
                text = f"the request is too large; the limit is {self.limit:,} bytes"
                await JSONResponse({"error": text}, 413, {"connection": "close"})(scope, receive, send)
                return
        whole: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]
        left = asyncio.ensure_future(receive())  # after the body, the only message is that the client disconnected

        async def replay() -> Message:
            return whole.pop() if whole else await asyncio.shield(left)

        answer = asyncio.ensure_future(self.app(scope, replay, send))
        try:
            await asyncio.wait({left, answer}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            left.cancel()
            answer.cancel()
        with suppress(asyncio.CancelledError):
            await answer


class OneAtATime:
    """Forwards one request at a time to a path, until its response is sent; refuses others."""

    def __init__(self, app: ASGIApp, path: str) -> None:
        self.app, self.path, self._is_busy = app, path, False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forwards or refuses the request."""
        if scope["type"] != "http" or scope["path"] != self.path:
            await self.app(scope, receive, send)
            return
        if self._is_busy:
            busy = {"error": "another view is being saved; try again in a moment"}
            await JSONResponse(busy, 429, {"retry-after": "1"})(scope, receive, send)
            return
        self._is_busy = True
        try:
            await self.app(scope, receive, send)
        finally:
            self._is_busy = False
