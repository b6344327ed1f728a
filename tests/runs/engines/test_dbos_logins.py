"""Who may write to the queue: the engine's login, and others by one function that fixes what."""

import asyncio
from collections.abc import AsyncGenerator

import psycopg
import pytest

from tests.databases import as_owner
from turntree.boot.open import engine_on
from turntree.db.database import Database
from turntree.db.embedded.logins import engine_login
from turntree.runs.engines.dbos import QUEUE
from turntree.runs.engines.dbos_queue import DbosQueue
from turntree.runs.engines.lazy import LazyEngine
from turntree.testing.contracts.engine import (
    ONE,
    TWO,
    EngineContract,
    open_desk,
    serving,
    until_idle,
    wake,
)

pytest.importorskip("dbos")
pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
async def engine(database: Database) -> AsyncGenerator[LazyEngine, None]:
    """The engine as the product wires it on the embedded server."""
    opened = engine_on(database)
    yield opened
    await opened.close()


class TestEngineOfItsOwnLogin(EngineContract):
    """The engine whose queue belongs to a login of its own."""


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO dbos.workflow_status (workflow_uuid, status) VALUES ('evil', 'ENQUEUED')",
        "UPDATE dbos.workflow_status SET serialization = 'py_pickle'",
        "DELETE FROM dbos.workflow_status",
        "INSERT INTO dbos.workflow_input (workflow_uuid, inputs) VALUES ('evil', '')",
        "SELECT dbos.enqueue_workflow('other', 'queue')",
        "CREATE TABLE dbos.mine (a int)",
        "DROP SCHEMA dbos CASCADE",
        "ALTER SCHEMA dbos OWNER TO turntree",
        "SET ROLE turntree_engine",
    ],
)
async def test_sender_login_cannot_write_engine_tables(
    engine: LazyEngine, conninfo: str, statement: str
) -> None:
    await wake(engine, ONE)
    with (
        psycopg.connect(as_owner(conninfo)) as owner,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        owner.execute(statement.encode())


async def test_what_is_sent_names_nothing_but_a_workspace_and_a_session(
    engine: LazyEngine, conninfo: str, database: Database
) -> None:
    await wake(engine, ONE)
    with psycopg.connect(conninfo) as owner:
        row = owner.execute(
            "SELECT name, queue_name, queue_partition_key, serialization, workflow_uuid"
            " FROM dbos.workflow_status"
        ).fetchone()
        schema = owner.execute(
            "SELECT nspowner::regrole::text FROM pg_namespace WHERE nspname = 'dbos'"
        ).fetchone()
    place = str(database.workspace)
    name = f"{QUEUE}:{place}:{ONE}:1"
    assert row == ("turntree.wake", QUEUE, place, "portable_json", name)
    assert schema == ("turntree_engine",)


async def test_a_worker_sends_and_serves_by_the_same_way(engine: LazyEngine) -> None:
    desk = open_desk()
    await wake(engine, ONE)
    async with serving(engine, desk):
        await until_idle(engine, (ONE, 1))
        await wake(engine, TWO)
        await until_idle(engine, (TWO, 1))
    assert desk.seen == [ONE, TWO]


async def test_workers_that_start_at_once_prepare_one_queue(
    engine: LazyEngine, database: Database
) -> None:
    queues = [DbosQueue(database, engine_login(database.conninfo)) for _ in range(8)]
    await asyncio.gather(*(one.prepare() for one in queues))
    await wake(engine, ONE)
    await asyncio.gather(*(one.install() for one in queues))
