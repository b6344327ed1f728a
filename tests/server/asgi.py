"""Requests to an ASGI application in this process: every header as it is given, and no other."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

PORT = 8733
HOST = f"127.0.0.1:{PORT}"
ORIGIN = f"http://{HOST}"
Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What an application answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    @property
    def problem(self) -> str:
        assert self.headers["content-type"] == "application/problem+json"
        return str(self.document["type"]).rpartition(":")[2]


async def ask(
    app: ASGIApp,
    path: str,
    *,
    method: str = "GET",
    headers: Headers = (("host", HOST),),
    chunks: Sequence[bytes] = (b"",),
) -> HttpAnswer:
    """Send one request and return the whole answer; after the last chunk the client waits."""
    raw, _, query = path.partition("?")
    scope = {
        "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "root_path": "",
        "path": unquote(raw), "raw_path": raw.encode(), "query_string": query.encode(),
        "headers": [(name.lower().encode(), text.encode("latin-1")) for name, text in headers],
        "client": ("127.0.0.1", 50_000), "server": ("127.0.0.1", PORT),
    }  # fmt: skip
    pending = list(chunks)
    start: Message = {}
    parts: list[bytes] = []

    async def receive() -> Message:
        if not pending:
            return {"type": "http.disconnect"}
        body = pending.pop(0)
        return {"type": "http.request", "body": body, "more_body": bool(pending)}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.update(message)
        else:
            parts.append(message.get("body", b""))

    await app(scope, receive, send)
    sent = {name.decode(): text.decode() for name, text in start["headers"]}
    return HttpAnswer(start["status"], sent, b"".join(parts))


def post_headers(*more: tuple[str, str]) -> Headers:
    """Return the headers of a POST of our own page, and some more."""
    return (
        ("host", HOST), ("origin", ORIGIN), ("content-type", "application/json"),
        ("sec-fetch-site", "same-origin"), *more,
    )  # fmt: skip
