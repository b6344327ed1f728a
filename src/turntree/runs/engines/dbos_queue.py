"""Enqueues wake-ups for DBOS through one SQL function, without loading DBOS.

On the embedded server the queue belongs to the engine's login, and the function runs with that
login's privileges: a sender must not be able to write arbitrary rows, because a row in the queue is
an order to every worker. This module must never know what a wake-up is for.
"""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import cast

from psycopg import AsyncConnection

from turntree.core.errors import InvalidOperation
from turntree.core.ids import SessionId
from turntree.core.value import value
from turntree.db.database import Connection, Database, ErrorTranslator, Row, as_uuid, fetch, run
from turntree.db.pool import ConnectionPool
from turntree.db.sql import load_statements

SQL = load_statements(__file__)


@value
class DbosQueue:
    """The queue of the database, as one workspace uses it."""

    database: Database
    engine: str | None = None
    """Connection string of the login that owns the queue; None means the ledger's own."""

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[object, None]:
        """Open a transaction and yield its connection."""
        async with self.database.lend() as driver:
            yield driver

    async def is_built(self, driver: object) -> bool:
        """Return whether the enqueue function exists and this login may call it."""
        async with ErrorTranslator():
            ((is_there,),) = await fetch(cast("Connection", driver), SQL["can_enqueue"])
        return bool(is_there)

    async def put(self, driver: object, session: SessionId, number: int, delay_s: float) -> None:
        """Enqueue a wake-up that takes effect on commit."""
        wake = {"session": as_uuid(session), "number": number, "delay_s": delay_s}
        async with ErrorTranslator():
            scope = {"workspace": self.database.workspace}
            await run(cast("Connection", driver), SQL["enqueue_call"], {**scope, **wake})

    def making_room(self, connections: int) -> AbstractAsyncContextManager[None]:
        """Leave some of the process's connections to DBOS while the block lasts."""
        pool = self.database.pool
        return pool.reserving(connections) if isinstance(pool, ConnectionPool) else nullcontext()

    async def prepare(self) -> None:
        """Allow the engine's login to create the queue."""
        await self._execute(self.database.conninfo, SQL["let_engine_build"])

    async def install(self) -> None:
        """Create the enqueue function, as the login that owns the queue.

        Raises:
            InvalidOperation: The queue was created by an unsupported version of DBOS.
        """
        await self._execute(
            self.engine or self.database.conninfo, SQL["make_door"], SQL["knows_queue"]
        )

    async def _execute(
        self, conninfo: str, statement: bytes, question: bytes | None = None
    ) -> None:
        async with ErrorTranslator():
            connection = await AsyncConnection[Row].connect(conninfo, autocommit=True)
            async with connection, connection.transaction():
                await connection.execute(SQL["take_turn"])
                if question is not None and (await fetch(connection, question)) != [(True,)]:
                    raise InvalidOperation(
                        "the queue in this database belongs to an unsupported version of DBOS:"
                        " pip install --upgrade 'turntree[run]'"
                    )
                await connection.execute(statement)
