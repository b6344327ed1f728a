"""The server as one ASGI application: the API, its description, and the page."""

from collections.abc import Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from turntree.server.context import ServerContext
from turntree.server.dispatch import JSON, PREFIX, Dispatcher, answer_unexpected
from turntree.server.openapi import write_openapi
from turntree.server.page import Page
from turntree.server.route import ApiRoute
from turntree.server.routes import ROUTES
from turntree.server.security import Door, Entrance


def make_app(
    context: ServerContext, *, routes: Sequence[ApiRoute] = ROUTES, page: Page | None = None
) -> Starlette:
    """Return the application over an open tree, without the checks of ``security``."""

    async def describe(_: Request) -> Response:
        return Response(write_openapi(routes), media_type=JSON)

    return Starlette(
        routes=[
            Route(f"{PREFIX}/openapi.json", describe),
            Mount(PREFIX, Dispatcher(context, routes)),
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
