"""The table of all routes: what is not here is not served."""

from typing import Final

from turntree.server import login
from turntree.server.acts import forks, handoffs, moves, names, reverts
from turntree.server.reads import (
    compare,
    costs,
    files,
    inspection,
    me,
    search,
    sessions,
    shape,
    sharing,
    sources,
    stream,
    threads,
)
from turntree.server.route import ApiRoute

ROUTES: Final[tuple[ApiRoute, ...]] = (
    *login.ROUTES,
    *me.ROUTES,
    *shape.ROUTES,
    *sources.ROUTES,
    *stream.ROUTES,
    *sessions.ROUTES,
    *threads.ROUTES,
    *files.ROUTES,
    *inspection.ROUTES,
    *compare.ROUTES,
    *search.ROUTES,
    *costs.ROUTES,
    *forks.ROUTES,
    *handoffs.ROUTES,
    *moves.ROUTES,
    *names.ROUTES,
    *reverts.ROUTES,
    *sharing.ROUTES,
)
