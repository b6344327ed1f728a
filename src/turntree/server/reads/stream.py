"""The stream of changes, as a route."""

from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from turntree.core.errors import Unsupported
from turntree.core.value import value
from turntree.server.access.rights import READ
from turntree.server.context import ServerContext
from turntree.server.route import ApiRoute
from turntree.server.stream import Stream


@value
class StreamStart:
    """Where a client resumes; without a position it starts now."""

    after: str = ""
    last_event_id: str = ""


class StreamResponse(Response):
    """A response that lasts until its client leaves."""

    def __init__(self, stream: Stream) -> None:
        """Serve one client of a stream."""
        self._stream = stream

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what happens."""
        await self._stream(scope, receive, send)


async def get_stream(context: ServerContext, _: StreamStart) -> StreamResponse:
    """Return the stream; it reads the position from the request itself."""
    if context.live is None:
        raise Unsupported("this server has no stream")
    return StreamResponse(context.live.stream)


ROUTES: Final = (
    ApiRoute(
        "GET", "/stream", READ, get_stream, "What changes, as server-sent events.",
        asks=StreamStart, answers=str, media="text/event-stream", headers=("last_event_id",),
        is_local=True,
    ),
)  # fmt: skip
