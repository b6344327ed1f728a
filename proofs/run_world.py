"""A world in which runs are carried out by processes that die, and nothing else is imagined.

The database, the inbox, the actor and the runner are the real ones. The engine is a list of
wake-ups that survives its processes, as a durable one's do. Times and ids follow from what was
recorded, so two worlds in which one story was told must end in the same picture.

A process dies before or after any of its writes, in the middle of what a model says, before and
after a tool. Or it does not die and is only slow: then another one takes over right there,
finishes, and it comes back as somebody who is no longer in charge.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Literal, TypeVar

import anyio
import anyio.lowlevel

from turntree.domain.canonical import Json
from turntree.domain.ids import Instant, RunId, SessionId, derived_id, instant
from turntree.domain.message import Message, ToolUse, user
from turntree.domain.run import Fact
from turntree.ports.engine import Wake
from turntree.ports.inbox import Pile, Posted, Waiting, Work
from turntree.ports.tools import Occasion
from turntree.runtime.actor import Actor
from turntree.runtime.asking import Asking
from turntree.runtime.attempt import Attempt
from turntree.runtime.calling import Calling
from turntree.runtime.ending import error_of
from turntree.runtime.hub import Hub
from turntree.runtime.runner import Runner
from turntree.store.database import Database
from turntree.store.inbox import PostgresInbox
from turntree.store.ledger import PostgresLedger
from turntree.store.sessions import PostgresReflog, PostgresSessions
from turntree.store.threads import PostgresThreads
from turntree.store.workers import PostgresWorkers
from turntree.testing.scripted_provider import PlainAssembly, ScriptedProvider, ScriptedTools
from turntree.testing.worlds import Crash, DyingLedger

T = TypeVar("T")
Fate = Literal["live", "die before", "die after", "slow"]
BY: Final = "human:ana"
PATIENCE_S: Final = 60.0
_SPAN_MS: Final = 1000


class Fates:
    """Decides at each point of a process's life what becomes of it; when it ends, all is calm."""

    def __init__(self, fates: Iterable[Fate] = ()) -> None:
        """Follow a script."""
        self._fates = iter(fates)
        self.points = 0
        self.deaths = 0
        self.takeovers = 0

    def next(self) -> Fate:
        """Return what happens here."""
        self.points += 1
        return next(self._fates, "live")


def moment(run: RunId, seq: int) -> Instant:
    """Return when a fact of a run is recorded, whoever records it: an id begins with its time."""
    return instant(int(run[:8] + run[9:13], 16) + (seq + 1) * _SPAN_MS)


@dataclass(slots=True)
class DurableWakes:
    """Wake-ups that no death of a process loses. See ``ports.engine``."""

    database: Database
    due: list[Wake] = field(default_factory=list[Wake])

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator["_Transaction", None]:
        """Begin a transaction; what it owes is due once it is committed."""
        async with self.database.lend() as driver:
            transaction = _Transaction(driver)
            yield transaction
        self.due += [wake for wake in transaction.owed if wake not in self.due]

    async def serve(
        self,
        worker: str,
        handle: Callable[[SessionId], Awaitable[None]],
        *,
        at_once: int,
        ready: Callable[[], None],
    ) -> None:
        """Nobody serves here: the story delivers."""
        raise NotImplementedError

    async def stop_taking(self) -> None:
        """Nothing is taken."""

    async def recover(self, dead: Sequence[str]) -> int:
        """Nothing is lost."""
        del dead
        return 0

    async def list_live(self, wakes: Sequence[Wake]) -> set[Wake]:
        """Return those that are due."""
        return {wake for wake in wakes if wake in self.due}

    async def prune(self, *, before: Instant) -> int:
        """Nothing is kept."""
        del before
        return 0


@dataclass(frozen=True, slots=True)
class _Transaction:
    driver: object
    owed: list[Wake] = field(default_factory=list[Wake])

    async def wake(self, session: SessionId, number: int, *, delay_s: float = 0.0) -> None:
        """Have a session handled once this is committed."""
        del delay_s
        self.owed.append((session, number))


@dataclass(slots=True)
class Life:
    """One process: at each point it may die, or be overtaken."""

    fates: Fates
    overtake: Callable[[], Awaitable[None]]
    is_dead: bool = False

    async def write(self, act: Callable[[], Awaitable[T]], *, alone: bool = True) -> T:
        """Carry a write out and return what it led to, if the process lives to see it.

        Nobody overtakes one that is not ``alone``: of two tools at once the other would go on
        meanwhile, and which result comes first would be a matter of luck.

        Raises:
            Crash: It died. The other tasks of a dead process do nothing any more either.
        """
        if self.is_dead:
            raise Crash
        fate = self.fates.next()
        if fate == "slow" and alone:
            self.fates.takeovers += 1
            await self.overtake()
        if fate == "die before":
            self.die()
        result = await act()
        if fate == "die after":
            self.die()
        return result

    async def pass_by(self) -> None:
        """Come past a point where nothing is written."""
        await self.write(anyio.lowlevel.checkpoint)

    async def pass_in_tool(self, *_: object) -> None:
        """Come past a point inside of a tool."""
        await self.write(anyio.lowlevel.checkpoint, alone=False)

    def die(self) -> None:
        """End here.

        Raises:
            Crash: Always.
        """
        self.is_dead = True
        self.fates.deaths += 1
        raise Crash


@dataclass(frozen=True, slots=True)
class MortalInbox:
    """The real inbox, in the hands of somebody who may die. See ``ports.inbox``."""

    inbox: PostgresInbox
    life: Life

    async def post(
        self,
        session: SessionId,
        message: Message,
        *rest: Message,
        by: str,
        at: Instant,
        key: str | None = None,
        options: Mapping[str, Json] | None = None,
    ) -> Posted:
        """Take messages in, or die."""
        return await self.life.write(
            lambda: self.inbox.post(session, message, *rest, by=by, at=at, key=key, options=options)
        )

    async def next_work(self, session: SessionId, *, worker: str) -> Work:
        """Ask what is to be done, or die."""
        return await self.life.write(lambda: self.inbox.next_work(session, worker=worker))

    async def begin(
        self,
        run: RunId,
        session: SessionId,
        facts: Sequence[Fact],
        messages: Sequence[int],
        *,
        worker: str,
    ) -> int:
        """Begin a run, or die."""
        return await self.life.write(
            lambda: self.inbox.begin(run, session, facts, messages, worker=worker)
        )

    async def append_facts(self, facts: Sequence[Fact], *, epoch: int) -> None:
        """Record facts, or die."""
        await self.life.write(lambda: self.inbox.append_facts(facts, epoch=epoch))

    async def unpark(self, run: RunId, *, by: str, at: Instant, data: Mapping[str, Json]) -> bool:
        """Let a run go on, or die."""
        return await self.life.write(lambda: self.inbox.unpark(run, by=by, at=at, data=data))

    async def cancel(
        self, session: SessionId, *, by: str, at: Instant, discard: bool = False
    ) -> RunId | None:
        """Ask for the end of a run, or die."""
        return await self.life.write(
            lambda: self.inbox.cancel(session, by=by, at=at, discard=discard)
        )

    async def cancel_one(self, run: RunId, *, by: str, at: Instant, discard: bool = False) -> bool:
        """Ask for the end of one run, or die."""
        return await self.life.write(
            lambda: self.inbox.cancel_one(run, by=by, at=at, discard=discard)
        )

    async def note_failure(self, run: RunId, *, epoch: int) -> int:
        """Count a failure, or die."""
        return await self.life.write(lambda: self.inbox.note_failure(run, epoch=epoch))

    async def list_waiting(self, session: SessionId) -> list[Waiting]:
        """Read what waits; reading kills nobody."""
        return await self.inbox.list_waiting(session)

    async def list_piles(self) -> list[Pile]:
        """Read what waits everywhere."""
        return await self.inbox.list_piles()

    async def find_waiting(self, run: RunId) -> Waiting | None:
        """Read whether something waits."""
        return await self.inbox.find_waiting(run)


@dataclass(slots=True)
class RunWorld:
    """A workspace, its wake-ups, and whoever works in it at the moment."""

    database: Database
    fates: Fates
    wakes: DurableWakes = field(init=False)
    actors: list[Actor] = field(default_factory=list[Actor])
    posted: list[RunId] = field(default_factory=list[RunId])
    """Every run there will be, in the order of their messages."""
    _names: "count[int]" = field(default_factory=lambda: count(1))
    _hung: anyio.Event = field(default_factory=anyio.Event)
    _drops: bool = False

    def __post_init__(self) -> None:
        """Begin without anything due."""
        self.wakes = DurableWakes(self.database)

    @property
    def inbox(self) -> PostgresInbox:
        """The inbox, in the hands of nobody in particular."""
        return PostgresInbox(self.database, self.wakes)

    @property
    def ledger(self) -> PostgresLedger:
        """The ledger."""
        return PostgresLedger(self.database)

    @property
    def threads(self) -> PostgresThreads:
        """The threads."""
        return PostgresThreads(self.database)

    @property
    def sessions(self) -> PostgresSessions:
        """The sessions."""
        return PostgresSessions(self.database)

    @property
    def reflog(self) -> PostgresReflog:
        """The reflogs."""
        return PostgresReflog(self.database)

    async def surely(self, act: Callable[[Life], Awaitable[None]]) -> None:
        """Have a client do something, again and again if it dies over it."""
        while True:
            life = Life(self.fates, anyio.lowlevel.checkpoint)
            error = await error_of(_called(act, life))
            if error is None:
                return
            if not isinstance(error, Crash):
                raise error

    async def settle(self) -> None:
        """Deliver every wake-up that is due, until nothing is left to do."""
        while self.wakes.due:
            wake = self.wakes.due[0]
            session = wake[0]
            if await self._deliver(session):
                self.wakes.due.remove(wake)
                # Engines promise at least once: it may well come a second time.
                if self.fates.next() != "live":
                    while not await self._deliver(session):
                        pass

    async def _deliver(self, session: SessionId) -> bool:
        """Have a new process handle a session; say whether it lived to the end of it."""
        self._hung = anyio.Event()
        ended: list[BaseException | None] = []

        async def handle() -> None:
            ended.append(await error_of(self._actor(session).handle(session)))
            self._hung.set()

        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                group.start_soon(handle)
                while not ended:
                    await self._hung.wait()
                    if not ended:
                        await self._end_hung(session)
        self.actors.clear()
        (error,) = ended
        if error is not None and not isinstance(error, Crash):
            raise error
        return error is None

    async def _end_hung(self, session: SessionId) -> None:
        """Cancel what a model never ends to say, as somebody at a terminal would."""
        self._hung = anyio.Event()
        at = instant(0)
        discard = self._drops

        async def cancel(life: Life) -> None:
            await MortalInbox(self.inbox, life).cancel(session, by=BY, at=at, discard=discard)

        await self.surely(cancel)
        for found in await PostgresWorkers(self.database, self.wakes).list_open(session):
            for actor in self.actors:
                actor.cancel(found.run)

    def _actor(self, session: SessionId) -> Actor:
        """Return a process of its own, with nothing in its memory."""
        name = f"p{next(self._names)}"
        life = Life(self.fates, lambda: self._overtake(session))
        provider = ScriptedProvider(before_piece=lambda piece: self._say(life, piece))

        async def send(use: ToolUse, occasion: Occasion) -> None:
            await self._send(life, use, occasion)

        tools = ScriptedTools(before=life.pass_in_tool, after=send)
        hub, calling = Hub(), Calling((tools,))
        ledger = DyingLedger(self.ledger, life)  # type: ignore[arg-type]
        runner = Runner(
            ledger,
            PlainAssembly(self.threads, provider, calling.specs),
            Asking(hub, lambda: 0.0, lambda: 0.5, _at_once),
            calling,
            hub,
            _approved,
        )
        inbox = MortalInbox(self.inbox, life)
        workers = PostgresWorkers(self.database, self.wakes)
        actor = Actor(name, inbox, workers, ledger, runner, moment)
        self.actors.append(actor)
        return actor

    async def _overtake(self, session: SessionId) -> None:
        """Have another process handle a session to its end, while one is in the middle of it."""
        rival = self._actor(session)
        error: BaseException | None = Crash()
        try:
            error = await error_of(rival.handle(session))
        finally:
            # It had been woken up as well; if it did not come to an end, that is delivered again.
            if error is not None:
                self.wakes.due.append((session, -next(self._names)))
        if error is not None and not isinstance(error, Crash):
            raise error

    async def _say(self, life: Life, piece: str) -> None:
        await life.pass_by()
        if piece.startswith(("hang", "drop")):
            self._drops = piece.startswith("drop")
            self._hung.set()
            await anyio.sleep_forever()

    async def _send(self, life: Life, use: ToolUse, occasion: Occasion) -> None:
        """Send something to the session from within a tool; the key makes it once."""
        args = use.args if isinstance(use.args, dict) else {}
        if "send" in args and occasion.session is not None:
            key = f"{occasion.run}/{use.call_id}"
            posted = await MortalInbox(self.inbox, life).post(
                occasion.session, user("from within"), by=BY, at=moment(occasion.run, 999), key=key
            )
            if posted.run not in self.posted:
                self.posted.append(posted.run)
        await life.pass_in_tool()


async def _approved(attempt: Attempt, uses: Sequence[ToolUse]) -> str | None:
    """Let a call wait that asks for it, once."""
    asks = any(isinstance(use.args, dict) and "ask" in use.args for use in uses)
    unparked = sum(1 for fact in attempt.facts if fact.event.kind == "run_unparked")
    parked = sum(1 for fact in attempt.facts if fact.event.kind == "run_parked")
    waited = parked > 0 and parked == unparked
    return "approval" if asks and not waited else None


async def _at_once(pause_s: float) -> None:
    del pause_s
    await anyio.lowlevel.checkpoint()


async def _called(act: Callable[[Life], Awaitable[None]], life: Life) -> None:
    await act(life)


def session_id(label: str) -> SessionId:
    """Return the id that a session of a label has in every world."""
    return SessionId(derived_id(0, "session", label))
