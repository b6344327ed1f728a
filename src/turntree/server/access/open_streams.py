"""Bounds the runs that one person follows at a time.

Each follower of a run looks at the ledger every few seconds, also when nothing happens: with 2,000
of them a guest took all connections of the database, and others got 503. The streams of a workspace
share one reader, and are not bounded.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from turntree.server.access.caller import ApiCaller
from turntree.server.problems import Refusal

STREAMS_MAX: Final = 100
"""Streams of runs of one person, with all of their keys and agents."""


class OpenStreams:
    """How many streams each person has open."""

    def __init__(self, streams_max: int = STREAMS_MAX) -> None:
        """Begin without a stream."""
        self._streams_max = streams_max
        self._open: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """The number of streams of all persons."""
        return self._open.total()

    async def hold(self, caller: ApiCaller, act: Callable[[], Awaitable[Response]]) -> Response:
        """Return the answer of a route that streams; it counts until it was sent.

        Raises:
            Refusal: The person has as many streams open as one may have.
        """
        if self._open[caller.person] >= self._streams_max:
            detail = f"a person follows at most {self._streams_max} runs at a time"
            step = "end one of these streams before you open another"
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, "too-many-streams", detail, step)
        self._open[caller.person] += 1
        end = partial(self._end, caller.person)
        with ExitStack() as failing:
            failing.callback(end)
            response = _HeldResponse(await act(), end)
            failing.pop_all()
        return response

    def _end(self, person: str) -> None:
        self._open[person] -= 1
        if self._open[person] == 0:
            del self._open[person]


class _HeldResponse(Response):
    """A response that says when it was sent, or its client went away."""

    def __init__(self, response: Response, end: Callable[[], None]) -> None:
        super().__init__(status_code=response.status_code)
        self._response = response
        self._end = end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._response(scope, receive, send)
        finally:
            self._end()
