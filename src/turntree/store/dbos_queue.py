"""The queue of DBOS as PostgreSQL sees it: a function that DBOS documents for whoever speaks SQL.

It is there once DBOS has built its tables. To send something this way takes none of the modules
that DBOS needs to work. Must never know what a wake-up is for.
"""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

from psycopg.types.json import Json

from turntree.store.database import Connection, Database, Translated, fetch, run


@dataclass(frozen=True, slots=True)
class DbosQueue:
    """Calls of workflows, put into a queue. See ``adapters.engines.dbos``."""

    database: Database

    @asynccontextmanager
    async def lend(self) -> AsyncGenerator[object, None]:
        """Begin a transaction and lend its connection, with the role of whoever logged in."""
        async with self.database.lend() as driver:
            # The application has no business in the tables of DBOS.
            async with Translated():
                await run(cast("Connection", driver), "give_role_back")
            yield driver

    async def is_built(self, driver: object) -> bool:
        """Say whether DBOS has built the function, with the parameters that are known here."""
        async with Translated():
            ((is_there,),) = await fetch(cast("Connection", driver), "can_enqueue")
        return bool(is_there)

    async def put(self, driver: object, argument: str, call: Mapping[str, object]) -> None:
        """Put the call of a workflow with one argument into a queue, once this is committed."""
        async with Translated():
            await run(
                cast("Connection", driver), "enqueue_call", {**call, "argument": Json(argument)}
            )
