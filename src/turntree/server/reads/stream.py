"""The stream of changes, as a route."""

from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from turntree.core.errors import DatabaseUnavailable, InvalidOperation, Unsupported
from turntree.core.event import FeedPosition
from turntree.core.value import value
from turntree.server.access.rights import READ
from turntree.server.context import ServerContext, StreamHandle
from turntree.server.problems import problem_of, problem_response
from turntree.server.route import OWN_SEND, ApiRoute
from turntree.server.stream import Stream

EPOCH_MAX: Final = 2**31 - 1
PART_MAX: Final = 2**63 - 1
"""What the database takes as a part of a position."""


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


class WorkspaceStreamResponse(Response):
    """The same, for a caller over the network."""

    def __init__(self, listening: StreamHandle, after: FeedPosition | None) -> None:
        """Serve one caller from a position on."""
        self._listening = listening
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what happens, past the layers that add headers: they have no part in a body."""
        heard = self._listening
        try:
            await heard.stream.serve(
                heard.reader, self._after, receive, scope.get(OWN_SEND, send), send
            )
        except DatabaseUnavailable as error:
            # Nothing was sent yet. The table of routes has answered already, so it cannot do this.
            problem = problem_of(error, lambda _: None, is_local=False)
            await problem_response(problem)(scope, receive, send)


async def get_stream(
    context: ServerContext, asked: StreamStart
) -> StreamResponse | WorkspaceStreamResponse:
    """Return the stream; that of a browser reads the position from the request itself.

    Raises:
        InvalidOperation: It is not a position.
        Unsupported: This server has no stream.
    """
    if context.listening is not None:
        told = asked.last_event_id or asked.after
        return WorkspaceStreamResponse(context.listening, read_position(told) if told else None)
    if context.live is None:
        raise Unsupported("this server has no stream")
    return StreamResponse(context.live.stream)


def read_position(text: str) -> FeedPosition:
    """Return a position of the feed.

    Raises:
        InvalidOperation: It is not one.
    """
    try:
        position = FeedPosition.parse(text)
    except ValueError as error:
        raise InvalidOperation(f"{text[:80]!r} is not a position") from error
    if not all(0 <= part <= PART_MAX for part in (position.transaction, position.n)) or not (
        0 <= position.epoch <= EPOCH_MAX
    ):
        raise InvalidOperation(f"{text[:80]!r} is not a position")
    return position


ROUTES: Final = (
    ApiRoute(
        "GET", "/stream", READ, get_stream, "What changes, as server-sent events.",
        asks=StreamStart, answers=str, media="text/event-stream", headers=("last_event_id",),
    ),
)  # fmt: skip
