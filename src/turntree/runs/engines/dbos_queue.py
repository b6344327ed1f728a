"""The way into the queue of DBOS: one function that wakes a session up, and nothing else.

On the embedded server the queue belongs to a login of the engine, and the function lends its right,
because a row in the queue is an order to every worker. Sending this way takes none of the modules
that DBOS needs to work. Must never know what a wake-up is for.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

from psycopg import AsyncConnection

from turntree.core.errors import InvalidOperation
from turntree.core.ids import SessionId
from turntree.core.value import value
from turntree.db.database import Connection, Database, Row, Translated, as_uuid, fetch, run
from turntree.db.sql import QUERIES


@value
class DbosQueue:
    """Wake-ups, put into the queue of a workspace. See ``adapters.engines.dbos``."""

    database: Database
    engine: str | None = None
    """How the login reaches the database to which the queue belongs; None is the ledger's own."""

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[object, None]:
        """Begin a transaction and lend its connection."""
        async with self.database.lend() as driver:
            yield driver

    async def is_built(self, driver: object) -> bool:
        """Say whether there is a way in, and whether this login may use it."""
        async with Translated():
            ((is_there,),) = await fetch(cast("Connection", driver), "can_enqueue")
        return bool(is_there)

    async def put(self, driver: object, session: SessionId, number: int, delay_s: float) -> None:
        """Have a session woken up once this is committed."""
        wake = {"session": as_uuid(session), "number": number, "delay_s": delay_s}
        async with Translated():
            scope = {"workspace": self.database.workspace}
            await run(cast("Connection", driver), "enqueue_call", {**scope, **wake})

    async def prepare(self) -> None:
        """Let the engine's login build the queue."""
        await self._execute(self.database.conninfo, "let_engine_build")

    async def install(self) -> None:
        """Make the way in, as the login to which the queue belongs.

        Raises:
            InvalidOperation: The queue is that of a DBOS which is not known here.
        """
        await self._execute(self.engine or self.database.conninfo, "make_door", "knows_queue")

    async def _execute(self, conninfo: str, statement: str, question: str | None = None) -> None:
        async with Translated():
            connection = await AsyncConnection[Row].connect(conninfo, autocommit=True)
            async with connection, connection.transaction():
                if question is not None and (await fetch(connection, question)) != [(True,)]:
                    raise InvalidOperation(
                        "the queue in this database is not that of the DBOS that Turntree was made"
                        " for: pip install --upgrade 'turntree[run]'"
                    )
                await connection.execute(QUERIES[statement])
