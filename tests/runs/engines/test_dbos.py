"""The engine on DBOS keeps the contract, in one transaction with the ledger."""

import asyncio
import gc
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any
from uuid import UUID

import anyio
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.json import Jsonb

from turntree.api import Tree
from turntree.core.errors import DatabaseUnavailable, InvalidOperation
from turntree.core.ids import WorkspaceId
from turntree.core.message import user
from turntree.db.database import Database, run, sqlalchemy_url
from turntree.runs.engines.dbos import LOST_S, DbosEngine, open_dbos
from turntree.runs.engines.dbos_queue import DbosQueue
from turntree.runs.inbox_store import SQL, InboxStore
from turntree.testing.contracts.engine import (
    ONE,
    TWO,
    EngineContract,
    open_desk,
    serving,
    until_idle,
    wake,
)
from turntree.testing.fakes import FakeClock

pytest.importorskip("dbos")
sqlalchemy = pytest.importorskip("sqlalchemy")
pytestmark = [pytest.mark.anyio, pytest.mark.slow]

# Whenever the first wake-up of a session is given back, it is claimed again, and lost again.
LOSING = """
CREATE SEQUENCE given_back;
GRANT USAGE ON SEQUENCE given_back TO PUBLIC;
CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM nextval('given_back');
    NEW.status := 'PENDING';
    NEW.executor_id := 'w1';
    RETURN NEW;
END $$;
CREATE TRIGGER lose BEFORE UPDATE ON dbos.workflow_status FOR EACH ROW
WHEN (NEW.workflow_uuid LIKE '%:1' AND NEW.status = 'ENQUEUED') EXECUTE FUNCTION lose();
"""


@pytest.fixture
async def engine(database: Database) -> AsyncGenerator[DbosEngine, None]:
    """An engine on the test's database."""
    url = sqlalchemy_url(database.conninfo)
    async with open_dbos(url, WorkspaceId(str(database.workspace))) as opened:
        yield opened


class TestDbosEngine(EngineContract):
    """The engine on DBOS."""


async def test_outbox_writes_same_rows_as_dbos(
    engine: DbosEngine, database: Database, conninfo: str
) -> None:
    light = DbosEngine(engine.url, engine.workspace, DbosQueue(database))
    for session, delay_s in ((ONE, 0.0), (TWO, 1000.0)):
        await wake(engine, session, delay_s=delay_s)
    left = read_queue(conninfo)
    await DbosQueue(database).install()
    with psycopg.connect(conninfo) as owner:
        owner.execute("DELETE FROM dbos.workflow_input")
        owner.execute("DELETE FROM dbos.workflow_status")
    for session, delay_s in ((ONE, 0.0), (TWO, 1000.0)):
        await wake(light, session, delay_s=delay_s)
    assert read_queue(conninfo) == left
    # Asked for again it changes nothing, and what was undone was never asked for.
    await wake(light, ONE)
    with pytest.raises(ZeroDivisionError):
        await wake_and_stumble(light)
    assert await engine.list_live([(ONE, 1), (ONE, 2)]) == {(ONE, 1)}
    desk = open_desk()
    async with serving(engine, desk):
        await until_idle(engine, (ONE, 1))
    assert desk.seen == [ONE]


async def test_an_engine_that_is_canceled_or_refused_leaves_no_connection_open(
    engine: DbosEngine, database: Database, conninfo: str
) -> None:
    await wake(engine, ONE)
    await DbosQueue(database).install()
    before = list_open()
    used = DbosEngine(engine.url, engine.workspace)
    with anyio.CancelScope() as scope:
        try:
            await wake(used, TWO)
            assert list_open() - before
            scope.cancel()
            await anyio.sleep_forever()
        finally:
            await used.close()
    assert list_open() == before
    with psycopg.connect(conninfo) as owner:
        owner.execute("DROP FUNCTION dbos.turntree_enqueue")
        owner.execute("ALTER FUNCTION dbos.enqueue_workflow RENAME TO enqueue_older")
    with pytest.raises(InvalidOperation, match="unsupported version of DBOS"):
        await wake(DbosEngine(engine.url, engine.workspace, DbosQueue(database)), ONE)
    assert list_open() == before


def list_open() -> set[int]:
    """Return the open connections of this process."""
    found: list[Any] = [one for one in gc.get_objects() if isinstance(one, psycopg.AsyncConnection)]
    return {id(one) for one in found if not one.closed}


async def wake_and_stumble(engine: DbosEngine) -> None:
    async with engine.transaction() as transaction:
        await transaction.wake(ONE, 2)
        raise ZeroDivisionError


def read_queue(conninfo: str) -> list[tuple[object, ...]]:
    """Return what is in the queue, without what two that are equal differ in."""
    with psycopg.connect(conninfo) as owner:
        return owner.execute(
            "SELECT to_jsonb(s) - ARRAY['created_at', 'updated_at', 'owner_xid', 'creator_xid',"
            " 'delay_until_epoch_ms'], s.delay_until_epoch_ms > 0, i.inputs::jsonb"
            " FROM dbos.workflow_status s JOIN dbos.workflow_input i USING (workflow_uuid)"
            " ORDER BY s.workflow_uuid"
        ).fetchall()


async def test_where_dbos_has_built_nothing_it_does_so_first(database: Database) -> None:
    url, workspace = sqlalchemy_url(database.conninfo), WorkspaceId(str(database.workspace))
    light = DbosEngine(url, workspace, DbosQueue(database))
    try:
        await wake(light, ONE)
        assert await light.list_live([(ONE, 1)]) == {(ONE, 1)}
    finally:
        await light.close()


async def test_what_was_taken_and_never_begun_is_given_back(
    engine: DbosEngine, conninfo: str
) -> None:
    desk = open_desk()
    async with serving(engine, desk):
        await wake(engine, ONE, delay_s=1000)
        with psycopg.connect(conninfo) as connection:
            connection.execute(
                "UPDATE dbos.workflow_status SET status = 'PENDING', executor_id = 'w1'"
            )
        started = time.monotonic()
        # Whoever looks for sessions without a wake-up asks again and again.
        await until_idle(engine, (ONE, 1))
        took_s = time.monotonic() - started
    assert {*desk.seen} == {ONE}
    # Handled at least once: DBOS may take so long to start it that it seems to be lost again.
    assert len(desk.seen) == 1 or took_s > 2 * LOST_S


def lose_first(connection: psycopg.Connection) -> Callable[[], int]:
    """Have the first wake-up of a session claimed and lost; return what counts its returns."""
    connection.execute(LOSING)
    connection.execute(
        "UPDATE dbos.workflow_status SET status = 'PENDING', executor_id = 'w1'"
        " WHERE workflow_uuid LIKE '%:1'"
    )

    def count() -> int:
        row = connection.execute("SELECT last_value, is_called FROM given_back").fetchone()
        assert row is not None
        return int(row[0]) if row[1] else 0

    return count


async def test_what_was_given_back_and_claimed_again_is_not_given_back_at_once(
    engine: DbosEngine, conninfo: str
) -> None:
    with psycopg.connect(conninfo, autocommit=True) as connection:
        async with serving(engine, open_desk()):
            await wake(engine, ONE, delay_s=1000)
            count_returns = lose_first(connection)
            while not count_returns():
                await engine.list_live([(ONE, 1)])
            returned = time.monotonic()
            await engine.list_live([(ONE, 1)])
            assert count_returns() == 1 or time.monotonic() - returned > LOST_S


async def test_what_was_handled_since_it_was_missed_is_not_given_back_at_once(
    engine: DbosEngine, conninfo: str
) -> None:
    desk = open_desk()
    with psycopg.connect(conninfo, autocommit=True) as connection:
        async with serving(engine, desk):
            await wake(engine, ONE, delay_s=1000)
            count_returns = lose_first(connection)
            await engine.list_live([(ONE, 1)])
            missed = time.monotonic()
            await wake(engine, ONE, 2)
            await desk.wait_for(1)
            handled = time.monotonic()
            await anyio.sleep(missed + LOST_S - handled)
            await engine.list_live([(ONE, 1)])
            assert not count_returns() or time.monotonic() - handled > LOST_S


async def test_one_process_serves_once(engine: DbosEngine) -> None:
    async with serving(engine, open_desk()):
        with pytest.raises(InvalidOperation, match="serves already"):
            await engine.serve("w2", open_desk().handle, at_once=1, ready=lambda: None)


async def test_several_may_prepare_a_database_at_once(database: Database) -> None:
    url, workspace = sqlalchemy_url(database.conninfo), WorkspaceId(str(database.workspace))
    async with open_dbos(url, workspace) as one, open_dbos(url, workspace) as two:
        await asyncio.gather(wake(one, ONE), wake(two, TWO))
        assert await one.list_live([(ONE, 1), (TWO, 1)]) == {(ONE, 1), (TWO, 1)}


async def test_a_database_that_is_not_there_is_unreachable(database: Database) -> None:
    url = sqlalchemy_url(make_conninfo(database.conninfo, dbname="nowhere"))
    async with open_dbos(url, WorkspaceId(str(database.workspace))) as engine:
        with pytest.raises(DatabaseUnavailable):
            await wake(engine, ONE)


async def test_the_ledger_and_the_wake_up_are_one_transaction(
    engine: DbosEngine, tree: Tree, database: Database, world: FakeClock
) -> None:
    session = (await tree.sessions.create("main")).id
    inbox = InboxStore(database, engine)

    async def post_in_vain() -> None:
        said = {"session": UUID(session), "payload": "{}", "by": "b", "at": world.now()}
        scope = {"workspace": database.workspace, "key": None, "options": Jsonb({})}
        async with engine.transaction() as transaction:
            async with database.borrow(transaction.driver) as connection:
                await run(connection, SQL["post_message"], {**said, **scope})
            await transaction.wake(session, 1)
            raise InvalidOperation

    with pytest.raises(InvalidOperation):
        await post_in_vain()
    assert await inbox.list_waiting(session) == []
    assert await engine.list_live([(session, 1)]) == set()
    await inbox.post(session, user("hello"), by="human:ana", at=world.now())
    assert await engine.list_live([(session, 1)]) == {(session, 1)}


@pytest.mark.parametrize(
    "conninfo",
    [
        "host=/tmp/a-b port=5433 dbname=turns user=ana",
        "postgresql://ana:p%40ss%2Fw@db.example:5432/turns?sslmode=require&connect_timeout=3",
        "host=one,two port=1,2 dbname='a b' user=ana password='a:b@c/d?e&f'",
    ],
)
def test_the_address_is_the_same_to_sqlalchemy(conninfo: str) -> None:
    url = sqlalchemy.make_url(sqlalchemy_url(conninfo))
    _, found = url.get_dialect()().create_connect_args(url)
    wanted = {key: str(value) for key, value in conninfo_to_dict(conninfo).items()}
    assert {key: str(value) for key, value in found.items() if key != "context"} == wanted
    assert "password" not in wanted or wanted["password"] not in repr(url)
