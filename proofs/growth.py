"""The claim: what a person does every day costs the same in a small workspace and in a huge one.

A database is filled for each decade, 1,000 turns of 1 KB in many sessions, then ten times as many,
and so on. Each verb is measured as CPU time of client and backend in rounds that go through all
sizes, so that a busy machine slows all of them alike. ``just prove growth`` goes to 100,000 turns,
``--quick`` begins at 10,000, ``--million`` goes on to 1,000,000.
"""

import itertools
import tracemalloc
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from proofs import figures
from proofs.crowd import Crowd
from proofs.figures import Cost, Proof, interleave, measure, median_cpu
from proofs.workload import Exchange, Library, begin, record
from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.ids import TurnId
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, ensure_database, open_database, prepare_database
from turntree.ledger.recorder import Recorder
from turntree.system.clock import SystemClock

STATEMENTS = figures.load_statements(Path(__file__).with_name("growth.sql"))
PAGE = 50
DEPTH = 200
"""Of the thread that is read and compared, in every size."""
LENGTH_MEAN = 12
"""Short enough that even the smallest workspace has a page of sessions."""
PREFIX_CHARS = len("sha256:") + 16
GROWTH_MAX = 1.3
FLAT = {
    "append": 10,
    "log": 4,
    "log of a session": 4,
    "show by a digest's beginning": 10,
    "compare": 6,
    "sessions that hold a turn": 15,
}
"""What should cost the same at any size, and how often it is done in a row."""
REPORTED = {"page of sessions": 8}
"""What is told without a bar: the plan changes on the way. A thousand turns are read whole and
hashed; among more, the sessions of a page are looked up one by one."""

Work = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Workspace:
    """A workspace of a certain size, and someone at work in it."""

    turns: int
    tree: Tree
    pid: int
    """The backend of its only connection."""
    works: dict[str, Work]


async def prove(proof: Proof) -> None:
    """Fill a workspace for each decade and take every figure."""
    decades = [10_000, 100_000] if proof.quick else [1_000, 10_000, 100_000]
    decades += [1_000_000] if "million" in proof.flags else []
    with figures.temporary_server() as (server, folder):
        async with AsyncExitStack() as stack:
            sizes = [
                await stack.enter_async_context(_workspace(proof, server, folder, turns))
                for turns in decades
            ]
            for name, times in (FLAT | REPORTED).items():
                if proof.wants(name):
                    await _take(proof, sizes, name, times)
            if proof.wants("memory"):
                await _take_memory(proof, sizes)
            if proof.wants("fsck"):
                for size in sizes:
                    await _take_fsck(proof, size)


async def _take(proof: Proof, sizes: Sequence[Workspace], name: str, times: int) -> None:
    ways = [_measured(size, name, times) for size in sizes]
    await interleave(2, ways)
    costs = await interleave(9 if proof.quick else 25, ways)
    medians = [median_cpu(cost) for cost in costs]
    for size, median in zip(sizes, medians, strict=True):
        proof.note(f"{name} among {size.turns:,} turns, CPU", median, "us")
    growth = max(after / before for before, after in itertools.pairwise(medians))
    figure = f"{name}, growth per decade"
    if name in FLAT:
        proof.at_most(figure, growth, "x", GROWTH_MAX, of="time")
    else:
        proof.note(figure, growth, "x")


def _measured(size: Workspace, name: str, times: int) -> Callable[[], Awaitable[Cost]]:
    return lambda: measure(size.pid, times, size.works[name])


async def _take_fsck(proof: Proof, size: Workspace) -> None:
    """A check reads everything, so it is told for each thousand turns."""
    cost = await measure(size.pid, 1, lambda: size.tree.checks.fsck(full=False))
    told = f"fsck --quick among {size.turns:,} turns"
    proof.note(f"{told}, wall for each 1,000", cost.wall / size.turns, "ms")


async def _take_memory(proof: Proof, sizes: Sequence[Workspace]) -> None:
    """How much the client holds at its peak while it does everything once.

    What Python allocates is counted: the process as a whole never gives back what the filling took.
    """
    peaks: list[int] = []
    for size in sizes:
        tracemalloc.start()
        for work in size.works.values():
            await work()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        proof.note(f"memory among {size.turns:,} turns, peak", peaks[-1] / 1024, "KB")
    growth = max(after / before for before, after in itertools.pairwise(peaks))
    proof.at_most("memory, growth per decade", growth, "x", GROWTH_MAX)


@asynccontextmanager
async def _workspace(
    proof: Proof, server: str, folder: Path, turns: int
) -> AsyncGenerator[Workspace, None]:
    """Lend a workspace of a size."""
    conninfo = await ensure_database(server, f"proof_growth_{turns}")
    workspace = await prepare_database(conninfo, "proof", SystemClock().new_id())
    async with open_database(conninfo, workspace, connections_max=1, sight=EVERYTHING) as database:
        people = Crowd(database, proof.seed, LENGTH_MEAN)
        await people.grow(turns, deepest=DEPTH)
        tree = tree_on(database, Settings(folder, user="proof"), SystemClock())
        async with database.connection() as lent:
            pid = lent.info.backend_pid
        deep = people.threads[0]
        said = Library(proof.seed).exchanges()
        works = await _works(database, tree, deep.label, deep.head, said)
        async with await psycopg.AsyncConnection[object].connect(
            conninfo, autocommit=True
        ) as owner:
            await owner.execute(STATEMENTS["analyze"])
        yield Workspace(turns, tree, pid, works)


async def _works(
    database: Database, tree: Tree, label: str, head: TurnId, said: Sequence[Exchange]
) -> dict[str, Work]:
    """Return everything that is measured, by its name."""
    appended = await _branch(database, "appended", head, said, PAGE)
    left = await _branch(database, "left", head, said, 3)
    right = await _branch(database, "right", head, said, 3)
    digest = (await tree.turns.get(head)).turn.digest[:PREFIX_CHARS]
    saying = itertools.cycle(said)
    assert left.head is not None
    assert right.head is not None
    heads = left.head, right.head
    return {
        "append": lambda: record(appended, next(saying)),
        "log": lambda: tree.turns.list_newest(limit=PAGE),
        "log of a session": lambda: tree.threads.read(label, last=PAGE),
        "show by a digest's beginning": lambda: tree.turns.get(digest),
        "compare": lambda: tree.threads.compare(*heads),
        "sessions that hold a turn": lambda: tree.threads.threads.list_sessions_holding(head),
        "page of sessions": lambda: tree.sessions.ledger.list_page(after="", limit=PAGE),
    }


async def _branch(
    database: Database, label: str, head: TurnId, said: Sequence[Exchange], turns: int
) -> Recorder:
    """Fork a session off and continue it."""
    recorder = await begin(database, label, head)
    for exchange in said[:turns]:
        await record(recorder, exchange)
    return recorder


if __name__ == "__main__":
    figures.run(prove, str(__doc__), {"million": "a workspace of 1,000,000 turns too"})
