"""Chooses the engine when something is first sent or served.

With the extra ``run`` it is DBOS, whose wake-ups reach any worker in any process. A process that
handles its own messages uses the inline engine instead, because starting DBOS takes longer than
most replies. What such a process leaves unfinished is found by the next worker, as sessions that
are marked awake but have no live worker. Must never know what is done for a session.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

from turntree.core.errors import InvalidOperation
from turntree.core.ids import Timestamp, WorkspaceId
from turntree.runs.engine import Engine, Handle, HandleAnywhere, SharedTransaction, Wake

if TYPE_CHECKING:
    from turntree.runs.engines.dbos_queue import DbosQueue
    from turntree.runs.engines.inline import Lend

_INSTALL = "pip install 'turntree[run]'"


@dataclass(slots=True)
class LazyEngine:
    """Delegates to an engine that is chosen on first use."""

    lend: "Lend"
    url: str
    """The ledger's database, as a SQLAlchemy URL."""
    workspace: WorkspaceId
    outbox: "DbosQueue | None" = None
    """Used by a process that sends and does not serve."""
    _engine: Engine | None = field(default=None)

    def stay_here(self) -> None:
        """Use the inline engine, unless an engine was chosen before."""
        from turntree.runs.engines.inline import InlineEngine

        if self._engine is None:
            self._engine = InlineEngine(self.lend)

    @property
    def is_here(self) -> bool:
        """Whether the engine is the inline one, which reaches this process only."""
        from turntree.runs.engines.inline import InlineEngine

        return isinstance(self._get(), InlineEngine)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[SharedTransaction, None]:
        """Open a transaction: committed at the end of the block, rolled back on an error."""
        async with self._get().transaction() as transaction:
            yield transaction

    async def serve(
        self, worker: str, handle: Handle, *, at_once: int, ready: Callable[[], None]
    ) -> None:
        """Handle wake-ups as ``worker`` until canceled."""
        await self._get().serve(worker, handle, at_once=at_once, ready=ready)

    async def serve_all(
        self, worker: str, handle: HandleAnywhere, *, at_once: int, ready: Callable[[], None]
    ) -> None:
        """Handle the wake-ups of all workspaces as ``worker`` until canceled.

        Raises:
            InvalidOperation: Without DBOS, wake-ups reach the process that made them only.
        """
        from turntree.runs.engines.dbos import DbosEngine

        engine = self._get()
        if not isinstance(engine, DbosEngine):
            raise InvalidOperation("one worker for all workspaces needs DBOS: " + _INSTALL)
        await engine.serve_all(worker, handle, at_once=at_once, ready=ready)

    def in_workspace(
        self, workspace: WorkspaceId, lend: "Lend", outbox: "DbosQueue"
    ) -> "LazyEngine":
        """Return the engine of another workspace of the database; connections are shared."""
        from turntree.runs.engines.dbos import DbosEngine

        engine = self._get()
        shared = engine.in_workspace(workspace, outbox) if isinstance(engine, DbosEngine) else None
        return LazyEngine(lend, self.url, workspace, outbox, shared)

    async def stop_taking(self) -> None:
        """Claim no more wake-ups, and return when those already claimed have been handled."""
        await self._get().stop_taking()

    async def recover(self, dead: Sequence[str]) -> int:
        """Requeue the wake-ups that dead workers had claimed; return how many."""
        return await self._get().recover(dead)

    async def list_live(self, wakes: Sequence[Wake]) -> set[Wake]:
        """Return those of these wake-ups that are queued or being handled."""
        return await self._get().list_live(wakes)

    async def prune(self, *, before: Timestamp) -> int:
        """Delete wake-ups that were handled before a timestamp; return how many."""
        return await self._get().prune(before=before)

    async def close(self) -> None:
        """Close the engine's connections, if it was ever used."""
        if self._engine is None:
            return
        from turntree.runs.engines.dbos import DbosEngine

        if isinstance(self._engine, DbosEngine):
            await self._engine.close()

    def _get(self) -> Engine:
        if self._engine is None:
            from turntree.runs.engines.dbos import DbosEngine
            from turntree.runs.engines.inline import InlineEngine

            installed = find_spec("dbos") is not None and find_spec("sqlalchemy") is not None
            self._engine = (
                DbosEngine(self.url, self.workspace, self.outbox)
                if installed
                else InlineEngine(self.lend)
            )
        return self._engine
