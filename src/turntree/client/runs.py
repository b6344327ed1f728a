"""Runs over HTTP: send a message, follow its run from any position, cancel it."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, TypedDict, Unpack

import anyio

from turntree.client.connection import PAUSES_S, HttpConnection
from turntree.client.documents import read_document
from turntree.client.problems import error_of
from turntree.core.errors import ServerUnavailable, TurnFailed
from turntree.core.ids import TurnId
from turntree.core.value import Facet, value
from turntree.wire.runs import (
    CanceledRun,
    ChunkDocument,
    QueuedRun,
    RunDocument,
    RunPage,
    RunState,
    SendPreview,
    SessionRuns,
    StepDocument,
)
from turntree.wire.threads import TurnDocument

CUTS_MAX: Final = 8
"""How often a stream may be cut in a row without a message in between."""


class MessageOptions(TypedDict, total=False):
    """Options of a message that a server takes."""

    agent: str
    """The agent that answers, by name; without one, the session decides."""
    model: str
    situation: str
    prompt: str
    """Instructions of this turn alone, instead of the session's."""
    fold: bool
    """Whether it joins the message before it, if no run has started with that one."""


@value
class RunNews:
    """What happened in a run, and the position after it."""

    position: str
    news: StepDocument | ChunkDocument


@value
class RunsApi(Facet):
    """The facet ``client.runs``."""

    http: HttpConnection

    async def post(
        self,
        target: str,
        said: str,
        *,
        key: str | None = None,
        expected_head: str | None = None,
        **asked: Unpack[MessageOptions],
    ) -> QueuedRun:
        """Send a message and return the run that answers it, at once.

        The same ``key`` sends it once, however often and whenever it is repeated.

        Raises:
            Conflict: The session has another head than was expected.
            NotFound: The target names nothing.
            PermissionDenied: The key may not send there.
        """
        body = {"to": target, "text": said, "expected_head": expected_head, **asked}
        return await self.http.post("/runs", QueuedRun, body, idempotency_key=key)

    async def preview(
        self, target: str, *, model: str | None = None, agent: str | None = None
    ) -> SendPreview:
        """Return where a message would go, and what would answer it; nothing is sent.

        Raises:
            NotFound: The target names nothing.
        """
        values = {"to": target, "model": model, "agent": agent}
        return await self.http.get("/runs/preview", SendPreview, values)

    async def list_unfinished(self, session: str) -> SessionRuns:
        """Return the messages of a session that are not answered yet, and the last if it failed.

        Raises:
            NotFound: No such session.
        """
        return await self.http.get("/sessions/{session}/runs", SessionRuns, session=session)

    async def get(self, run: str) -> RunDocument:
        """Return what became of a run.

        Raises:
            NotFound: There is no such run, or it is hidden.
        """
        return await self.http.get("/runs/{run}", RunDocument, run=run)

    async def status(self, run: str) -> RunState:
        """Return the state of a run.

        Raises:
            NotFound: There is no such run, or it is hidden.
        """
        return (await self.get(run)).status

    async def list_open(
        self, session: str | None = None, *, after: str | None = None, limit: int | None = None
    ) -> RunPage:
        """Return a page of runs that are not finished; ``after`` is the ``next`` before it."""
        values = {"session": session, "cursor": after, "limit": limit}
        return await self.http.get("/runs", RunPage, values)

    async def follow(self, of: str, *, after: str = "") -> AsyncGenerator[RunNews, None]:
        """Yield what happens in a run until it is finished, each with a position.

        A stream that is cut resumes after the last message, so that none is missing or doubled.
        A caller that was cut off does the same with ``after``.

        Raises:
            NotFound: There is no such run, or it is hidden.
            ServerUnavailable: The server stays away.
        """
        cuts = 0
        while True:
            lost: ServerUnavailable | None = None
            try:
                async with aclosing(
                    self.http.stream("/runs/{run}/events", after=after, run=of)
                ) as messages:
                    async for message in messages:
                        after, cuts = message.id or after, 0
                        match message.event:
                            case "step":
                                yield RunNews(after, read_document(StepDocument, message.data))
                            case "chunk":
                                yield RunNews(after, read_document(ChunkDocument, message.data))
                            case "problem":
                                raise error_of(message.data, message.data["status"])
                            case "end":
                                return
                            case _:
                                pass  # A newer server may tell more.
            except ServerUnavailable as error:
                lost = error
            # A server that stops ends its streams; another one, or its successor, takes over.
            cuts += 1
            if cuts > CUTS_MAX:
                raise lost or ServerUnavailable("the server ends the stream again and again")
            await anyio.sleep(PAUSES_S[min(cuts, len(PAUSES_S)) - 1])

    async def wait(self, run: str, *, timeout_s: float | None = None) -> TurnDocument:
        """Wait until a run is finished, and return its turn, however that ended.

        Raises:
            NotFound: There is no such run, or it is hidden.
            TimeoutError: It took longer than that.
        """
        with anyio.fail_after(timeout_s):
            async with aclosing(self.follow(run)) as news:
                async for _ in news:
                    pass
            return await self.http.get("/turns/{revision}", TurnDocument, revision=run)

    async def ask(
        self,
        target: str,
        said: str,
        *,
        key: str | None = None,
        timeout_s: float | None = None,
        **asked: Unpack[MessageOptions],
    ) -> TurnDocument:
        """Send a message, wait for its turn, and return it.

        Raises:
            TurnFailed: The turn failed, or was canceled; the message says why.
            TimeoutError: It took longer than that. The same ``key`` returns the turn later.
        """
        queued = await self.post(target, said, key=key, **asked)
        turn = await self.wait(queued.run, timeout_s=timeout_s)
        if turn.outcome != "completed":
            why = f": {turn.reason}" if turn.reason else ""
            raise TurnFailed(f"the turn is {turn.outcome}{why}", TurnId(turn.id))
        return turn

    async def cancel(self, of: str, *, discard: bool = False) -> str | None:
        """Ask a run to end; return it, or None if there was nothing to cancel.

        Raises:
            NotFound: There is no such run, or it is hidden.
        """
        body = {"discard": discard}
        return (await self.http.post("/runs/{run}/cancel", CanceledRun, body, run=of)).run
