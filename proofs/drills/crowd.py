"""Many writers on one session, and a server that is stopped under them without warning.

Each writer appends one turn after the other, each under a key of its own, and notes when it asked
and when it was answered. If the database does not answer, it asks again under the same key.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import anyio

from proofs.drills.history import Ack
from proofs.drills.processes import workers
from turntree.core.errors import Conflict, DatabaseUnavailable, TurntreeError
from turntree.core.ids import Label, SessionId, TurnId, WorkspaceId
from turntree.core.message import assistant, user
from turntree.core.principal import Principal
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, open_database, prepare_database
from turntree.db.embedded.server import EmbeddedServer
from turntree.ledger.recorder import Recorder
from turntree.ledger.session_store import SessionStore
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.system.clock import SystemClock

BY = Principal("human", "crowd")
PROCESSES = 2
RETRY_S = 0.02
UNREACHABLE_MAX_S = 60.0
STOP = "stop"
WRITES_BETWEEN_STOPS_S = 0.5


@dataclass(frozen=True, slots=True)
class Crowd:
    """Some writers of one process."""

    conninfo: str
    workspace: WorkspaceId
    session: SessionId
    name: str
    """Begins every key, so that two crowds never ask for the same."""
    writers: int
    turns_each: int | None = None
    """None to go on until somebody says stop."""
    flags: Path | None = None
    """A folder in which a crowd says that it writes, and is told when to stop."""
    is_patient: bool = False
    """Whether its writers ask again when they are told of a conflict, which should not happen."""


async def gather(conninfo: str, *, name: str, writers: int) -> Crowd:
    """Return a crowd around a new session."""
    world = SystemClock()
    workspace = await prepare_database(conninfo, "crowds", world.new_id())
    session = SessionId(world.new_id())
    async with open_database(conninfo, workspace, connections_max=1, sight=EVERYTHING) as database:
        await SessionStore(database).create(session, Label(name), by=str(BY), at=world.now())
    return Crowd(conninfo, workspace, session, name, writers)


def split(crowd: Crowd) -> list[Crowd]:
    """Return the crowd as one of its own for each process."""
    part = crowd.writers // PROCESSES
    return [replace(crowd, name=f"{crowd.name}-{n}", writers=part) for n in range(PROCESSES)]


def write_in_processes(crowd: Crowd) -> list[Ack]:
    """Let the crowd write, from several processes, and return what was acknowledged."""
    with workers(PROCESSES) as pool:
        return [ack for acks in pool.map(write_alone, split(crowd)) for ack in acks]


def write_through_stops(
    crowd: Crowd, server: EmbeddedServer, folder: Path, stops: int
) -> list[Ack]:
    """Let the crowd write while the server is stopped and started again, several times."""
    crowds = split(replace(crowd, flags=folder))
    with workers(PROCESSES) as pool:
        futures = [pool.submit(write_alone, part) for part in crowds]
        with _made_in_the_end(folder / STOP):
            while not all((folder / part.name).exists() for part in crowds):
                time.sleep(RETRY_S)
            for _ in range(stops):
                time.sleep(WRITES_BETWEEN_STOPS_S)
                server.stop(mode="immediate")
                server.ensure_running()
            time.sleep(WRITES_BETWEEN_STOPS_S)
        return [ack for future in futures for ack in future.result()]


@contextmanager
def _made_in_the_end(file: Path) -> Iterator[None]:
    try:
        yield
    finally:
        file.touch()


async def write(crowd: Crowd) -> list[Ack]:
    """Let the crowd write from this process and return what was acknowledged."""
    acks: list[Ack] = []
    async with (
        open_database(
            crowd.conninfo, crowd.workspace, connections_max=crowd.writers, sight=EVERYTHING
        ) as database,
        anyio.create_task_group() as group,
    ):
        for number in range(crowd.writers):
            group.start_soon(_writer, database, crowd, number, acks)
    return acks


def write_alone(crowd: Crowd) -> list[Ack]:
    """Let the crowd write in a process of its own."""
    return anyio.run(write, crowd)


async def _writer(database: Database, crowd: Crowd, number: int, acks: list[Ack]) -> None:
    recorder = Recorder(
        Ledger(database), ThreadStore(database), SystemClock(), BY,
        crowd.session, None, None,
    )  # fmt: skip
    excused = (DatabaseUnavailable, Conflict) if crowd.is_patient else (DatabaseUnavailable,)
    written = 0
    while written != crowd.turns_each and not _is_told_to_stop(crowd):
        key = f"{crowd.name}/{number}/{written}"
        began = time.monotonic_ns()
        turn = await _record(recorder, key, excused)
        acks.append(Ack(began, time.monotonic_ns(), turn))
        written += 1
        if crowd.flags is not None and written == 1:
            (crowd.flags / crowd.name).touch()


def _is_told_to_stop(crowd: Crowd) -> bool:
    return crowd.flags is not None and (crowd.flags / STOP).exists()


async def _record(recorder: Recorder, key: str, excused: tuple[type[TurntreeError], ...]) -> TurnId:
    deadline = time.monotonic() + UNREACHABLE_MAX_S
    while True:
        try:
            return (await recorder.record([user(key)], [assistant("ok")], key=key)).turn.id
        except excused:
            if time.monotonic() > deadline:
                raise
            await anyio.sleep(RETRY_S)
