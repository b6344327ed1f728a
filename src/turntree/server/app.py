"""The server as one ASGI application: the API, its description, and the page."""

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from turntree.server.access.caller import Callers, LocalCallers
from turntree.server.access.open_streams import OpenStreams
from turntree.server.context import ServerContext
from turntree.server.dispatch import (
    JSON,
    PREFIX,
    Dispatcher,
    TraceRequest,
    answer_elsewhere,
    answer_unexpected,
    is_call_of_workspace,
)
from turntree.server.keys import AccessKeys
from turntree.server.openapi import write_openapi
from turntree.server.page import ASSETS, ICON, Page
from turntree.server.route import ApiRoute
from turntree.server.routes import NETWORK_ROUTES, ROUTES
from turntree.server.security import (
    HEALTH_PATHS,
    NETWORK_CHECKS,
    Door,
    Entrance,
    Measure,
)

WELCOME: Final = Path(__file__).parent / "access" / "welcome"
"""The page that a one-time link opens, and the page with which people log in."""
_WELCOME_FILES: Final = {
    "welcome": ("index.html", "text/html"),
    "welcome.js": ("welcome.js", "text/javascript"),
    "login": ("login.html", "text/html"),
    "login.css": ("login.css", "text/css"),
    "login.js": ("login.js", "text/javascript"),
}


_PLACE_OF_PAGE: Final = re.compile(rb"/w/[^/]+(?:/(?!api(?:/|$)).*)?", re.DOTALL)
"""A path of a workspace at which there is no API, still escaped."""


class WorkspacePlace:
    """What is below ``/w/NAME``: the API of a workspace, and the page for every other path.

    The page is the same for all workspaces, and shows nothing by itself: without a login it sends
    its reader to log in. It is not the server that does so, because a browser that follows a link
    from another site does not send its cookie with that one request.
    """

    def __init__(self, api: ASGIApp, page: ASGIApp) -> None:
        """Serve an API and a page."""
        self._api = api
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        is_page = _PLACE_OF_PAGE.fullmatch(raw.partition(b"?")[0]) is not None
        answering = self._page if is_page and scope["method"] in ("GET", "HEAD") else self._api
        await answering(scope, receive, send)


def make_app(
    context: ServerContext, *, routes: Sequence[ApiRoute] = ROUTES, page: Page | None = None
) -> Starlette:
    """Return the application over an open tree, without the checks of ``security``."""

    async def describe(_: Request) -> Response:
        return Response(write_openapi(tuple(routes)), media_type=JSON)

    return Starlette(
        routes=[
            Route(f"{PREFIX}/openapi.json", describe),
            Mount(PREFIX, Dispatcher(LocalCallers(context), routes)),
            Mount("/", page or Page()),
        ],
        exception_handlers={Exception: answer_unexpected},
    )


def make_door(context: ServerContext, port: int) -> Door:
    """Return the application for one local user, behind every check."""
    open_routes = frozenset(
        (route.method, PREFIX + route.path) for route in ROUTES if route.is_open
    )
    hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))
    return Door(make_app(context), Entrance(context.keys, hosts, open_routes))


def make_network_app(
    callers: Callers,
    is_ready: Callable[[], Awaitable[bool]],
    *,
    routes: Sequence[ApiRoute] = NETWORK_ROUTES,
    page: Page | None = None,
    followed: OpenStreams | None = None,
    trace: TraceRequest | None = None,
) -> ASGIApp:
    """Return the application for callers over the network, without the checks of ``security``."""
    api = Dispatcher(callers, routes, streams=followed, trace=trace)

    async def describe(_: Request) -> Response:
        return Response(write_openapi(tuple(routes), is_network=True), media_type=JSON)

    async def tell_health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def tell_readiness(_: Request) -> Response:
        if await is_ready():
            return JSONResponse({"status": "ready"})
        return JSONResponse({"status": "not ready"}, HTTPStatus.SERVICE_UNAVAILABLE)

    async def show_welcome(request: Request) -> Response:
        name, media = _WELCOME_FILES[request.url.path.rpartition("/")[2]]
        return Response((WELCOME / name).read_bytes(), media_type=media)

    page = page or Page()
    health, ready = HEALTH_PATHS
    pages = Starlette(
        routes=[
            Route(health, tell_health),
            Route(ready, tell_readiness),
            Route(f"{PREFIX}/openapi.json", describe),
            *(Route(f"/w/{{workspace}}/{name}", show_welcome) for name in _WELCOME_FILES),
            Route(f"/{ICON}", page),
            Route(f"/{ASSETS}{{name:path}}", page),
            Mount("/w", WorkspacePlace(api, page)),
        ],
        exception_handlers={HTTPException: answer_elsewhere, Exception: answer_unexpected},
    )
    guarded = ServerErrorMiddleware(api, handler=answer_unexpected)

    def answer(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        # The API has a table of its own. On the way through Starlette's, every request would be
        # matched with all of the above, and each open stream keep what that remembers of it.
        app = guarded if is_call_of_workspace(scope) else pages
        return app(scope, receive, send)

    return answer


def make_network_door(
    app: ASGIApp, keys: AccessKeys, hosts: Collection[str], *, measure: Measure | None = None
) -> Door:
    """Return the application behind the checks of requests that come over the network."""
    entrance = Entrance(keys, frozenset(hosts), frozenset())
    return Door(app, entrance, checks=NETWORK_CHECKS, measure=measure)
