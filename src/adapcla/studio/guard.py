"""The guard at the door of the studio: who does not know the token, or comes from another page, gets 403.

It stands before everything that the server offers: pages, scripts, uploads, downloads and the stream. The token is in
the address that the command prints; the first visit changes it for a cookie that scripts cannot read and other sites
cannot send. The browser is told to ask nothing of any other machine.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

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


class Guard:
    """An application that lets only its own user through to another one."""

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
