"""The pool: no connection is lost, lent twice, or kept when it is no good."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, suppress

import anyio
import psycopg
import pytest

from turntree.core.errors import DatabaseUnavailable
from turntree.core.ids import WorkspaceId
from turntree.core.viewer import EVERYTHING
from turntree.db import pool as pools
from turntree.db.database import Database, open_database
from turntree.db.pool import ConnectionPool, ScopedConnection

pytestmark = pytest.mark.anyio

CONNECTIONS = 3
ALIVE = b"SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(%(pids)s)"


@pytest.fixture
async def narrow(database: Database) -> AsyncGenerator[Database, None]:
    """A database with few connections."""
    workspace = WorkspaceId(str(database.workspace))
    async with open_database(
        database.conninfo, workspace, sight=EVERYTHING, connections_max=CONNECTIONS
    ) as opened:
        yield opened


async def lease_all(database: Database, stack: AsyncExitStack) -> list[ScopedConnection]:
    """Lease every connection there is."""
    return [await stack.enter_async_context(database.connection()) for _ in range(CONNECTIONS)]


async def pids_of(database: Database) -> list[int]:
    """Return the server processes of all connections, which are open and idle afterwards."""
    async with AsyncExitStack() as stack:
        leased = await lease_all(database, stack)
        return [connection.info.backend_pid for connection in leased]


async def end(database: Database, pids: list[int]) -> None:
    """Let the server end connections, as a restart does, and wait until it has."""
    async with await psycopg.AsyncConnection.connect(database.conninfo, autocommit=True) as owner:
        await owner.execute("SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s) pid", (pids,))
        assert await count_alive(owner, pids) == 0


async def count_alive(owner: psycopg.AsyncConnection, pids: list[int]) -> int:
    """Return how many of these server processes there are."""
    row = await (await owner.execute(ALIVE, {"pids": pids})).fetchone()
    assert row is not None
    return int(row[0])


async def test_connections_that_the_server_has_ended_are_replaced(narrow: Database) -> None:
    before = await pids_of(narrow)
    await end(narrow, before)
    # All at once, and none of them is told.
    async with anyio.create_task_group() as group:
        for _ in range(2 * CONNECTIONS):
            group.start_soon(narrow.fetch, b"SELECT 1")
    assert set(before).isdisjoint(await pids_of(narrow))


async def test_a_connection_that_breaks_in_use_fails_once(narrow: Database) -> None:
    before = await pids_of(narrow)

    async def ask() -> None:
        async with narrow.connection() as connection:
            await end(narrow, before)
            await connection.execute("SELECT 1")

    with pytest.raises(DatabaseUnavailable):
        await ask()
    for _ in range(CONNECTIONS):
        assert await narrow.fetch(b"SELECT 1") == [(1,)]
    assert set(before).isdisjoint(await pids_of(narrow))


async def test_a_lease_waits_its_turn(narrow: Database) -> None:
    turns: list[int] = []

    async def wait(place: int) -> None:
        async with narrow.connection():
            turns.append(place)

    async with anyio.create_task_group() as group, AsyncExitStack() as stack:
        await lease_all(narrow, stack)
        for place in range(10):
            group.start_soon(wait, place)
            await anyio.lowlevel.checkpoint()
        assert turns == []
        await stack.aclose()
        # Not before those that have waited longer.
        await wait(10)
    assert turns == list(range(11))


async def test_a_lease_that_waits_too_long_is_refused(
    narrow: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "CONNECT_TIMEOUT_S", 0.05)
    async with AsyncExitStack() as stack:
        await lease_all(narrow, stack)
        with pytest.raises(DatabaseUnavailable, match=f"all {CONNECTIONS} connections are in use"):
            await narrow.fetch(b"SELECT 1")
    assert len(set(await pids_of(narrow))) == CONNECTIONS


async def test_a_canceled_wait_takes_no_connection(narrow: Database) -> None:
    async with AsyncExitStack() as stack:
        await lease_all(narrow, stack)
        waiting = [asyncio.create_task(narrow.fetch(b"SELECT 1")) for _ in range(9)]
        await asyncio.sleep(0)
        for task in waiting[::2]:
            task.cancel()
        await stack.aclose()
        # Those that have their connection already, and have not heard of it.
        waiting[1].cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert [task.cancelled() for task in waiting] == [
        place % 2 == 0 or place == 1 for place in range(9)
    ]
    with anyio.fail_after(5):
        assert len(set(await pids_of(narrow))) == CONNECTIONS


async def test_connections_in_use_are_closed_when_they_are_returned(database: Database) -> None:
    workspace = WorkspaceId(str(database.workspace))
    async with AsyncExitStack() as stack:
        async with open_database(
            database.conninfo, workspace, sight=EVERYTHING, connections_max=CONNECTIONS
        ) as opened:
            pids = await pids_of(opened)
            connection = await stack.enter_async_context(opened.connection())
        # Closing the pool does not pull it away from under a statement.
        assert await (await connection.execute("SELECT 1")).fetchone() == (1,)
    assert connection.closed
    async with await psycopg.AsyncConnection.connect(database.conninfo, autocommit=True) as owner:
        # A server process needs a moment to notice.
        with anyio.fail_after(5):
            while await count_alive(owner, pids):
                pass


async def test_reserved_connections_are_closed_and_come_back(
    narrow: Database,
) -> None:
    pool = narrow.pool
    assert isinstance(pool, ConnectionPool)
    before = await pids_of(narrow)
    assert len(set(before)) == CONNECTIONS
    async with (
        await psycopg.AsyncConnection.connect(narrow.conninfo, autocommit=True) as owner,
        pool.reserving(1),
    ):
        assert (pool.usage.connections_max, pool.usage.idle) == (CONNECTIONS - 1,) * 2
        with anyio.fail_after(5):
            while await count_alive(owner, before) != CONNECTIONS - 1:
                pass
        # However many are asked for, half of them stay.
        async with pool.reserving(100):
            assert pool.usage.connections_max == (CONNECTIONS - 1) - (CONNECTIONS - 1) // 2
    assert pool.usage.connections_max == CONNECTIONS
    assert len(set(await pids_of(narrow))) == CONNECTIONS


async def test_reserving_waits_for_connections_in_use_and_can_be_canceled(
    narrow: Database,
) -> None:
    pool = narrow.pool
    assert isinstance(pool, ConnectionPool)
    lent = [await pool.getconn() for _ in range(CONNECTIONS)]

    reserved = asyncio.Event()

    async def reserve() -> None:
        async with pool.reserving(1):
            reserved.set()
            await anyio.sleep_forever()

    for _ in range(3):
        task = asyncio.create_task(reserve())
        await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    assert pool.usage.connections_max == CONNECTIONS
    task = asyncio.create_task(reserve())
    await asyncio.sleep(0)
    for connection in lent:
        await pool.putconn(connection)
    with anyio.fail_after(5):
        await reserved.wait()
    assert pool.usage.idle == pool.usage.connections_max == CONNECTIONS - 1
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert len(set(await pids_of(narrow))) == CONNECTIONS


async def test_a_server_that_comes_back_is_waited_for() -> None:
    refusals = 3

    async def connect() -> ScopedConnection:
        nonlocal refusals
        refusals -= 1
        if refusals:
            raise psycopg.OperationalError("the database system is starting up")
        return object.__new__(ScopedConnection)

    pool = ConnectionPool(connect, connections_max=1, retry_s=5)
    await pool.getconn()
    assert refusals == 0


async def test_a_server_that_stays_away_takes_no_place_in_the_pool() -> None:
    async def connect() -> ScopedConnection:
        raise psycopg.OperationalError("connection refused")

    pool = ConnectionPool(connect, connections_max=1)
    started = time.monotonic()
    for _ in range(3):
        with pytest.raises(psycopg.OperationalError, match="connection refused"):
            await pool.getconn()
    assert time.monotonic() - started < pools.CONNECT_TIMEOUT_S


async def test_a_canceled_attempt_to_connect_takes_no_place_in_the_pool() -> None:
    async def connect() -> ScopedConnection:
        await asyncio.sleep(60)
        raise AssertionError

    pool = ConnectionPool(connect, connections_max=1)
    for _ in range(3):
        task = asyncio.create_task(pool.getconn())
        await asyncio.sleep(0)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()


async def test_the_connection_that_a_pool_begins_with_is_kept(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its age counts from here, and not from the start of the machine."""
    # Whenever the machine was started, that is longer ago.
    monkeypatch.setattr(pools, "LIFETIME_MAX_S", 30.0)
    first = await ScopedConnection.connect(database.conninfo, autocommit=True)

    async def connect() -> ScopedConnection:
        raise AssertionError("the first one is open")

    pool = ConnectionPool(connect, first)
    for _ in range(3):
        assert await pool.getconn() is first
        await pool.putconn(first)
    await pool.close()
    assert first.closed


async def test_a_connection_that_is_old_or_long_idle_is_closed(
    database: Database,
) -> None:
    async def connect() -> ScopedConnection:
        return await ScopedConnection.connect(database.conninfo, autocommit=True)

    pool = ConnectionPool(connect)
    idle, used = await pool.getconn(), await pool.getconn()
    await pool.putconn(idle)
    idle.idle_since -= pools.IDLE_MAX_S + 1
    await pool.putconn(used)
    assert (idle.closed, used.closed) == (True, False)
    assert await pool.getconn() is used
    used.opened_at -= pools.LIFETIME_MAX_S + 1
    await pool.putconn(used)
    assert used.closed
    await pool.close()
