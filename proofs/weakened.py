"""A server of this process whose defences can be taken away, and a site that means harm.

Both listen on loopback. The browser is told that the harmful site's name is this machine, which is
what a rebound name is.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from turntree.api import Tree
from turntree.boot.open import Settings
from turntree.server import security
from turntree.server.app import make_app, make_door
from turntree.server.context import ServerContext
from turntree.server.keys import AccessKeys
from turntree.server.security import Door
from turntree.system.clock import SystemClock

ANYTHING = "* data: blob: 'unsafe-inline' 'unsafe-eval'"
SLOW_S = 0.5
"""How long a body may take here, so that a slow one is refused while the proof waits."""


class LastingKeys(AccessKeys):
    """Keys that can be exchanged again and again."""

    def redeem_key(self, key: str) -> str | None:
        """Return a cookie, and forget that the key was used."""
        cookie = super().redeem_key(key)
        self._used.clear()
        return cookie


@dataclass(slots=True)
class WeakenedServer:
    """A running server, and what it was asked."""

    port: int
    keys: AccessKeys
    cookies: list[str] = field(default_factory=list[str])
    """The Cookie header of every request for data."""

    @property
    def origin(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """An address to come in by."""
        return f"{self.origin}/#key={self.keys.issue_key()}"


@contextlib.asynccontextmanager
async def weakened(
    tree: Tree, settings: Settings, without: frozenset[str]
) -> AsyncGenerator[WeakenedServer, None]:
    """Run a server without some defences, each named as in the proof's list."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    kind = LastingKeys if "key once" in without else AccessKeys
    keys = kind(b"s" * 32, "proof", port, time.time)
    database: Any = tree._on.database  # noqa: SLF001 - the tree's own, as the command line has it.
    context = ServerContext(tree, database, settings, SystemClock(), lambda _: None, keys)
    server = WeakenedServer(port, keys)
    whole = make_door(context, port)
    checks = [check for check in security.CHECKS if check.__name__ not in without]
    door = Door(
        make_app(context),
        whole._entrance,  # noqa: SLF001 - the same entrance, with fewer checks.
        checks=checks,
        headers=_headers(without),
    )
    limits = security.BODY_BYTES_MAX, security.BODY_S_MAX
    security.BODY_S_MAX = 1e9 if "body time" in without else SLOW_S  # type: ignore[misc]
    if "body size" in without:
        security.BODY_BYTES_MAX = 1 << 40  # type: ignore[misc]
    config = uvicorn.Config(
        _spy(door, server, without), log_level="critical", access_log=False, lifespan="off",
        ws="none", timeout_graceful_shutdown=0,
    )  # fmt: skip
    running = uvicorn.Server(config)
    task = asyncio.create_task(running.serve([listener]))
    try:
        yield server
    finally:
        running.should_exit = True
        await task
        security.BODY_BYTES_MAX, security.BODY_S_MAX = limits  # type: ignore[misc]


def _headers(without: frozenset[str]) -> Mapping[str, str]:
    policy: dict[str, str] = {}
    for name, text in security.POLICY.items():
        if name not in without:
            policy[name] = text
        elif name == "trusted-types":
            policy[name] = "* 'allow-duplicates'"
        elif name.endswith("-src"):
            # Left out, it would fall back to the default, which allows less.
            policy[name] = ANYTHING
    headers = {name: text for name, text in security.HEADERS.items() if name not in without}
    headers["content-security-policy"] = "; ".join(f"{n} {t}" for n, t in policy.items())
    return headers


def _spy(app: ASGIApp, server: WeakenedServer, without: frozenset[str]) -> ASGIApp:
    async def spied(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].startswith("/api/"):
            sent = [text.decode("latin-1") for name, text in scope["headers"] if name == b"cookie"]
            server.cookies.append("; ".join(sent))

        async def send_weakened(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*map(weaken, message["headers"])]}
            await send(message)

        def weaken(header: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
            name, text = header
            if name == b"set-cookie" and "HttpOnly" in without:
                text = text.replace(b" HttpOnly;", b"")
            if name == b"set-cookie" and "SameSite" in without:
                text = text.replace(b"SameSite=strict", b"SameSite=lax")
            return name, text

        await app(scope, receive, send_weakened)

    return spied


@dataclass(slots=True)
class HarmfulSite:
    """A site that answers everything and remembers who came."""

    port: int
    visits: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The path of each request, and its Referer."""
    page: str = "<!doctype html><title>harm</title>"
    arrival: asyncio.Event = field(default_factory=asyncio.Event)

    async def wait_for(self, path: str, seconds: float) -> bool:
        """Wait a moment for a visit that should not come, and return whether it came."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not any(visited.startswith(path) for visited, _ in self.visits):
                    self.arrival.clear()
                    await self.arrival.wait()
                return True
        return False

    def forget(self) -> None:
        """Forget all visits."""
        self.visits.clear()


@contextlib.asynccontextmanager
async def harmful_site() -> AsyncGenerator[HarmfulSite, None]:
    """Run a site of another origin."""
    site = HarmfulSite(0)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
            return
        path = head.split(" ", 2)[1]
        referer = [line for line in head.split("\r\n") if line.lower().startswith("referer:")]
        site.visits.append((path, referer[0].partition(":")[2].strip() if referer else ""))
        site.arrival.set()
        body = site.page.encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\naccess-control-allow-origin: *\r\n"
            b"connection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    site.port = server.sockets[0].getsockname()[1]
    async with server:
        yield site
