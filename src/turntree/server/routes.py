"""The table of all routes: what is not here is not served."""

from typing import Final

from turntree.server import login
from turntree.server.acts import forks, handoffs, moves, names
from turntree.server.reads import me, shape, sources, stream
from turntree.server.route import ApiRoute

ROUTES: Final[tuple[ApiRoute, ...]] = (
    *login.ROUTES,
    *me.ROUTES,
    *shape.ROUTES,
    *sources.ROUTES,
    *stream.ROUTES,
    *forks.ROUTES,
    *handoffs.ROUTES,
    *moves.ROUTES,
    *names.ROUTES,
)
