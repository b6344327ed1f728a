"""The page that Prometheus reads, for a listener of its own.

It is never on the address that clients reach, and asks for no key. The figures name nothing of a
workspace, but they say how busy a server is, and to whom they are of use is an operator's decision:
who can reach the address can read them. A key would be one of a member of one workspace, whom the
figures of all others are no business of, and Prometheus would have to keep it.
"""

import ipaddress
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from turntree.telemetry.metrics import ProcessMetrics

PATH: Final = "/metrics"


class MetricsPage:
    """The figures of a process as an ASGI application."""

    def __init__(
        self,
        metrics: ProcessMetrics,
        refresh: Callable[[], Awaitable[None]],
        *,
        is_loopback: bool = True,
    ) -> None:
        """Tell the figures of a process; ``refresh`` is called before each reading."""
        self._metrics = metrics
        self._refresh = refresh
        self._is_loopback = is_loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            response = await self._respond(Request(scope, receive))
            await response(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        # A site that a browser of this machine shows could rebind its name to this address.
        if self._is_loopback and not _is_here(request.url.hostname or ""):
            return PlainTextResponse("wrong host\n", HTTPStatus.MISDIRECTED_REQUEST)
        if request.url.path != PATH:
            return PlainTextResponse(f"only {PATH}\n", HTTPStatus.NOT_FOUND)
        if request.method not in ("GET", "HEAD"):
            return PlainTextResponse("only GET\n", HTTPStatus.METHOD_NOT_ALLOWED)
        await self._refresh()
        return Response(
            self._metrics.write(),
            headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4, "cache-control": "no-store"},
        )


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
