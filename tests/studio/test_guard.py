"""The guard: nothing behind it is reached without the token, from another page, or under a bent name."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from adapcla.studio.server import Guard

TOKEN, PORT = "right-token", 8765
HOST = f"127.0.0.1:{PORT}"
COOKIE = f"adapcla_studio_{PORT}={TOKEN}"


def asked(kind: str = "http", path: str = "/", query: str = "", method: str = "GET", **headers: str) -> dict[str, Any]:
    """What comes back: whether the inside was reached, status, headers and body."""
    came: dict[str, Any] = {"inside": False, "status": None, "headers": {}, "body": b"", "closed": False}

    async def inside(scope: Any, receive: Any, send: Any) -> None:
        came["inside"] = True
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"x-inside", b"1")]})
            await send({"type": "http.response.body", "body": b"in"})

    async def receive() -> dict[str, Any]:
        return {"type": f"{kind}.connect"}

    async def send(message: Any) -> None:
        came["status"] = message.get("status", came["status"])
        came["headers"] |= {name.decode(): value.decode() for name, value in message.get("headers", ())}
        came["body"] += message.get("body", b"")
        came["closed"] |= message["type"] == "websocket.close"

    sent = {"host": HOST, **headers}
    scope = {
        "type": kind,
        "path": path,
        "method": method,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in sent.items() if value],
    }
    asyncio.run(Guard(inside, TOKEN, PORT)(scope, receive, send))
    return came


@pytest.mark.parametrize(
    "path", ["/", "/static/js/x.js", "/_stcore/health", "/_stcore/upload_file/a/b", "/media/x.csv"]
)
@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE"])
def test_without_the_token_everything_is_403(path: str, method: str) -> None:
    came = asked(path=path, method=method)
    assert not came["inside"] and came["status"] == 403 and b"token" in came["body"] and TOKEN not in str(came)


def test_the_stream_is_closed_without_the_cookie_and_open_with_it() -> None:
    assert asked("websocket")["closed"] and asked("websocket", query=f"token={TOKEN}")["closed"]
    assert asked("websocket", cookie=COOKIE)["inside"]


def test_the_token_is_changed_for_a_cookie_that_scripts_and_other_sites_do_not_get() -> None:
    came = asked(query=f"token={TOKEN}", path="/patients")
    assert came["status"] == 200 and not came["inside"] and b"url=/patients" in came["body"]
    cookie = came["headers"]["set-cookie"]
    assert cookie.startswith(COOKIE) and "HttpOnly" in cookie and "SameSite=Strict" in cookie
    assert asked(cookie=COOKIE)["inside"]


@pytest.mark.parametrize("query", ["token=wrong-token", "token=", "tokens=right-token", "token=right-token2"])
def test_another_token_is_refused(query: str) -> None:
    assert asked(query=query)["status"] == 403


@pytest.mark.parametrize(
    "cookie", ["adapcla_studio_8765=wrong", "other=right-token", "adapcla_studio_1=right-token", ";;="]
)
def test_another_cookie_is_refused(cookie: str) -> None:
    assert asked(cookie=cookie)["status"] == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example:8765"},
        {"host": "127.0.0.1:9999"},
        {"host": ""},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://localhost:8765"},
        {"origin": "https://127.0.0.1:8765"},
    ],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_bent_name_and_another_page_are_refused_even_with_the_cookie(headers: dict[str, str], kind: str) -> None:
    came = asked(kind, cookie=COOKIE, query=f"token={TOKEN}", **headers)
    assert not came["inside"] and (came["status"] == 403 or came["closed"])


def test_a_path_cannot_write_into_the_page() -> None:
    assert b'url=/"' in asked(query=f"token={TOKEN}", path='/"><script>')["body"]


def test_every_answer_forbids_requests_to_the_outside() -> None:
    for came in (asked(cookie=COOKIE), asked(), asked(query=f"token={TOKEN}")):
        policy = came["headers"]["content-security-policy"]
        assert "default-src 'self'" in policy and "http://" not in policy and "https:" not in policy
        assert came["headers"]["referrer-policy"] == "no-referrer"


def test_what_is_no_request_goes_through() -> None:
    reached = []

    async def inside(scope: Any, receive: Any, send: Any) -> None:
        reached.append(scope["type"])

    asyncio.run(Guard(inside, TOKEN, PORT)({"type": "lifespan"}, None, None))  # type: ignore[arg-type]
    assert reached == ["lifespan"]
