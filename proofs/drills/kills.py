"""Writers that end with ``kill -9`` before or after each of their statements, then ask again.

The second attempt comes from another process under the same key. Wherever the first one died, the
ledger must hold what was asked for exactly once.
"""

import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import anyio

from proofs.drills.audit import audit_session
from proofs.drills.hooks import COMMIT, WRITES, open_hooked
from proofs.drills.processes import clean_context
from turntree.core.ids import Label, SessionId, TurnId, WorkspaceId
from turntree.core.message import assistant, user
from turntree.core.principal import Principal
from turntree.core.session import MoveKind
from turntree.core.thread import MoveResult
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, open_database, prepare_database
from turntree.ledger.recorder import Recorder
from turntree.ledger.session_store import SessionStore
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.system.clock import SystemClock

BY = Principal("human", "mortal")
AT_ONCE = 3
TURNS_BEFORE = 3
WORLD = SystemClock()

When = Literal["before", "after"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What a writer is asked to do, and to what."""

    conninfo: str
    workspace: WorkspaceId
    session: SessionId
    command: str
    key: str


@dataclass(frozen=True, slots=True)
class Killed:
    """How many deaths there were, and what they left behind."""

    points: int
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Point:
    """A place in a command where a process may die."""

    command: str
    at: int
    """Counts writes and commits, from 1."""
    when: When


@dataclass(slots=True)
class Witness:
    """Notes every point that a command passes. A hook of its connection."""

    command: str
    count: int = 0
    passed: list[Point] = field(default_factory=list[Point])

    async def before(self, statement: str) -> None:
        """Count a write; what only reads has nothing to lose."""
        if statement in (*WRITES, COMMIT):
            self.count += 1
            await self.pass_by(Point(self.command, self.count, "before"))

    async def after(self, statement: str) -> None:
        """Pass the point after a write; there is none if the write was refused."""
        if statement in (*WRITES, COMMIT):
            await self.pass_by(Point(self.command, self.count, "after"))

    async def pass_by(self, point: Point) -> None:
        """Note a point."""
        self.passed.append(point)


@dataclass(slots=True)
class Executioner(Witness):
    """Ends the process at one point."""

    last: Point | None = None

    async def pass_by(self, point: Point) -> None:
        """End here, if this is the point."""
        if point == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


async def kill_everywhere(conninfo: str) -> Killed:
    """Kill a writer at every point of every command and let another one ask again."""
    workspace = await prepare_database(conninfo, "kills", WORLD.new_id())
    points, problems = list[Point](), list[str]()
    limiter = anyio.CapacityLimiter(AT_ONCE)
    async with open_database(
        conninfo, workspace, connections_max=AT_ONCE, sight=EVERYTHING
    ) as database:
        for command in COMMANDS:
            witness = Witness(command)
            asked = Asked(conninfo, workspace, await _begin(database), command, command)
            await _do_hooked(asked, witness)
            points += witness.passed

        async def drill(point: Point) -> None:
            async with limiter:
                key = f"{point.command} {point.at} {point.when}"
                session = await _begin(database)
                asked = Asked(conninfo, workspace, session, point.command, key)
                await _die(asked, point)
                found = await _ask_again(database, asked)
                problems.extend(f"killed at {key}: {problem}" for problem in found)

        async with anyio.create_task_group() as group:
            for point in points:
                group.start_soon(drill, point)
    return Killed(len(points), tuple(problems))


async def _begin(database: Database) -> SessionId:
    id = SessionId(WORLD.new_id())
    await SessionStore(database).create(id, Label(f"s-{id}"), by=str(BY), at=WORLD.now())
    recorder = _recorder(database, id)
    for _ in range(TURNS_BEFORE):
        await recorder.record([user("q")], [assistant("a")])
    return id


async def _die(asked: Asked, point: Point) -> None:
    """Start a process that dies at a point, and wait for it."""
    process = clean_context().Process(target=_live, args=(asked, point))
    process.start()
    # Not joined in a thread: only one reader may fetch the status, and starting another process
    # fetches that of every earlier one.
    await anyio.wait_readable(process.sentinel)
    process.join()
    if process.exitcode != -signal.SIGKILL:
        raise RuntimeError(f"a writer was to die at {point}, but ended with {process.exitcode}")


def _live(asked: Asked, point: Point) -> None:
    anyio.run(_do_hooked, asked, Executioner(asked.command, last=point))


async def _do_hooked(asked: Asked, hook: Witness) -> None:
    async with open_hooked(asked.conninfo, asked.workspace, hook) as (database, _):
        await COMMANDS[asked.command](database, asked)


async def _ask_again(database: Database, asked: Asked) -> list[str]:
    """Ask twice more under the same key; return what is wrong then."""
    first = await COMMANDS[asked.command](database, asked)
    second = await COMMANDS[asked.command](database, asked)
    problems = [] if first == second else [f"answered {first}, then {second}"]
    session, version = first
    problems += await audit_session(database, session)
    found = await SessionStore(database).get(session)
    began = session != asked.session
    if found.version != version or version != (1 if began else TURNS_BEFORE + 2):
        problems.append(f"version {found.version}, answered {version}")
    if began:
        named = await SessionStore(database).find(f"new-{asked.session}")
        problems += [] if named == found else ["the new session is not the one of that name"]
    return problems


Answer = tuple[SessionId, int]


async def _append(database: Database, asked: Asked) -> Answer:
    """Append through a recorder that knows where its session stands."""
    stands = await SessionStore(database).get(asked.session)
    recorder = _recorder(database, asked.session)
    recorder.head, recorder.head_digest = stands.head, stands.head_digest
    return await _record(recorder, database, asked)


async def _append_overtaken(database: Database, asked: Asked) -> Answer:
    """Append through a recorder that does not, and so has to hold the session."""
    return await _record(_recorder(database, asked.session), database, asked)


async def _record(recorder: Recorder, database: Database, asked: Asked) -> Answer:
    placed = await recorder.record([user("once")], [assistant("only")], key=asked.key)
    # The depth stands for the version: a second turn of that key would be one deeper.
    thread = await ThreadStore(database).list_range(placed.turn.id)
    return asked.session, len(thread) + 1


def _moves(kind: MoveKind) -> "Command":
    async def move(database: Database, asked: Asked) -> Answer:
        target = await _first_turn(database, asked.session)
        moved = await SessionStore(database).move(
            asked.session, kind, target, by=str(BY), at=WORLD.now(), key=asked.key
        )
        return moved.session, moved.version

    return move


async def _create(database: Database, asked: Asked) -> Answer:
    return _begun(await _new(database, asked, None))


async def _fork(database: Database, asked: Asked) -> Answer:
    return _begun(await _new(database, asked, await _first_turn(database, asked.session)))


async def _new(database: Database, asked: Asked, head: TurnId | None) -> MoveResult:
    id, label = SessionId(WORLD.new_id()), Label(f"new-{asked.session}")
    return await SessionStore(database).create(
        id, label, by=str(BY), at=WORLD.now(), head=head, key=asked.key
    )


def _begun(moved: MoveResult) -> Answer:
    return moved.session, moved.version


async def _first_turn(database: Database, session: SessionId) -> TurnId:
    head = (await SessionStore(database).get(session)).head
    assert head is not None, "it had turns before anybody died"
    return (await ThreadStore(database).list_range(head, high=1))[0].turn.id


def _recorder(database: Database, session: SessionId) -> Recorder:
    ledger, threads = Ledger(database), ThreadStore(database)
    return Recorder(ledger, threads, WORLD, BY, session, None, None)


Command = Callable[[Database, Asked], Awaitable[Answer]]
COMMANDS: Mapping[str, Command] = {
    "append": _append,
    "append overtaken": _append_overtaken,
    "create": _create,
    "fork": _fork,
    "rewind": _moves("rewind"),
    "reset": _moves("reset"),
    "undo": _moves("undo"),
}
