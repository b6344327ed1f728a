"""What waking sessions up costs: transactions of a turn, its first delay, runs that only wait.

    python -m proofs.engine_cost [--quick] [--only WORD]

Workers are processes of their own, on DBOS and a durable PostgreSQL, with a model and tools that
take no time: what is measured is everything else. A turn has three model calls and two tool calls.
Everything that happens in the database is counted: polls, beats and sweeps too.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from proofs import figures
from proofs.figures import DURABLE, Proof, load_statements
from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.canonical import Json
from turntree.core.ids import RunId, SessionId, WorkspaceId
from turntree.core.message import user
from turntree.core.viewer import EVERYTHING
from turntree.db.database import (
    Database,
    ensure_database,
    open_database,
    prepare_database,
    sqlalchemy_url,
)
from turntree.runs.engines.dbos import open_dbos
from turntree.runs.inbox_store import InboxStore
from turntree.system.clock import SystemClock

STATEMENTS = load_statements(Path(__file__).with_name("engine_cost.sql"))
SERVER = {**DURABLE, "track_commit_timestamp": "on", "max_connections": "100"}
BY = "human:ana"
TURN = "nod twice"
NOD: Json = {"tools": [{"tool": "nod"}]}
SCRIPT: dict[str, Json] = {
    "provider_type": "scripted",
    "rules": [{"when": TURN, "replies": [NOD, NOD, {"text": "done"}]}],
}
"""Two rounds with a tool each and an answer: three model calls, two tool calls."""
MODEL = "quick"
WRITER = "writer"
TRANSACTIONS_MAX = 22
WITH_FILES_MAX = 26
FIRST_FACT_MAX_MS = 100
PARKED_CPU_MAX = 1.0
SESSIONS = 24
LOOK_S = 0.1
FLUSH_S = 12.0
"""After so long without work every backend has told the server what it counted."""
POSTING_AT_ONCE = 8
PARKING = "risk"
"""A word that asks for a tool whose calls the worker parks."""

Connection = psycopg.AsyncConnection[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Place:
    """A database with a worker, and those who send things in."""

    database: Database
    inbox: InboxStore
    tree: Tree
    owner: Connection
    worker: Process
    world: SystemClock

    async def ask(self, name: str, *params: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        return await (await self.owner.execute(STATEMENTS[name], params or None)).fetchall()

    async def count(self, name: str) -> int:
        """Return the number that a statement gives."""
        ((number,),) = await self.ask(name)
        return int(number)

    async def sessions(self, prefix: str, count: int) -> list[SessionId]:
        """Begin sessions."""
        return [(await self.tree.sessions.create(f"{prefix}-{n}")).id for n in range(count)]

    async def post(self, session: SessionId, text: str = TURN, model: str = MODEL) -> RunId:
        """Send a message."""
        options: dict[str, Json] = {"model": model}
        now = self.world.now()
        return (await self.inbox.post(session, user(text), by=BY, at=now, options=options)).run

    async def wait_until(self, name: str, count: int) -> int:
        """Wait until a number is as large; return how often it was looked."""
        looks = 1
        while await self.count(name) < count:
            await asyncio.sleep(LOOK_S)
            looks += 1
        return looks


async def prove(proof: Proof) -> None:
    """Take every figure."""
    with figures.temporary_server(SERVER) as (server, _):
        if proof.begins("turn"):
            async with place_on(server, "turns") as place:
                await take_latency(proof, place)
                idle = await take_transactions(proof, place)
                await take_transactions_with_files(proof, place, idle)
                await take_speed(proof, place)
        if proof.begins("parked"):
            await take_parked(proof, server)


@asynccontextmanager
async def place_on(server: str, name: str, *flags: str) -> AsyncGenerator[Place, None]:
    """Lend a database in which a worker serves."""
    world = SystemClock()
    conninfo = await ensure_database(server, f"proof_{name}")
    workspace = await prepare_database(conninfo, "proof", world.new_id())
    owner = await psycopg.AsyncConnection[tuple[Any, ...]].connect(conninfo, autocommit=True)
    async with (
        scratch_folder() as home,
        owner,
        open_dbos(sqlalchemy_url(conninfo), workspace) as engine,
        open_database(conninfo, workspace, sight=EVERYTHING) as database,
    ):
        await owner.execute(STATEMENTS["create_bare"])
        inbox = InboxStore(database, engine)
        async with engine.transaction():
            pass  # Whatever is prepared once is prepared now.
        tree = tree_on(database, Settings(home, user="ana", session="main"), world)
        await tree.programs.create("provider", "script", SCRIPT)
        model: dict[str, Json] = {"model_id": "scripted-1", "provider": "@(script)"}
        await tree.programs.create("model", MODEL, model)
        async with working(conninfo, workspace, f"{name}-1", *flags) as worker:
            yield Place(database, inbox, tree, owner, worker, world)


@asynccontextmanager
async def scratch_folder() -> AsyncGenerator[Path, None]:
    """Lend an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@asynccontextmanager
async def working(
    conninfo: str, workspace: WorkspaceId, name: str, *flags: str
) -> AsyncGenerator[Process, None]:
    """Run a worker as long as the block lasts."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "proofs.engine_worker", conninfo, workspace, name, *flags,
        stdin=PIPE, stdout=PIPE,
    )  # fmt: skip
    assert process.stdin is not None, "it was asked for"
    assert process.stdout is not None, "it was asked for"
    try:
        assert await process.stdout.readline() == b"ready\n", "the worker did not come up"
        yield process
    finally:
        process.stdin.close()
        await process.wait()


async def take_latency(proof: Proof, place: Place) -> None:
    """How long it takes from sending a message until the first fact of its run is committed."""
    sessions = await place.sessions("late", 30 if proof.quick else 200)
    turns = await place.count("turns")
    sent: dict[str, float] = {}
    for number, session in enumerate(sessions, start=1):
        begun = time.time()
        sent[await place.post(session)] = begun
        await place.wait_until("turns", turns + number)
    facts = await place.ask("first_facts", list(sent))
    delays = sorted((at - sent[run]) * 1000 for run, at in facts)
    proof.at_most("first fact, p50", statistics.median(delays), "ms", FIRST_FACT_MAX_MS, of="time")
    proof.note("first fact, p95", delays[int(len(delays) * 0.95)], "ms")


async def take_transactions(proof: Proof, place: Place) -> float:
    """How many transactions a turn takes, with its share of everything that is done anyway.

    Returns:
        The transactions per second of a worker that has nothing to do.
    """
    sessions = await place.sessions("counted", SESSIONS)
    idle = await measure_idle(place)
    spent = await count_transactions(proof, place, dict.fromkeys(sessions, TURN), idle)
    proof.at_most("transactions a turn", spent, "transactions", TRANSACTIONS_MAX, of="time")
    proof.note("transactions of an idle worker", idle, "1/s")
    return idle


async def take_transactions_with_files(proof: Proof, place: Place, idle: float) -> None:
    """How many transactions a turn takes whose two calls each write a file of its own folder."""
    with tempfile.TemporaryDirectory() as root:
        sessions = await place.sessions("writing", SESSIONS)
        asked: dict[SessionId, str] = {}
        rules: list[Json] = []
        for number, session in enumerate(sessions):
            folder = tempfile.mkdtemp(dir=root)
            await place.tree.resources.ensure_directory(folder, f"writing-{number}")
            asked[session] = f"write in folder {number:02}"
            write: Json = {"tools": [{"tool": "write", "args": {"path": f"{folder}/notes.txt"}}]}
            rules.append({"when": asked[session], "replies": [write, write, {"text": "done"}]})
        script: dict[str, Json] = {"provider_type": "scripted", "rules": rules}
        await place.tree.programs.create("provider", "writers", script)
        model: dict[str, Json] = {"model_id": "scripted-1", "provider": "@(writers)"}
        await place.tree.programs.create("model", WRITER, model)
        before = await place.count("pinned")
        await asyncio.sleep(FLUSH_S)  # What the preparation took is not the turns'.
        spent = await count_transactions(proof, place, asked, idle, model=WRITER)
        proof.at_most(
            "transactions a turn with files", spent, "transactions", WITH_FILES_MAX, of="time"
        )
        turns = waves_of(proof) * SESSIONS
        pinned = await place.count("pinned") - before
        proof.at_least("turns with both states of their folder", pinned, "turns", turns)


async def measure_idle(place: Place) -> float:
    """Return the transactions per second of a worker that has nothing to do."""
    await asyncio.sleep(FLUSH_S)
    before, begun = await place.count("transactions"), time.monotonic()
    await asyncio.sleep(FLUSH_S)
    return (await place.count("transactions") - before) / (time.monotonic() - begun)


async def count_transactions(
    proof: Proof, place: Place, asked: Mapping[SessionId, str], idle: float, *, model: str = MODEL
) -> float:
    """Return how many transactions a turn takes when sessions are asked in waves."""
    waves = waves_of(proof)
    turns, looks = await place.count("turns"), 0
    before, begun = await place.count("transactions"), time.monotonic()
    for wave in range(1, waves + 1):
        await asyncio.gather(*(place.post(session, text, model) for session, text in asked.items()))
        looks += await place.wait_until("turns", turns + wave * len(asked))
    busy_s = time.monotonic() - begun
    await asyncio.sleep(FLUSH_S)
    rest_s = time.monotonic() - begun - busy_s
    spent = await place.count("transactions") - before - looks - idle * rest_s
    return spent / (waves * len(asked))


def waves_of(proof: Proof) -> int:
    """Return how often each session is asked."""
    return 3 if proof.quick else 12


async def take_speed(proof: Proof, place: Place) -> None:
    """How many turns a worker takes for each bare commit that one connection could make."""
    sessions = await place.sessions("quick", SESSIONS)
    each = 3 if proof.quick else 10
    rates: list[tuple[float, float]] = []
    for _ in range(2 if proof.quick else 5):
        begun = time.perf_counter()
        for _ in range(200):
            await place.owner.execute(STATEMENTS["insert_bare"])
        bare = 200 / (time.perf_counter() - begun)
        turns = await place.count("turns")
        begun = time.perf_counter()
        for _ in range(each):
            await asyncio.gather(*(place.post(session) for session in sessions))
        await place.wait_until("turns", turns + each * len(sessions))
        rates.append((each * len(sessions) / (time.perf_counter() - begun), bare))
    proof.note("turns of a worker", statistics.median(rate for rate, _ in rates), "1/s")
    proof.note(
        "turns for a bare commit", statistics.median(rate / bare for rate, bare in rates), "ratio"
    )


async def take_parked(proof: Proof, server: str) -> None:
    """What runs cost that wait for approval: nothing beyond what an idle worker costs."""
    count, window_s = (300, 20.0) if proof.quick else (10_000, 60.0)
    # The same minute on both sides: whatever else the machine does, it does to both.
    async with (
        place_on(server, "empty", "--parking") as empty,
        place_on(server, "parked", "--parking") as parked,
    ):
        await park(parked, count)
        for place in (empty, parked):
            await asyncio.sleep(1)
            await place.owner.execute(STATEMENTS["analyze"])
        await asyncio.sleep(2 if proof.quick else FLUSH_S)
        before = [await spent_s(place) for place in (empty, parked)]
        begun = time.monotonic()
        await asyncio.sleep(window_s)
        after = [await spent_s(place) for place in (empty, parked)]
        lasted_s = time.monotonic() - begun
        idle, full = (100 * (b - a) / lasted_s for a, b in zip(before, after, strict=True))
        proof.at_least("parked runs", await parked.count("parked"), "runs", count)
        proof.at_most("sessions awake beside them", await parked.count("awake"), "sessions", 0)
        proof.note("an idle worker and its backends", idle, "% of a core")
        proof.at_most(
            "parked runs, beyond that", full - idle, "% of a core", PARKED_CPU_MAX, of="time"
        )


async def park(place: Place, count: int) -> None:
    """Begin runs that wait for approval."""
    sessions = iter(await place.sessions("parked", count))

    async def post_next() -> None:
        for session in sessions:
            await place.post(session, PARKING)

    await asyncio.gather(*(post_next() for _ in range(POSTING_AT_ONCE)))
    await place.wait_until("parked", count)
    await place.wait_until("asleep", count)


async def spent_s(place: Place) -> float:
    """Return how long a worker and all backends of its database have been on a processor."""
    backends = [pid for (pid,) in await place.ask("backends")]
    return sum(_process_ns(pid) for pid in (place.worker.pid, *backends)) / 1e9


def _process_ns(pid: int) -> int:
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_bytes().split()[0]) for thread in threads)


if __name__ == "__main__":
    figures.run(prove, "what waking sessions up costs")
