"""A connection that asks somebody before and after every statement and every commit.

The product's own code runs on it unchanged: the interleavings hold it at a gate, the kill points
end its process. A statement that the product runs on its own is a transaction of two halves here,
the statement and its commit, so that something can happen in between.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Protocol
from uuid import UUID

from psycopg.pq import TransactionStatus

from turntree.core.ids import WorkspaceId
from turntree.core.viewer import EVERYTHING
from turntree.db.arrays import register_arrays
from turntree.db.database import SQL as DATABASE_SQL
from turntree.db.database import Database, run
from turntree.db.pool import ConnectionPool, ScopedConnection
from turntree.ledger.session_store import SQL as SESSION_SQL
from turntree.ledger.store import SQL as LEDGER_SQL
from turntree.ledger.thread_store import SQL as THREAD_SQL

COMMIT = "commit"
WRITES = {
    "append_turn",
    "create_session",
    "insert_session",
    "lock_session",
    "merge_sessions",
    "move_session",
    "name_session",
    "set_tag",
}
_NAMES = {
    text: name
    for statements in (DATABASE_SQL, LEDGER_SQL, SESSION_SQL, THREAD_SQL)
    for name, text in statements.items()
}


class Hook(Protocol):
    """Somebody who wants to know, and may keep the connection waiting."""

    async def before(self, statement: str) -> None:
        """Return when the statement may begin."""
        ...

    async def after(self, statement: str) -> None:
        """Return when the statement's answer may be read."""
        ...


class HookedConnection(ScopedConnection):
    """A connection with a hook, which is told every named statement and every write's commit."""

    hook: Hook | None = None
    wrote: bool = False

    async def execute(self, query: Any, *args: Any, **options: Any) -> Any:
        """Run a statement between the two questions."""
        name = _NAMES.get(query, "")
        if self.hook is None or not name:
            return await super().execute(query, *args, **options)
        self.wrote = self.wrote or name in WRITES
        await self.hook.before(name)
        cursor = await super().execute(query, *args, **options)
        await self.hook.after(name)
        return cursor

    @asynccontextmanager
    async def transaction(self, *args: Any, **options: Any) -> AsyncGenerator[Any, None]:
        """Open a transaction whose commit is asked about too."""
        try:
            async with super().transaction(*args, **options) as transaction:
                yield transaction
                await self._before_commit()
        except BaseException:
            # A transaction that fails takes itself back, without ``rollback``.
            self.wrote = False
            raise
        await self._after_commit()

    async def commit(self) -> None:
        """Commit between the two questions."""
        if self.info.transaction_status == TransactionStatus.INTRANS:
            await self._before_commit()
            await super().commit()
            await self._after_commit()

    async def rollback(self) -> None:
        """Take back what was written; nobody is asked."""
        self.wrote = False
        await super().rollback()

    async def _before_commit(self) -> None:
        if self.hook is not None and self.wrote:
            await self.hook.before(COMMIT)

    async def _after_commit(self) -> None:
        if self.hook is not None and self.wrote:
            self.wrote = False
            await self.hook.after(COMMIT)


@asynccontextmanager
async def open_hooked(
    conninfo: str, workspace: WorkspaceId, hook: Hook
) -> AsyncGenerator[tuple[Database, int], None]:
    """Open a database of one hooked connection; yields it and the number of its backend."""
    scope = UUID(workspace)
    pids: list[int] = []

    async def connect() -> ScopedConnection:
        connection = await HookedConnection.connect(conninfo, autocommit=True)
        connection.prepare_threshold = 0
        register_arrays(connection.adapters)
        asked = {"role": "turntree_app", "workspace": str(scope), "sight": EVERYTHING}
        await run(connection, DATABASE_SQL["set_role"], asked)
        connection.scope = (scope, EVERYTHING)
        await connection.set_autocommit(False)
        connection.hook = hook
        pids.append(connection.info.backend_pid)
        return connection

    pool = ConnectionPool(connect, connections_max=1)
    await pool.putconn(await pool.getconn())
    try:
        yield Database(conninfo, scope, pool, EVERYTHING), pids[0]
    finally:
        await pool.close()
