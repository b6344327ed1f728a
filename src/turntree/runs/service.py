"""What can be done with runs: send something in, follow what becomes of it, end it.

Nothing here works on a run; that is a worker's business, in this process or another.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypedDict, Unpack

import anyio

from turntree.core.canonical import Json
from turntree.core.clock import Clock
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.ids import RunId, TurnId, find_long_id
from turntree.core.message import (
    Message,
    check_message,
    lift_parts,
    user,
)
from turntree.core.message_redaction import without_secrets
from turntree.core.principal import Principal
from turntree.core.redaction import BY_FORMAT, Redactor
from turntree.core.run import Done, Run, RunEvent, WaitForUnpark
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.ledger.sessions import Sessions
from turntree.ledger.store_port import LedgerPort
from turntree.ledger.thread_store_port import Threads
from turntree.runs.inbox import FailedRun, Inbox, OpenRun, PendingMessage, QueuedMessage, Workers
from turntree.runs.live import LiveChunk, StreamPosition
from turntree.runs.live_hub import LiveHub

POLL_S = 0.2
"""How often it is looked for what another process recorded."""

FAILED_LAST = 100
"""Among so many of the newest messages to a session it is looked for those that failed."""

UNANSWERED_LAST = 1000
"""Among so many of the newest runs of all sessions."""

RunStatus = Literal["waiting", "open", "parked", "finished"]


class PostOptions(TypedDict, total=False):
    """What a sender may ask for besides an answer."""

    model: str
    situation: str
    params: Mapping[str, Json]
    agent: str
    max_steps: int
    retry_of: TurnId
    """The turn that this one takes again, beside it in the tree."""
    fold: bool


def _nobody(run: RunId) -> bool:  # noqa: ARG001
    return False


@value
class Runs:
    """``tree.runs``: what is being answered."""

    inbox: Inbox
    workers: Workers
    ledger: LedgerPort
    threads: Threads
    sessions: Sessions
    world: Clock
    by: Principal
    hub: LiveHub
    end_here: Callable[[RunId], bool] = _nobody
    """Ends what this process does for a run, if it does anything."""
    poll_s: float = POLL_S
    redactor: Redactor = BY_FORMAT
    """Takes secrets out of what is sent."""

    async def post(
        self,
        session: str,
        said: str | Message | Sequence[Message],
        *,
        key: str | None = None,
        by: Principal | None = None,
        **asked: Unpack[PostOptions],
    ) -> QueuedMessage:
        """Send a message to a session, which begins if there is none; returns at once.

        ``key`` makes the call safe to repeat. ``fold`` lets a message join the one before it, if
        nobody has begun to answer that one. Several messages become the query of one turn. What
        looks like a secret key is taken out before anything is stored, and ``redacted`` says how
        many there were.

        Raises:
            InvalidOperation: The message cannot be sent in, or the key belongs to another one.
        """
        given = [user(said)] if isinstance(said, str) else said
        stands: list[Message] = []
        redacted = 0
        for one in [given] if isinstance(given, Message) else given:
            message, count = without_secrets(one, self.redactor)
            stands.append(await self._take(message))
            redacted += count
        if not stands:
            raise InvalidOperation("a message says something")
        found = await self.sessions.get_or_create(session)
        options = {name: value for name, value in asked.items() if value is not None}
        posted = await self.inbox.post(
            found.id, *stands, by=str(by or self.by), at=self.world.now(), key=key,
            options=_options(options),
        )  # fmt: skip
        return replace(posted, redacted=redacted)

    async def cancel(self, of: str, *, discard: bool = False) -> RunId | None:
        """Ask for the end of what is being answered; None if nothing is.

        ``of`` is a session, or a run's address: then it is this one that ends and no other, even if
        nobody has begun it. ``discard`` leaves the session where it stood, even if a tool had been
        called.

        Raises:
            NotFound: No such session.
        """
        by, at = str(self.by), self.world.now()
        if (one := find_long_id(of)) is not None and await self.sessions.ledger.find(of) is None:
            is_found = await self.inbox.cancel_one(RunId(one), by=by, at=at, discard=discard)
            run = RunId(one) if is_found else None
        else:
            found = await self.sessions.get(of)
            run = await self.inbox.cancel(found.id, by=by, at=at, discard=discard)
        if run is not None:
            # A worker in another process hears of it with its next beat.
            self.end_here(run)
        return run

    async def unpark(self, run: RunId, **data: Json) -> bool:
        """Let a run go on that waits for somebody; False if it does not wait."""
        return await self.inbox.unpark(run, by=str(self.by), at=self.world.now(), data=data)

    async def wait(self, run: RunId, *, timeout_s: float | None = None) -> ThreadTurn:
        """Return the turn that a run leaves, when it has left it.

        Raises:
            TimeoutError: It took longer than that.
        """
        with anyio.fail_after(timeout_s):
            while True:
                news = self.hub.news(run)
                found = await self._find(run)
                if found is not None:
                    return found
                await self.hub.wait(run, since=news, timeout_s=self.poll_s)

    async def follow(
        self, of: str, *, after: StreamPosition | None = None
    ) -> AsyncGenerator[LiveChunk | RunEvent, None]:
        """Yield what a run says and does, from a position on, until it is sealed.

        ``of`` is a run's address, or a session: then its runs are followed one after the other, and
        there is no end. What is recorded comes as facts; what is on its way comes in pieces, and a
        piece of kind ``restart`` takes back those of the event that is being said.

        Raises:
            NotFound: No such session.
        """
        if (run := find_long_id(of)) is not None and await self._is_run(run):
            async for news in self._follow_run(RunId(run), after or StreamPosition()):
                yield news
            return
        async for news in self._follow_session(of):
            yield news

    async def status(self, run: RunId) -> RunStatus:
        """Say how far a run has got; one that nobody has begun is waiting."""
        facts = await self.ledger.facts(run)
        if not facts:
            return "waiting" if await self._find(run) is None else "finished"
        match Run.replay(run, facts).next_step():
            case Done():
                return "finished"
            case WaitForUnpark():
                return "parked"
            case _:
                return "open"

    async def list_open(self, session: str | None = None) -> list[OpenRun]:
        """Return runs that are open or parked, oldest first.

        Raises:
            NotFound: No such session.
        """
        found = None if session is None else await self.sessions.get(session)
        return await self.workers.list_open(None if found is None else found.id)

    async def list_failed(self, session: str | None = None) -> list[FailedRun]:
        """Return which of the newest messages to a session could not be answered, oldest first.

        Without a session it is those of every active one that has not moved since, among the newest
        runs.

        Raises:
            NotFound: No such session.
        """
        if session is None:
            return await self.workers.list_failed(last=UNANSWERED_LAST)
        return await self.workers.list_failed(
            (await self.sessions.get(session)).id, last=FAILED_LAST
        )

    async def list_reasons(self, turns: Sequence[TurnId]) -> dict[TurnId, str]:
        """Return why some turns failed; what no journal says is absent."""
        reasons = await self.workers.list_reasons([RunId(turn) for turn in turns])
        return {TurnId(run): reason for run, reason in reasons.items()}

    async def list_waiting(self, session: str) -> list[PendingMessage]:
        """Return what was sent to a session, has not been begun and was not taken back.

        Raises:
            NotFound: No such session.
        """
        return await self.inbox.list_waiting((await self.sessions.get(session)).id)

    async def find_waiting(self, run: RunId) -> PendingMessage | None:
        """Return the message that a run will begin with, if nobody has begun it."""
        return await self.inbox.find_waiting(run)

    async def _take(self, message: Message) -> Message:
        """Return a message as it is sent in; what is large in it is kept as objects."""
        if message.role not in ("user", "system"):
            raise InvalidOperation(f"a message that is sent in is a user's, not {message.role}'s")
        check_message(message)
        objects: list[bytes] = []
        stands = lift_parts(message, objects)
        for data in objects:
            await self.ledger.put_object(data)
        return stands

    async def _find(self, run: RunId) -> ThreadTurn | None:
        try:
            return await self.threads.get_turn(TurnId(run))
        except NotFound:
            return None

    async def _is_run(self, id: str) -> bool:
        """Say whether an id is a run's; one under which nothing was recorded yet is, too."""
        facts = await self.ledger.facts(id)
        return not facts or facts[0].event.kind == "run.started"

    async def _follow_run(
        self, run: RunId, after: StreamPosition
    ) -> AsyncGenerator[LiveChunk | RunEvent, None]:
        while True:
            news, list_pieces = self.hub.news(run), self.hub.listen(run)
            for fact in await self.ledger.facts(run, after=after.seq):
                # The last words may have come while the facts were read, and the run may have been
                # sealed and forgotten since: they are told before the fact that ends them.
                for live in list_pieces(after):
                    if live.position.seq == fact.event.seq:
                        yield live
                after = StreamPosition(fact.event.seq + 1)
                yield fact
                if fact.event.kind == "run.finished":
                    return
            for live in list_pieces(after):
                # What is recorded is told by the fact; earlier pieces of it are stale.
                if live.position.seq == after.seq:
                    after = live.position
                    yield live
            await self.hub.wait(run, since=news, timeout_s=self.poll_s)

    async def _follow_session(self, name: str) -> AsyncGenerator[LiveChunk | RunEvent, None]:
        session = (await self.sessions.get(name)).id
        seen: set[RunId] = set()
        moves = len(await self.ledger.facts(session))
        while True:
            queue = [run.run for run in await self.workers.list_open(session)]
            queue += [waiting.run for waiting in await self.inbox.list_waiting(session)]
            # A run may have begun and ended since we looked: then the session has moved.
            told = await self.ledger.facts(session, after=moves)
            moves += len(told)
            moved = [
                RunId(str(fact.event.data["after"]))
                for fact in told
                if fact.event.data.get("move") == "advance"
            ]
            fresh = [run for run in dict.fromkeys((*moved, *queue)) if run not in seen]
            for run in fresh:
                seen.add(run)
                async for news in self._follow_run(run, StreamPosition()):
                    yield news
            if not fresh:
                await anyio.sleep(self.poll_s)


def _options(asked: Mapping[str, object]) -> dict[str, Json]:
    """Return what was asked for as it is written down; what was not asked for is absent."""
    found: dict[str, Json] = {}
    for name, option in asked.items():
        if name not in PostOptions.__annotations__:
            raise TypeError(f"post() knows no {name}")
        found[name] = dict(option) if isinstance(option, Mapping) else option  # type: ignore[assignment]
    return found
