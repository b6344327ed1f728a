"""Connections to one database, each lent to one task at a time.

One pool serves every workspace and viewer. Both are settings of a connection, and a lease sets them
if the last one was for others. A lease with the rights of another one is the worst that can happen
here, so a connection forgets what it knows about its settings as soon as that is not certain.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol
from uuid import UUID

import psycopg
from psycopg import AsyncConnection, AsyncTransaction
from psycopg.pq import TransactionStatus

from turntree.core.errors import DatabaseUnavailable
from turntree.core.value import value
from turntree.core.viewer import Sight
from turntree.db.sql import load_statements

SQL = load_statements(__file__)

# Per process. PostgreSQL allows 100 by default, which hooks, workers and commands share.
CONNECTIONS_MAX = 10
CONNECT_TIMEOUT_S = 10.0
RETRY_DELAY_S = 0.05
"""Seconds before the second attempt to connect; later delays double, up to a second."""
IDLE_MAX_S = 600.0
"""Seconds without use after which a connection is closed."""
LIFETIME_MAX_S = 3600.0
"""Seconds after which a connection is replaced: its server process only ever gains memory."""

Scope = tuple[UUID, Sight]
"""The workspace and the viewer that the settings of a connection name."""


class ScopedConnection(AsyncConnection[tuple[Any, ...]]):
    """A connection that knows which workspace and viewer the server has set for it."""

    scope: Scope | None = None
    """None if that is not certain. The next lease then sets both."""
    opened_at: float = 0.0
    idle_since: float = 0.0

    async def enter(self, scope: Scope) -> None:
        """Set workspace and viewer, unless they are set already."""
        if self.scope != scope:
            # If this is canceled, it is unknown whether the server has set them.
            self.scope = None
            workspace, sight = scope
            params = {"workspace": str(workspace), "sight": sight}
            await self.execute(SQL["enter_scope"], params, binary=True)
            self.scope = scope

    def is_lost(self) -> bool:
        """Return whether the server has ended this idle connection; it is not asked."""
        try:
            # The first call reads the server's last words, the second one finds the end.
            self.pgconn.consume_input()
            self.pgconn.consume_input()
        except psycopg.OperationalError:
            return True
        return self.closed

    @asynccontextmanager
    async def transaction(
        self,
        savepoint_name: str | None = None,
        force_rollback: bool = False,  # noqa: FBT001, FBT002 - psycopg's own parameter
    ) -> AsyncGenerator[AsyncTransaction, None]:
        """Start a transaction or a savepoint.

        A rollback undoes the settings made inside, too. It also happens when the commit fails, and
        no caller sees an error if ``psycopg.Rollback`` causes it, or if the commit follows an error
        that was caught inside: PostgreSQL then answers ``COMMIT`` with a rollback.
        """
        is_done = is_committed = False
        try:
            async with super().transaction(savepoint_name, force_rollback) as transaction:
                yield transaction
                is_done = not force_rollback and not self.has_failed()
            is_committed = is_done
        finally:
            if not is_committed:
                self.scope = None

    async def commit(self) -> None:
        """Commit; if that fails, the settings made since the last one are undone."""
        scope, self.scope = None if self.has_failed() else self.scope, None
        await super().commit()
        self.scope = scope

    async def rollback(self) -> None:
        """Roll back, and with it the settings made since."""
        self.scope = None
        await super().rollback()

    def has_failed(self) -> bool:
        """Return whether all that the current transaction can still do is to roll back."""
        return self.pgconn.transaction_status == TransactionStatus.INERROR

    def is_busy(self) -> bool:
        """Return whether a command is in progress that no task waits for any more."""
        return self.pgconn.transaction_status == TransactionStatus.ACTIVE


@value
class PoolUsage:
    """What a pool has lent, and who waits."""

    used: int
    idle: int
    waiting: int
    """Tasks that wait until a connection is returned."""
    connections_max: int


class Connections(Protocol):
    """A source of connections, such as a pool."""

    async def getconn(self) -> ScopedConnection:
        """Return a connection that is used by no other task."""
        ...

    async def putconn(self, conn: ScopedConnection, /) -> None:
        """Return a connection to the pool."""
        ...


class ConnectionPool:
    """Open connections, and more of them while these are in use.

    It has no background tasks, so a short-lived process pays for none. Returning a connection never
    waits, so it cannot be canceled halfway. In ``psycopg_pool`` it can: of four connections it lost
    one for ever in 400 canceled requests, and a server that has lost all ten answers no more.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[ScopedConnection]],
        first: ScopedConnection | None = None,
        *,
        connections_max: int = CONNECTIONS_MAX,
        retry_s: float = 0.0,
    ) -> None:
        """Start with an open connection, if any, and open others on demand.

        While the database does not answer, a lease tries again for ``retry_s``, long enough for a
        server to restart.
        """
        self._connect = connect
        self._idle = [] if first is None else [first]
        if first is not None:
            first.opened_at = first.idle_since = time.monotonic()
        self._max = connections_max
        self._free = asyncio.Semaphore(connections_max)
        self._retry_s = retry_s
        self._is_closed = False
        self._leased = 0
        self._waiting = 0

    @property
    def usage(self) -> PoolUsage:
        """How many connections are in use now, and how many tasks wait for one."""
        return PoolUsage(self._leased, len(self._idle), self._waiting, self._max)

    async def getconn(self) -> ScopedConnection:
        """Return a connection that is used by no other task.

        Raises:
            DatabaseUnavailable: All connections stay in use.
        """
        if self._free.locked():
            self._waiting += 1
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    await self._free.acquire()
            except TimeoutError as error:
                raise DatabaseUnavailable(f"all {self._max} connections are in use") from error
            finally:
                self._waiting -= 1
        else:
            await self._free.acquire()
        self._leased += 1
        connection: ScopedConnection | None = None
        try:
            # The last one that was returned: it most likely has the right settings, and the first
            # ones get old enough to be closed.
            while self._idle and connection is None:
                connection = self._idle.pop()
                # A server that was restarted has ended all of them.
                if connection.is_lost():
                    await connection.close()
                    connection = None
            if connection is None:
                connection = await self._open()
            return connection
        finally:
            # Canceled or refused while connecting: nothing will be returned by ``putconn``.
            if connection is None:
                self._leased -= 1
                self._free.release()

    async def putconn(self, conn: ScopedConnection, /) -> None:
        """Return a connection; one with an open transaction is closed.

        Its locks must not stay, the next task must not continue inside it, and a rollback would
        wait for the server. Closing does not.
        """
        now = time.monotonic()
        if conn.broken:
            # The server has restarted, or is gone: the idle ones are broken too.
            await self._close_idle()
        is_idle = conn.pgconn.transaction_status == TransactionStatus.IDLE
        if is_idle and not self._is_closed and now - conn.opened_at < LIFETIME_MAX_S:
            conn.idle_since = now
            self._idle.append(conn)
            if now - self._idle[0].idle_since > IDLE_MAX_S:
                await self._idle.pop(0).close()
        else:
            await conn.close()
        self._leased -= 1
        self._free.release()

    @asynccontextmanager
    async def reserving(self, count: int) -> AsyncGenerator[None, None]:
        """Have fewer connections while the block lasts, at least half of them.

        For a process in which another pool of the same database opens as many: together they stay
        below what one process may have.
        """
        count = min(count, self._max // 2)
        reserved = 0
        try:
            for _ in range(count):
                await self._free.acquire()
                self._max -= 1
                reserved += 1
            while self._idle and len(self._idle) + self._leased > self._max:
                await self._idle.pop(0).close()
            yield
        finally:
            for _ in range(reserved):
                self._max += 1
                self._free.release()

    async def close(self) -> None:
        """Close all connections; those in use when they are returned."""
        self._is_closed = True
        await self._close_idle()

    async def _close_idle(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def _open(self) -> ScopedConnection:
        delay_s, deadline = RETRY_DELAY_S, time.monotonic() + self._retry_s
        while True:
            try:
                connection = await self._connect()
            except psycopg.OperationalError:
                if time.monotonic() + delay_s > deadline:
                    raise
            else:
                connection.opened_at = time.monotonic()
                return connection
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, 1.0)
