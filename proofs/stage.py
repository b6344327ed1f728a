"""Where the figures of ``flat_cost`` are taken: a prefilled database, and a bare way into it.

Each part of the proof has a database of its own, so that none inherits another's bloat.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from proofs.figures import Cost, Proof, load_statements, measure
from proofs.workload import Exchange, Library, thread
from turntree.core.ids import TurnId, WorkspaceId
from turntree.core.viewer import EVERYTHING
from turntree.db.arrays import register_arrays
from turntree.db.database import Database, ensure_database, open_database, prepare_database
from turntree.system.clock import SystemClock
from turntree.transcripts.bulk_copy import import_turns

STATEMENTS = load_statements(Path(__file__).with_name("flat_cost.sql"))
Connection = psycopg.AsyncConnection[Any]
Measured = Callable[[], Awaitable[Cost]]


@dataclass(frozen=True, slots=True)
class Stage:
    """A prefilled database and ways into it."""

    proof: Proof
    conninfo: str
    workspace: WorkspaceId
    folder: Path
    database: Database
    pid: int
    """The backend of the product's only connection."""
    owner: Connection
    bare: Connection
    """A connection of the kind the product uses, without the product."""
    exchanges: list[Exchange]
    threads: dict[int, list[TurnId]]
    """Prefilled threads by their depth, root first."""

    def times(self, quick: int, full: int) -> int:
        """Return how often to repeat."""
        return quick if self.proof.quick else full

    def ours(self, times: int, work: Callable[[], Awaitable[object]]) -> Measured:
        """Return the measurement of something the product does."""
        return lambda: measure(self.pid, times, work)

    def theirs(self, times: int, work: Callable[[], Awaitable[object]]) -> Measured:
        """Return the measurement of something done without the product."""
        return lambda: measure(self.bare.info.backend_pid, times, work)

    async def insert_bare(self) -> None:
        """Insert one row and commit."""
        await self.bare.execute(STATEMENTS["insert_bare"], (uuid4(), "x" * 50))

    async def insert_bare_pooled(self) -> None:
        """Insert one row and commit, the way every call of the product reaches PostgreSQL."""
        async with self.database.connection() as connection:
            await connection.execute(STATEMENTS["insert_bare"], (uuid4(), "x" * 50))

    async def sizes(self) -> dict[str, int]:
        """Return the bytes of each table with its indexes and everything kept beside it."""
        rows = await self.owner.execute(STATEMENTS["sizes"])
        return dict(await rows.fetchall())


@asynccontextmanager
async def set_stage(
    proof: Proof, server: str, folder: Path, name: str, depths: Sequence[int]
) -> AsyncGenerator[Stage, None]:
    """Lend a database with a thread of each depth."""
    conninfo = await ensure_database(server, f"proof_{name}")
    workspace = await prepare_database(conninfo, "proof", SystemClock().new_id())
    library = Library(proof.seed)
    owner = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
    async with (
        owner,
        open_database(conninfo, workspace, connections_max=1, sight=EVERYTHING) as database,
    ):
        register_arrays(owner.adapters)
        await owner.execute(STATEMENTS["create_bare"])
        threads = {depth: await prefill(database, library, depth) for depth in depths}
        await owner.execute(STATEMENTS["analyze"])
        async with database.connection() as lent:
            pid = lent.info.backend_pid
        async with database.acting_as("turntree_app") as bare:
            bare.prepare_threshold = 0
            yield Stage(
                proof, conninfo, workspace, folder, database, pid, owner, bare,
                library.exchanges(), threads,
            )  # fmt: skip


async def prefill(
    database: Database, library: Library, depth: int, *, forks: int = 0
) -> list[TurnId]:
    """Import a thread and return its turns, root first."""
    turns = list(thread(library, depth, forks=forks))
    await import_turns(database, turns)
    return [
        item.sealed.turn.id
        for item, after in zip(turns, [*turns[1:], None], strict=True)
        # A sibling is followed by the turn that shares its parent.
        if after is None or after.parent != item.parent
    ]
