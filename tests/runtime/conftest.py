"""A runtime for every test that asks for one."""

from collections.abc import AsyncGenerator

import pytest

from tests.runtime.workshop import Workshop
from turntree.adapters.engines.inline import InlineEngine
from turntree.runtime.tree import Tree
from turntree.store.database import Database
from turntree.store.inbox import PostgresInbox
from turntree.store.workers import PostgresWorkers
from turntree.testing.worlds import ScriptedWorld


@pytest.fixture
async def shop(
    tree: Tree, database: Database, world: ScriptedWorld
) -> AsyncGenerator[Workshop, None]:
    """One session, and nobody at work yet."""
    session = await tree.sessions.create("main")
    engine = InlineEngine(database.lend)
    workers = PostgresWorkers(database, engine)
    inbox = PostgresInbox(database, engine)
    yield Workshop(tree, database, world, engine, inbox, workers, session.id)
    for name in await workers.list_workers():
        await workers.leave(name)
