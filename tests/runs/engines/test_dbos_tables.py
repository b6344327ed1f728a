"""The tables of DBOS are built by one, however many come at once."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from turntree.core.ids import Timestamp, WorkspaceId
from turntree.db.database import Database, sqlalchemy_url
from turntree.runs.engines.dbos import open_dbos

pytest.importorskip("dbos")
pytestmark = [pytest.mark.anyio, pytest.mark.slow]


async def test_concurrent_engines_create_tables_once(database: Database) -> None:
    url, workspace = sqlalchemy_url(database.conninfo), WorkspaceId(str(database.workspace))
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(open_dbos(url, workspace)) for _ in range(4)]
        asked = (engine.prune(before=Timestamp("2026-01-01T00:00:00.000Z")) for engine in engines)
        assert await asyncio.gather(*asked) == [0, 0, 0, 0]
