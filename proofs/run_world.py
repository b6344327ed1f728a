"""A world in which runs are carried out by processes that die, and nothing else is imagined.

The database, the inbox, the actor and the runner are the real ones. The engine is a list of
wake-ups that survives its processes, as a durable one's do. Times and ids follow from what was
recorded, so two worlds in which one story was told must end in the same picture.

A process dies before or after any of its writes, in the middle of what a model says, before and
after a tool. Or it does not die and is only slow: then another one takes over right there, and it
comes back as a process that is no longer in charge, when the other one has finished or while that
one is in the middle of it.

The wake-up goes with the charge, as it does where an engine hands a dead worker's work to another:
when a process dies that is no longer in charge, nothing is delivered again. So a process that gets
a write through after it was overtaken does harm: the one in charge meets a conflict and lets go.
"""

import asyncio
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Final, Literal, TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from turntree.core.canonical import Json
from turntree.core.event import SealedEvent
from turntree.core.ids import RunId, SessionId, Timestamp, TurnId, derived_id, instant
from turntree.core.message import Message, ToolUse, user
from turntree.core.run import RunEvent
from turntree.core.thread import SealResult
from turntree.core.turn import SealedTurn
from turntree.core.usage import ModelCall
from turntree.core.value import value
from turntree.db.database import Database
from turntree.ledger.session_store import ReflogStore, SessionStore
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.policy.evaluate import Evaluator
from turntree.policy.judge import PolicyJudge
from turntree.policy.policy import Policy
from turntree.runs.approving.approval_store import ApprovalStore
from turntree.runs.engine import Wake
from turntree.runs.inbox import Idle, QueuedMessage, ResumeRun, Work
from turntree.runs.inbox_store import InboxStore
from turntree.runs.judging.call_judge import CallJudge
from turntree.runs.live.hub import LiveHub
from turntree.runs.model_call import ModelCaller
from turntree.runs.runner import Runner
from turntree.runs.session_loop import SessionLoop
from turntree.runs.tool_calls import ToolCaller
from turntree.runs.worker_store import WorkerStore
from turntree.sandbox.bubblewrap import Bubblewrap
from turntree.sandbox.monty import MontyLane
from turntree.testing.fakes import Crash, CrashingLedger
from turntree.testing.scripted.provider import EchoProvider, PlainAssembly, ScriptedTools
from turntree.tools.toolset import ToolContext

T = TypeVar("T")
Fate = Literal["live", "die before", "die after", "slow", "give way"]
BY: Final = "human:ana"
PATIENCE_S: Final = 60.0
DEATHS_MAX: Final = 1_000_000
_SPAN_MS: Final = 1000
EVALUATOR: Final = Evaluator(MontyLane(), Bubblewrap)
ASKING: Final = Policy("""
def decide(request):
    if "ask" in request["args"]:
        return {"decision": "ask", "reason": "the call asks for it"}
    return {"decision": "allow", "reason": "nothing is asked"}
""")
"""Lets a call wait that asks for it."""


class Fates:
    """Decides at each point of a process's life what becomes of it; when it ends, all is calm."""

    def __init__(self, fates: Iterable[Fate] = ()) -> None:
        """Follow a script."""
        self._fates = iter(fates)
        self.points = 0
        self.deaths = 0
        self.takeovers = 0
        self.late = 0
        """Writes that were tried by a process while the one in charge was in the middle of it."""

    def next(self) -> Fate:
        """Return what happens here."""
        self.points += 1
        return next(self._fates, "live")


def moment(run: RunId, seq: int) -> Timestamp:
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

    async def prune(self, *, before: Timestamp) -> int:
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
    give_way: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint
    """Lets the one that was overtaken go on first."""
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
        if fate == "give way" and alone:
            await self.give_way()
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


@dataclass(slots=True)
class Charge:
    """Who is in charge of a session: the process that took it last. One for each process."""

    world: "RunWorld"
    session: SessionId
    name: str
    is_overtaken: bool = False
    goes_on: anyio.Event = field(default_factory=anyio.Event)
    """It need not wait any longer for the process that overtook it last."""
    left: anyio.Event = field(default_factory=anyio.Event)
    """The process has ended, this way or that."""

    @property
    def is_held(self) -> bool:
        """Whether this process is the one."""
        return self.world.in_charge.get(self.session) == self.name

    def take(self) -> None:
        """Be in charge from now on."""
        self.world.in_charge[self.session] = self.name

    async def watch(
        self,
        run: RunId,
        epoch: int | None,
        act: Callable[[], Awaitable[T]],
        is_new: Callable[[T], bool],
    ) -> T:
        """Write to a run; what a process wrote that is not in charge is told of.

        The epoch decides, not the order in which answers came back: of two processes that ask at
        once, the database may give the run to the one that hears of it first.
        """
        is_late = epoch is not None and epoch < self.world.epochs.get(run, 0)
        if is_late:
            self.world.fates.late += self.world.paused > 0
        result = await act()
        if is_late and is_new(result):
            self.world.strays.append(f"{self.name} wrote to {run}, which was taken over from it")
        return result


@value
class WatchedLedger(CrashingLedger):
    """The real ledger, which tells of turns that are sealed by a process not in charge."""

    charge: Charge

    async def seal(
        self,
        sealed: SealedTurn,
        parent: TurnId | None,
        *,
        by: str,
        at: Timestamp,
        session: SessionId | None = None,
        calls: Sequence[ModelCall] = (),
        journal: Sequence[SealedEvent] = (),
        epoch: int | None = None,
        key: str | None = None,
    ) -> SealResult:
        """Store a turn, or die."""
        ledger = self.charge.world.ledger
        return await self.dying.write(
            lambda: self.charge.watch(
                RunId(sealed.turn.id),
                epoch,
                lambda: ledger.seal(
                    sealed, parent, by=by, at=at, session=session, calls=calls, journal=journal,
                    epoch=epoch, key=key,
                ),
                lambda stored: not stored.repeated,
            )
        )  # fmt: skip


@value
class MortalInbox(InboxStore):
    """The inbox of a process that may die at each write; reading kills no process."""

    life: Life
    charge: Charge | None = None
    """None for a client, who looks after no session."""

    async def post(
        self,
        session: SessionId,
        message: Message,
        *rest: Message,
        by: str,
        at: Timestamp,
        key: str | None = None,
        options: Mapping[str, Json] | None = None,
    ) -> QueuedMessage:
        """Take messages in, or die."""
        return await self.life.write(
            lambda: InboxStore.post(
                self, session, message, *rest, by=by, at=at, key=key, options=options
            )
        )

    async def next_work(self, session: SessionId, *, worker: str) -> Work:
        """Ask what is to be done, or die."""

        async def ask() -> Work:
            work = await InboxStore.next_work(self, session, worker=worker)
            if self.charge is not None and not isinstance(work, Idle):
                self.charge.take()
                if isinstance(work, ResumeRun):
                    self.charge.world.heard_of(work.run, work.epoch)
            return work

        return await self.life.write(ask)

    async def begin(
        self,
        run: RunId,
        session: SessionId,
        facts: Sequence[RunEvent],
        messages: Sequence[int],
        *,
        worker: str,
    ) -> int:
        """Begin a run, or die. Of two who were given the same messages, the first is in charge."""

        async def begin() -> int:
            epoch = await InboxStore.begin(self, run, session, facts, messages, worker=worker)
            if self.charge is not None:
                self.charge.take()
                self.charge.world.heard_of(run, epoch)
            return epoch

        return await self.life.write(begin)

    async def append_facts(self, facts: Sequence[RunEvent], *, epoch: int) -> bool:
        """Record facts, or die."""

        async def append() -> bool:
            return await InboxStore.append_facts(self, facts, epoch=epoch)

        run, charge = RunId(facts[0].event.stream), self.charge
        return await self.life.write(
            append if charge is None else lambda: charge.watch(run, epoch, append, bool)
        )

    async def cancel(
        self, session: SessionId, *, by: str, at: Timestamp, discard: bool = False
    ) -> RunId | None:
        """Ask for the end of a run, or die."""
        return await self.life.write(
            lambda: InboxStore.cancel(self, session, by=by, at=at, discard=discard)
        )

    async def cancel_one(
        self, run: RunId, *, by: str, at: Timestamp, discard: bool = False
    ) -> bool:
        """Ask for the end of one run, or die."""
        return await self.life.write(
            lambda: InboxStore.cancel_one(self, run, by=by, at=at, discard=discard)
        )

    async def note_failure(self, run: RunId, *, epoch: int) -> int:
        """Count a failure, or die."""
        return await self.life.write(lambda: InboxStore.note_failure(self, run, epoch=epoch))

    async def note_retaken(self, run: RunId, calls: Sequence[str], *, epoch: int) -> dict[str, int]:
        """Count calls as taken over."""
        return await self.life.write(lambda: InboxStore.note_retaken(self, run, calls, epoch=epoch))


@dataclass(slots=True)
class RunWorld:
    """A workspace, its wake-ups, and whoever works in it at the moment."""

    database: Database
    fates: Fates
    wakes: DurableWakes = field(init=False)
    actors: list[SessionLoop] = field(default_factory=list[SessionLoop])
    posted: list[RunId] = field(default_factory=list[RunId])
    """Every run there will be, in the order of their messages."""
    in_charge: dict[SessionId, str] = field(default_factory=dict[SessionId, str])
    epochs: dict[RunId, int] = field(default_factory=dict[RunId, int])
    """The latest epoch of each run that a process was given."""
    strays: list[str] = field(default_factory=list[str])
    """What got through that must not: what a process wrote that was no longer in charge, and words
    under a key of others."""
    mistakes: int = 0
    """Messages that were sent under a key of others."""
    paused: int = 0
    """How many processes wait for an older one, in the middle of what they took over."""
    _group: TaskGroup | None = None
    _names: "count[int]" = field(default_factory=lambda: count(1))
    _news: anyio.Event = field(default_factory=anyio.Event)
    """A process has ended or hangs."""
    _working: int = 0
    _hangs: bool = False
    _drops: bool = False

    def __post_init__(self) -> None:
        """Begin without anything due."""
        self.wakes = DurableWakes(self.database)

    @property
    def inbox(self) -> InboxStore:
        """The inbox, in the hands of nobody in particular."""
        return InboxStore(self.database, self.wakes)

    def mortal_inbox(self, life: Life, charge: Charge | None = None) -> MortalInbox:
        """Return the inbox of a process that may die."""
        return MortalInbox(self.database, self.wakes, life, charge)

    @property
    def ledger(self) -> Ledger:
        """The ledger."""
        return Ledger(self.database)

    @property
    def approvals(self) -> ApprovalStore:
        """The approvals."""
        return ApprovalStore(self.database, self.wakes)

    @property
    def threads(self) -> ThreadStore:
        """The threads."""
        return ThreadStore(self.database)

    @property
    def sessions(self) -> SessionStore:
        """The sessions."""
        return SessionStore(self.database)

    @property
    def reflog(self) -> ReflogStore:
        """The reflogs."""
        return ReflogStore(self.database)

    def heard_of(self, run: RunId, epoch: int) -> None:
        """Note that a process was given a run."""
        self.epochs[run] = max(epoch, self.epochs.get(run, 0))

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
        """Have a new process handle a session; say whether it lived, or left it to another."""
        charge = self._charge(session)
        lived: list[bool] = []

        async def handle() -> None:
            lived.append(await self._handle(charge, None))
            self._working -= 1
            self._news.set()

        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as group:
                self._group, self._working, self._hangs = group, 1, False
                group.start_soon(handle)
                while self._working:
                    self._news = anyio.Event()
                    if self._hangs:
                        self._hangs = False
                        await self._end_hung(session)
                    else:
                        await self._news.wait()
        self.actors.clear()
        return lived == [True]

    async def _handle(self, charge: Charge, older: Charge | None) -> bool:
        """Be a process; say whether its wake-up is done with."""
        try:
            error = await error_of(self._actor(charge, older).handle(charge.session))
        finally:
            charge.left.set()
        if error is not None and not isinstance(error, Crash):
            raise error
        return error is None or (charge.is_overtaken and not charge.is_held)

    async def _end_hung(self, session: SessionId) -> None:
        """Cancel what a model never ends to say, as somebody at a terminal would."""
        at = instant(0)
        discard = self._drops

        async def cancel(life: Life) -> None:
            await self.mortal_inbox(life).cancel(session, by=BY, at=at, discard=discard)

        await self.surely(cancel)
        for found in await WorkerStore(self.database, self.wakes).list_open(session):
            for actor in self.actors:
                actor.cancel(found.run)

    def _charge(self, session: SessionId) -> Charge:
        return Charge(self, session, f"p{next(self._names)}")

    def _actor(self, charge: Charge, older: Charge | None) -> SessionLoop:
        """Return a process of its own, with nothing in its memory."""
        life = Life(
            self.fates,
            lambda: self._overtake(charge),
            anyio.lowlevel.checkpoint if older is None else lambda: self._give_way(older),
        )
        provider = EchoProvider(before_piece=lambda piece: self._say(life, piece))

        async def send(use: ToolUse, occasion: ToolContext) -> None:
            await self._send(life, use, occasion)

        tools = ScriptedTools(before=life.pass_in_tool, after=send)
        hub, calling = LiveHub(), ToolCaller((tools,))
        ledger = WatchedLedger(self.database, life, charge)  # type: ignore[arg-type]
        runner = Runner(
            ledger,
            PlainAssembly(self.threads, provider, calling.specs),
            ModelCaller(hub, lambda: 0.0, lambda: 0.5, _at_once),
            calling,
            hub,
            CallJudge(PolicyJudge(EVALUATOR, _find_policy), self.approvals.of_run),
            # A story kills whom it likes: what comes out must not depend on how often.
            retaken_max=DEATHS_MAX,
        )
        inbox = self.mortal_inbox(life, charge)
        workers = WorkerStore(self.database, self.wakes)
        actor = SessionLoop(charge.name, inbox, workers, ledger, runner, moment)
        self.actors.append(actor)
        return actor

    async def _overtake(self, older: Charge) -> None:
        """Have another process handle a session, while one is in the middle of it.

        The older one goes on when the other has come to its end, or gives way to it.
        """
        older.is_overtaken, older.goes_on = True, anyio.Event()
        charge, goes_on = self._charge(older.session), older.goes_on

        async def handle() -> None:
            try:
                # It had been woken up as well; if it did not come to an end, that is due again.
                if not await self._handle(charge, older):
                    self.wakes.due.append((charge.session, -next(self._names)))
            finally:
                goes_on.set()
                self._working -= 1
                self._news.set()

        assert self._group is not None, "processes work while a wake-up is delivered"
        self._working += 1
        self._group.start_soon(handle)
        await _wait_in_any_case(goes_on)

    async def _give_way(self, older: Charge) -> None:
        """Let the process that was overtaken go on to its end first."""
        if older.goes_on.is_set():
            return
        self.paused += 1
        older.goes_on.set()
        await _wait_in_any_case(older.left)
        self.paused -= 1

    async def _say(self, life: Life, piece: str) -> None:
        await life.pass_by()
        if piece.startswith(("hang", "drop")):
            self._drops = piece.startswith("drop")
            self._hangs = True
            self._news.set()
            await anyio.sleep_forever()

    async def _send(self, life: Life, use: ToolUse, occasion: ToolContext) -> None:
        """Send something to the session from within a tool; the key makes it once."""
        args = use.args if isinstance(use.args, dict) else {}
        if "send" in args and occasion.session is not None:
            key = f"{occasion.run}/{use.call_id}"
            posted = await self.mortal_inbox(life).post(
                occasion.session, user("from within"), by=BY, at=moment(occasion.run, 999), key=key
            )
            if posted.run not in self.posted:
                self.posted.append(posted.run)
        await life.pass_in_tool()


async def _find_policy(agent: str | None) -> Policy:
    del agent
    return ASKING


async def _wait_in_any_case(event: anyio.Event) -> None:
    """Wait, as a process does that is stopped: it hears of nothing meanwhile."""
    with anyio.move_on_after(PATIENCE_S, shield=True):
        await event.wait()


async def _at_once(pause_s: float) -> None:
    del pause_s
    await anyio.lowlevel.checkpoint()


async def _called(act: Callable[[Life], Awaitable[None]], life: Life) -> None:
    await act(life)


def session_id(label: str) -> SessionId:
    """Return the id that a session of a label has in every world."""
    return SessionId(derived_id(0, "session", label))


async def error_of(act: Coroutine[object, object, None]) -> BaseException | None:
    """Await a coroutine and return what it raised, or None: even the death of its process."""
    (ended,) = await asyncio.gather(act, return_exceptions=True)
    return ended
