"""Who may send requests: the server's own page, under a name of this server, and with a token beyond this machine."""

import base64
import hashlib
import re
import secrets
import socket
from collections.abc import Sequence
from functools import cache

from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from regard.serve import page

LOOPBACK = ("localhost", "127.0.0.1", "::1")
WILDCARDS = ("0.0.0.0", "::")  # addresses that stand for all addresses of this machine
HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?", re.IGNORECASE)


def host_names(host: str) -> list[str]:
    """The names under which a server that listens on this address is known."""
    if host in LOOPBACK:
        return [*LOOPBACK]
    machine = socket.gethostname()
    return [host, *LOOPBACK, machine, f"{machine.partition('.')[0]}.local", socket.getfqdn()]


class Access:
    """Refuses requests from other sites, to other host names, and without the token; adds security headers.

    Args:
        hosts: accepted host names, as protection against DNS rebinding; the address of the connection is accepted, too.
        token: the first request has it in its URL, the following ones in a cookie; None: no token is required.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str], token: str | None) -> None:
        self.app, self.token = app, token
        self.hosts = {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers the request itself if it is refused, and forwards it otherwise."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(security_headers())
            await send(message)

        await (self._response(HTTPConnection(scope)) or self.app)(scope, receive, with_headers)

    def _response(self, request: HTTPConnection) -> Response | None:
        """The response to a request that is not forwarded."""
        scope, headers = request.scope, request.headers
        host, origin = headers.get("host", ""), headers.get("origin")
        if (name := _host_name(host)) not in self.hosts | _own_address(scope):
            hint = f"; to accept it, add: --allowed-host {name}" if name else ""
            return _refused(400, f"{host!r} is not a name of this server{hint}")
        if (origin and origin.partition("//")[2] != host) or _is_cross_site(scope["method"], request):
            return _refused(400, "requests from other sites are not allowed")
        if self.token is None or scope["path"] == "/health":
            return None
        cookie = f"regard-{(scope.get('server') or ('', 0))[1]}"  # cookies are shared by all ports of a host
        if self._is_token(request.query_params.get("token")):
            if scope["path"] != "/":
                return None
            start = RedirectResponse(".", 303)  # the same page without the token in its address
            start.set_cookie(cookie, self.token, httponly=True, samesite="lax")
            return start
        if self._is_token(request.cookies.get(cookie)):
            return None
        return _refused(401, "the token is missing or wrong; open the address that regard explore printed")

    def _is_token(self, given: str | None) -> bool:
        assert self.token is not None
        return given is not None and secrets.compare_digest(given.encode(errors="replace"), self.token.encode())


@cache
def security_headers() -> dict[str, str]:
    """The headers of all responses: only the page's own scripts run, and no other page may embed it."""
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


def _host_name(host: str) -> str | None:
    """The name in a Host header, without the port and the brackets of IPv6 addresses; None: not valid."""
    found = HOST.fullmatch(host)
    return (found[1] or found[2]).lower() if found else None


def _own_address(scope: Scope) -> set[str]:
    """The address at which the connection arrived: DNS rebinding needs a name, so that an address is safe."""
    server = scope.get("server")
    return {server[0].removeprefix("::ffff:")} if server else set()  # an IPv4 address on an IPv6 socket


def _is_cross_site(method: str, request: HTTPConnection) -> bool:
    """Whether a page of another site made the request; links to this server are allowed."""
    site, mode = request.headers.get("sec-fetch-site"), request.headers.get("sec-fetch-mode")
    is_link = method == "GET" and mode == "navigate" and request.headers.get("sec-fetch-dest") == "document"
    return site not in (None, "same-origin", "none") and not is_link


def _refused(status: int, message: str) -> JSONResponse:
    return JSONResponse({"error": message}, status)
