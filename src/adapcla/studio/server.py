"""The server of the studio: on this computer only, behind its guard, asking nothing of anybody."""

from __future__ import annotations

import hmac
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from adapcla.errors import ExistsError, UsageError

#: Names the folder for the pages, which run inside the server.
FOLDER = "ADAPCLA_STUDIO_FOLDER"
ADDRESS = "127.0.0.1"
#: The port that is tried first; a free one is taken where it is in use.
FIRST_PORT = 8765
#: Largest table that can be dropped on the page, in megabytes; larger ones are named by their path.
MOST_MEGABYTES = 500
#: Streamlit's settings, which win over any file of settings on this computer.
SETTINGS: dict[str, Any] = {
    "browser.gatherUsageStats": False,
    "browser.serverAddress": ADDRESS,
    "client.showErrorDetails": "none",
    "client.toolbarMode": "minimal",
    "global.developmentMode": False,
    "logger.level": "error",
    "server.address": ADDRESS,
    "server.enableAgentApi": False,
    "server.enableCORS": True,
    "server.enableStaticServing": False,
    "server.enableXsrfProtection": True,
    "server.fileWatcherType": "none",
    "server.headless": True,
    "server.maxUploadSize": MOST_MEGABYTES,
    "theme.dark.primaryColor": "#4C9BDB",
    "theme.light.primaryColor": "#2A78B8",
}
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_REFUSED = (
    "403: this studio opens with the whole address that `adapcla studio` printed, which ends with a token.\n"
    "to do: copy it from there, or start the studio again\n"
)
#: Goes on to the page from this site, so that the browser sends the cookie whatever page the link was on.
_WELCOME = (
    '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={path}"><title>Studio</title>'
)


@dataclass(frozen=True, eq=False)
class Studio:
    """A bound port, a token and a folder: all that it takes to serve."""

    folder: Path
    token: str
    door: socket.socket

    @property
    def port(self) -> int:
        """The port."""
        return int(self.door.getsockname()[1])

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{ADDRESS}:{self.port}/?token={self.token}"

    def serve(self, ready: Callable[[], None] = lambda: None) -> None:
        """Answer until Ctrl-C; jobs that were started go on."""
        import uvicorn
        from streamlit.starlette import App

        settle(self.folder, self.port)
        inside = App(Path(__file__).with_name("app.py"))
        guarded = Guard(inside, self.token, self.port)
        config = uvicorn.Config(guarded, log_config=None, access_log=False, timeout_graceful_shutdown=1)
        # A line for each request would hold the token.
        logging.getLogger("uvicorn.access").disabled = True
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        ready()
        uvicorn.Server(config).run(sockets=[self.door])


def open_studio(folder: Path, port: int | None = None) -> Studio:
    """A studio in this folder, which is made where it is not there, at a port of this computer alone."""
    if find_spec("streamlit") is None:
        raise UsageError("the studio is not installed\nto do: pip install 'adapcla[ui]'")
    root = folder.expanduser().resolve()
    if root.exists() and not root.is_dir():
        raise ExistsError(f"{folder} is not a folder\nto do: name a folder to work in")
    root.mkdir(parents=True, exist_ok=True)
    return Studio(root, secrets.token_urlsafe(32), _listening_socket(port))


def _listening_socket(port: int | None) -> socket.socket:
    """A listening socket at this port; at the usual one, or any that is free, where none is named."""
    for wanted in [FIRST_PORT, 0] if port is None else [port]:
        door = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            door.bind((ADDRESS, wanted))
        except OSError:
            door.close()
            continue
        door.listen(128)
        door.set_inheritable(False)
        return door
    raise ExistsError(f"port {port} is in use\nto do: leave --port out, or name another")


def settle(folder: Path, port: int) -> None:
    """Set how Streamlit behaves, and to the pages where they work."""
    from streamlit.web.bootstrap import load_config_options

    os.environ[FOLDER] = str(folder)
    load_config_options({**SETTINGS, "server.port": port})


# ---- the guard ----------------------------------------------------------------------------------------------------
class Guard:
    """An application that lets only its own user through to another one.

    It stands before everything that the server offers: pages, scripts, uploads, downloads and the stream. The token is
    in the address that the command prints; the first visit changes it for a cookie that scripts cannot read and other
    sites cannot send. The browser may connect to no other machine.
    """

    def __init__(self, inside: Application, token: str, port: int) -> None:
        self.inside, self.token = inside, token
        self.cookie = f"adapcla_studio_{port}"
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        here = " ".join(f"ws://{host}" for host in self.hosts)
        policy = (
            "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
            f"img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' {here}; "
            "frame-src 'self' data: blob:; worker-src 'self' blob:; object-src 'none'; base-uri 'self'; "
            "form-action 'self'; frame-ancestors 'self'"
        )
        self.headers = [
            (b"content-security-policy", policy.encode()),
            (b"referrer-policy", b"no-referrer"),
            (b"x-content-type-options", b"nosniff"),
            (b"cross-origin-resource-policy", b"same-origin"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or hand it on."""
        if scope["type"] not in ("http", "websocket"):
            await self.inside(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if not self._is_from_here(headers):
            await self._refuse(scope, receive, send)
        elif self._has_cookie(headers.get("cookie", "")):
            await self.inside(scope, receive, self._with_headers(send))
        elif scope["type"] == "http" and scope["method"] == "GET" and self._has_token(scope):
            await self._welcome(scope, send)
        else:
            await self._refuse(scope, receive, send)

    def _is_from_here(self, headers: dict[str, str]) -> bool:
        """Whether a request is for this address and from one of its own pages; a name that was bent to it is not."""
        host, origin = headers.get("host", ""), headers.get("origin")
        return host in self.hosts and origin in (None, f"http://{host}")

    def _has_cookie(self, text: str) -> bool:
        try:
            sent = SimpleCookie(text).get(self.cookie)
        except CookieError:
            return False
        return sent is not None and hmac.compare_digest(sent.value.encode(), self.token.encode())

    def _has_token(self, scope: Scope) -> bool:
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[-1]
        return hmac.compare_digest(given.encode(), self.token.encode())

    async def _welcome(self, scope: Scope, send: Send) -> None:
        """Give the cookie and go on to the page without the token in its address."""
        path = "/" + scope["path"].lstrip("/")
        safe = path if all(c.isalnum() or c in "/_-" for c in path) else "/"
        cookie = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
        more = [(b"set-cookie", cookie.encode()), (b"cache-control", b"no-store")]
        await self._answer(send, 200, b"text/html; charset=utf-8", _WELCOME.format(path=safe).encode(), more)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1008})
            return
        await self._answer(send, 403, b"text/plain; charset=utf-8", _REFUSED.encode(), [])

    async def _answer(self, send: Send, status: int, kind: bytes, body: bytes, more: list[tuple[bytes, bytes]]) -> None:
        headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode()), *self.headers, *more]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    def _with_headers(self, send: Send) -> Send:
        """A way out on which every answer gets the guard's headers."""

        async def out(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *self.headers]
            await send(message)

        return out
