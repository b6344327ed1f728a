"""``/runs``: what became of a message, and following it while it is answered."""

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator
from typing import Annotated, Final

from annotated_types import Ge, Le

from turntree.core.errors import InvalidOperation, NotFound, TurntreeError
from turntree.core.ids import RunId, SessionId, Timestamp, find_long_id, is_instant
from turntree.core.message import Message, ObjectRef
from turntree.core.run import RunEvent
from turntree.core.value import value
from turntree.runs.follow import RunFollower
from turntree.runs.inbox import OpenRun, RunReport
from turntree.runs.live.stream import LiveChunk, StreamPosition, position_after
from turntree.server.access.rights import READ
from turntree.server.context import ServerContext
from turntree.server.problems import problem_of
from turntree.server.reads.parts import PartObjects, message_document
from turntree.server.reads.turn_documents import OBJECT_BYTES_READ
from turntree.server.route import ApiRoute
from turntree.server.stream import encode
from turntree.wire.runs import ChunkDocument, OpenRunDocument, RunDocument, RunPage, StepDocument

RUNS_DEFAULT: Final = 50
RUNS_MAX: Final = 200
TICK_S: Final = 0.5
"""How often a stream looks whether the server is about to stop."""
ADMITTED_S: Final = 0.5
"""Nothing is sent later than this after the last check that the reader may still read it."""
COMMENT_S: Final = 15.0
"""A comment is sent this often, so that no proxy takes the stream for dead."""
FRAMES_MAX: Final = 64
"""Messages that may wait for a client that reads slowly; the run is read no faster than that."""


@value
class RunsQuery:
    """Which runs."""

    session: str | None = None
    limit: Annotated[int, Ge(1), Le(RUNS_MAX)] = RUNS_DEFAULT
    cursor: str | None = None


@value
class RunQuery:
    """A run, by its address."""

    run: str


@value
class FollowQuery:
    """A run to follow, and the position after which."""

    run: str
    after: str = ""
    last_event_id: str = ""


async def list_runs(context: ServerContext, asked: RunsQuery) -> RunPage:
    """Return runs that are open or parked, oldest first."""
    found = await context.tree.runs.list_open(
        asked.session, after=_read_cursor(asked.cursor), limit=asked.limit + 1
    )
    page = found[: asked.limit]
    documents = tuple(
        OpenRunDocument(one.run, one.session, one.status, one.started_at, one.is_canceled)
        for one in page
    )
    last = page[-1] if len(found) > asked.limit else None
    return RunPage(documents, None if last is None else f"{last.run}@{last.started_at}")


async def get_run(context: ServerContext, asked: RunQuery) -> RunDocument:
    """Return what became of a run.

    Raises:
        NotFound: There is no such run, or it is hidden.
    """
    return run_document(context, await context.tree.runs.get(read_run(asked.run)))


async def follow_run(context: ServerContext, asked: FollowQuery) -> AsyncGenerator[bytes, None]:
    """Return the events and the text of a run, from a position on, until it is finished.

    The id of each message is the position after it. The last message is ``end``, with what became
    of the run, unless the server stops or the reader may no longer read.

    Raises:
        NotFound: There is no such run, or it is hidden.
        InvalidOperation: It is not a position.
    """
    run = read_run(asked.run)
    told = asked.last_event_id or asked.after
    after = StreamPosition.parse(told) if told else StreamPosition()
    # Before the stream begins, so that an unknown run is a problem and not an empty stream.
    await context.tree.runs.get(run)
    return _send(context, run, after)


async def _send(
    context: ServerContext, run: RunId, after: StreamPosition
) -> AsyncGenerator[bytes, None]:
    frames: asyncio.Queue[bytes | None] = asyncio.Queue(FRAMES_MAX)
    # One task reads: what it waits for belongs to the task that entered it.
    reading = asyncio.create_task(_read(context, run, after, frames))
    admitted_at = sent_at = time.monotonic()
    try:
        while True:
            frame: bytes | None = b""
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK_S):
                    frame = await frames.get()
            now = time.monotonic()
            if frame == b"" and now >= sent_at + COMMENT_S:
                frame = b": here\n\n"
            # One that failed has put no end: its error is raised below, and the stream is cut.
            if frame is None or context.is_draining() or (frame == b"" and reading.done()):
                return
            # A stream without news asks nothing of the database.
            if frame and now >= admitted_at + ADMITTED_S:
                if not await _is_admitted(context, run):
                    return
                admitted_at = now
            if frame:
                yield frame
                sent_at = now
    finally:
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading


async def _read(
    context: ServerContext,
    run: RunId,
    after: StreamPosition,
    frames: "asyncio.Queue[bytes | None]",
) -> None:
    runs, sealed = context.tree.runs, dict[str, Message]()
    try:
        async with contextlib.aclosing(runs.follow(run, after=after)) as news:
            async for one in news:
                if isinstance(one, LiveChunk):
                    await frames.put(_frame_chunk(one))
                    continue
                # Once the run is finished, its turn has what its events said.
                sealed = sealed or await RunFollower(runs).find_sealed(run, one)
                message = one.message or sealed.get(str(one.event.data.get("message")))
                await frames.put(await _frame_step(context, one, message))
        await frames.put(encode("end", run_document(context, await runs.get(run))))
    except TurntreeError as error:
        await frames.put(
            encode("problem", problem_of(error, context.command_for, is_local=context.is_local))
        )
    await frames.put(None)


async def _is_admitted(context: ServerContext, run: RunId) -> bool:
    try:
        if not await context.is_admitted():
            return False
        await context.tree.runs.get(run)
    except TurntreeError:
        # Hidden meanwhile, or the database does not answer: the client comes back and is told.
        return False
    return True


def _frame_chunk(news: LiveChunk) -> bytes:
    chunk = ChunkDocument(
        news.kind, news.position.seq, _sendable(news.text), news.tool, news.call_id
    )
    return encode("chunk", chunk, str(position_after(news)))


async def _frame_step(context: ServerContext, news: RunEvent, message: Message | None) -> bytes:
    event, document = news.event, None
    if message is not None:
        lifted = sorted({part.object for part in message.parts if isinstance(part, ObjectRef)})
        ledger = context.tree.ledger
        read = await ledger.list_objects(lifted, bytes_max=OBJECT_BYTES_READ) if lifted else {}
        document = message_document(message, event.seq, PartObjects(read), {})
    call = event.data.get("call_id")
    step = StepDocument(
        event.kind, event.seq, event.at,
        None if message is None else message.role,
        "" if message is None else _sendable(message.text),
        str(event.data.get("reason") or ""),
        document,
        None if call is None else str(call),
    )  # fmt: skip
    return encode("step", step, str(position_after(news)))


def _sendable(text: str) -> str:
    """Return a text that can be encoded: a tool may have cut a character in half."""
    return text.encode("utf-8", "replace").decode()


def run_document(context: ServerContext, report: RunReport) -> RunDocument:
    """Return what became of a run as a document."""
    step = None if report.hint is None else context.command_for(report.hint)
    steps = () if step is None else (step,)
    if report.turn is None:
        return RunDocument(report.run, report.status, reason=report.reason, next=steps)
    turn = report.turn.turn
    return RunDocument(
        report.run, report.status, turn.header.outcome, turn.digest, report.turn.depth,
        report.reason, steps,
    )  # fmt: skip


def read_run(text: str) -> RunId:
    """Return the address of a run.

    Raises:
        NotFound: It is not one.
    """
    if (run := find_long_id(text)) is None:
        raise NotFound(f"there is no run {text[:80]!r}")
    return RunId(run)


def _read_cursor(text: str | None) -> OpenRun | None:
    if text is None:
        return None
    run, _, moment = text.partition("@")
    if find_long_id(run) != run or not is_instant(moment):
        raise InvalidOperation(f"{text[:80]!r} is not a cursor")
    # A page begins after an address and a time; nothing else of the run is looked at.
    return OpenRun(
        RunId(run), SessionId(""), "open", Timestamp(moment), worker=None, is_canceled=False
    )


ROUTES: Final = (
    ApiRoute(
        "GET", "/runs", READ, list_runs, "Runs that are not finished, oldest first.",
        RunsQuery, RunPage, refusals=(404,),
    ),
    ApiRoute("GET", "/runs/{run}", READ, get_run, "What became of a run.", RunQuery, RunDocument),
    ApiRoute(
        "GET", "/runs/{run}/events", READ, follow_run,
        "The events and the text of a run, as server-sent events.",
        FollowQuery, str, media="text/event-stream", headers=("last_event_id",),
        is_bounded=True,
    ),
)  # fmt: skip
