"""Which engine wakes sessions up, chosen when something is sent or served and not before.

With the extra ``run`` wake-ups are DBOS's: they reach any worker, in any process. A process that
serves itself does without, because starting DBOS takes longer than most answers: its wake-ups live
in its memory, and what it leaves behind is found by whoever looks next, as sessions that are awake
without anybody. Must never know what is done for a session.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING

from turntree.core.ids import Timestamp, WorkspaceId
from turntree.runs.engine import Engine, Handle, Transaction, Wake

if TYPE_CHECKING:
    from turntree.runs.engines.dbos import Outbox
    from turntree.runs.engines.inline import Lend


@dataclass(slots=True)
class LazyEngine:
    """Hands everything on to an engine that is chosen when it is first needed."""

    lend: "Lend"
    url: str
    """The database of the ledger, as SQLAlchemy writes it."""
    workspace: WorkspaceId
    outbox: "Outbox | None" = None
    """How a process sends that does not serve."""
    _engine: Engine | None = field(default=None)

    def stay_here(self) -> None:
        """Wake sessions up in this process alone, unless something was chosen before."""
        from turntree.runs.engines.inline import InlineEngine

        if self._engine is None:
            self._engine = InlineEngine(self.lend)

    @property
    def is_here(self) -> bool:
        """Whether wake-ups live in this process alone."""
        from turntree.runs.engines.inline import InlineEngine

        return isinstance(self._get(), InlineEngine)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Transaction, None]:
        """Begin a transaction; it is committed at the end of the block, or undone by an error."""
        async with self._get().transaction() as transaction:
            yield transaction

    async def serve(
        self, worker: str, handle: Handle, *, at_once: int, ready: Callable[[], None]
    ) -> None:
        """Handle wake-ups under a name until canceled."""
        await self._get().serve(worker, handle, at_once=at_once, ready=ready)

    async def stop_taking(self) -> None:
        """Take no more wake-ups and return when what was taken has been handled."""
        await self._get().stop_taking()

    async def recover(self, dead: Sequence[str]) -> int:
        """Give back what workers took that are dead; returns how many wake-ups that were."""
        return await self._get().recover(dead)

    async def list_live(self, wakes: Sequence[Wake]) -> set[Wake]:
        """Return those of these wake-ups that still have to be handled, or are being handled."""
        return await self._get().list_live(wakes)

    async def prune(self, *, before: Timestamp) -> int:
        """Forget wake-ups that were handled before a moment; returns how many."""
        return await self._get().prune(before=before)

    async def close(self) -> None:
        """Let go of what the engine holds, if it was ever needed."""
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
