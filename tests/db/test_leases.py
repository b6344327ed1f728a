"""Leases: one pool serves every workspace and viewer, and no lease has the rights of the last."""

import asyncio
import contextlib
import contextvars
import itertools
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial

import anyio
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.databases import as_owner
from turntree.boot.open import Settings, tree_on
from turntree.core.errors import Conflict, InvalidOperation, NotFound
from turntree.core.ids import WorkspaceId
from turntree.core.message import assistant, user
from turntree.core.viewer import NOBODY, Sight
from turntree.db.database import Database, open_database, prepare_database
from turntree.db.pool import ScopedConnection
from turntree.ledger.session_store import SessionStore
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

CONNECTIONS = 4
CANCELLATIONS = 400
NAMES = ("ana", "bob", "eve")


@pytest.fixture
async def views(
    conninfo: str, workspace_id: WorkspaceId, tmp_path_factory: pytest.TempPathFactory
) -> AsyncGenerator[list[Database], None]:
    """Two workspaces, each with three viewers, on one pool; each has a private session."""
    world = FakeClock(7)
    other = await prepare_database(as_owner(conninfo), "elsewhere", world.new_id())
    home = tmp_path_factory.mktemp("home")
    # What a lease that hurried must leave as it was.
    durable = make_conninfo(as_owner(conninfo), options="-c synchronous_commit=local")
    async with open_database(durable, workspace_id, connections_max=CONNECTIONS) as opened:
        found: list[Database] = []
        for workspace in (opened, opened.in_workspace(other)):
            for name in NAMES:
                settings = Settings(home, user=name)
                tree = tree_on(workspace, settings, world)
                await tree.programs.create("session", f"of-{name}", {}, visibility="private")
                await tree.turns.record(f"of-{name}", [user(f"by {name}")], [assistant("yes")])
                found.append(workspace.seen_by(Sight(f"human:{name}")))
        yield found


async def settings_of(connection: ScopedConnection) -> tuple[str, str]:
    """Return for whom the server itself takes a connection."""
    cursor = await connection.execute(
        "SELECT current_setting('turntree.workspace'), current_setting('turntree.viewer')"
    )
    row = await cursor.fetchone()
    assert row is not None
    return row[0], row[1]


async def check(view: Database) -> None:
    """A lease has the rights of its own viewer, in its own workspace."""
    async with view.connection() as connection:
        assert await settings_of(connection) == (str(view.workspace), view.sight)


async def read(view: Database) -> None:
    """A reader finds what is its own, and nothing else."""
    sessions = await SessionStore(view).list_page(limit=9)
    assert [session.label for session in sessions] == [f"of-{view.sight.partition(':')[2]}"]


async def test_one_pool_serves_every_workspace_and_viewer(views: list[Database]) -> None:
    async def work(view: Database) -> None:
        for _ in range(5):
            await read(view)
            await check(view)

    async with anyio.create_task_group() as group:
        for view in views * 2:
            group.start_soon(work, view)
    assert len({id(view.pool) for view in views}) == 1


async def test_a_connection_that_was_never_leased_shows_nothing(views: list[Database]) -> None:
    connection = await views[0].pool.getconn()
    try:
        await connection.rollback()  # Not even what a test before this one has set is trusted.
        assert connection.scope is None
    finally:
        await views[0].pool.putconn(connection)
    await check(views[0])


async def test_another_workspace_of_a_viewer_is_nobodys(views: list[Database]) -> None:
    there = views[0].in_workspace(WorkspaceId(str(views[3].workspace)))
    assert there.sight == NOBODY
    assert await SessionStore(there).list_page(limit=9) == []


async def test_another_workspace_does_not_join_a_transaction(views: list[Database]) -> None:
    here, there = views[0], views[3]
    with contextlib.suppress(Conflict):
        async with here.keep_together():
            await check(there)
            await check(here)
            async with there.connection() as connection:
                assert connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
            raise Conflict


async def roll_back_quietly(view: Database, other: Database) -> None:
    """``psycopg.Rollback`` undoes what was set inside, and nothing tells the caller."""
    async with view.keep_together():
        async with view.connection() as connection, connection.transaction():
            await check(other)
            raise psycopg.Rollback
        await check(other)
        await check(view)


async def fail_to_commit(view: Database, other: Database) -> None:
    """A commit that fails undoes what was set inside, after the block has ended well."""
    with contextlib.suppress(NotFound):
        async with view.keep_together():
            async with view.connection() as connection:
                await connection.execute(
                    "CREATE TEMP TABLE IF NOT EXISTS parents (id int PRIMARY KEY)"
                )
                await connection.execute(
                    "CREATE TEMP TABLE IF NOT EXISTS children (id int REFERENCES parents"
                    " DEFERRABLE INITIALLY DEFERRED)"
                )
                await connection.execute("INSERT INTO children VALUES (1)")
            await check(other)
        pytest.fail("the commit was refused")
    await check(other)
    await check(view)


async def catch_an_error(view: Database, other: Database) -> None:
    """PostgreSQL rolls back at the commit of a transaction in which an error was caught."""
    async with view.keep_together():
        await check(other)
        with pytest.raises(InvalidOperation):
            await other.run(b"SELECT 1 / 0")
    await check(other)
    await check(view)


async def catch_an_error_by_hand(view: Database, other: Database) -> None:
    """The same for a connection whose owner commits, as those of the drills do."""
    async with view.connection() as connection:
        await connection.set_autocommit(False)
        await connection.enter((other.workspace, other.sight))
        with pytest.raises(psycopg.DataError):
            await connection.execute("SELECT 1 / 0")
        await connection.commit()
        await connection.set_autocommit(True)
    await check(other)
    await check(view)


async def leave_a_transaction(view: Database, other: Database) -> None:
    """The pool rolls a transaction back that a lease has left open, with what was set inside."""
    async with view.connection() as connection:
        await connection.execute("BEGIN")
        await connection.enter((other.workspace, other.sight))
    await check(other)
    await check(view)


@pytest.mark.parametrize(
    "act",
    [
        roll_back_quietly,
        fail_to_commit,
        catch_an_error,
        catch_an_error_by_hand,
        leave_a_transaction,
    ],
)
async def test_a_rollback_leaves_no_rights_behind(
    views: list[Database], act: Callable[[Database, Database], Awaitable[None]]
) -> None:
    # One connection, so that the next lease is of the same one.
    async with open_database(
        views[0].conninfo, WorkspaceId(str(views[0].workspace)), connections_max=1
    ) as narrow:
        view, other = narrow.seen_by(Sight("human:ana")), narrow.seen_by(Sight("human:bob"))
        for _ in range(2):
            await act(view, other)
            await act(other, view)


@pytest.mark.parametrize("block", ["keep_together", "hurry"])
async def test_a_task_that_outlives_a_transaction_loses_its_connection(
    views: list[Database], block: str
) -> None:
    """It would change the viewer of the next lease between two statements."""
    workspace = WorkspaceId(str(views[0].workspace))
    async with open_database(views[0].conninfo, workspace, connections_max=1) as narrow:
        view, other = narrow.seen_by(Sight("human:ana")), narrow.seen_by(Sight("human:bob"))
        is_over = asyncio.Event()

        async def outlive() -> None:
            await is_over.wait()
            await check(other)

        async with getattr(view, block)():
            task = asyncio.create_task(outlive())
        async with view.connection() as connection:
            is_over.set()
            await asyncio.wait([task], timeout=0.1)
            assert not task.done(), "it has used a connection that is leased to another task"
            assert await settings_of(connection) == (str(view.workspace), view.sight)
        await task


async def nest(view: Database, other: Database) -> None:
    """Ask as another viewer inside a transaction, and change one's mind."""
    with contextlib.suppress(Conflict):
        async with view.keep_together():
            await check(view)
            await check(other)
            raise Conflict
    await check(view)


async def hurry(view: Database, _: Database) -> None:
    """Commit without waiting for the disk, for a while."""
    async with view.hurry():
        await check(view)


@pytest.mark.parametrize("act", [nest, hurry, roll_back_quietly])
async def test_a_cancellation_at_any_step_leaves_no_rights_behind(
    views: list[Database], act: Callable[[Database, Database], Awaitable[None]]
) -> None:
    """Each step of the event loop in turn, after the server has answered what it was asked.

    What the server has done and the client has not heard of is the dangerous half.
    """
    workspace = WorkspaceId(str(views[0].workspace))
    with psycopg.connect(views[0].conninfo, autocommit=True) as watch:

        def wait_for_server() -> None:
            asked = "SELECT FROM pg_stat_activity WHERE pid = %s AND state = 'active'"
            while watch.execute(asked, (pid,)).rowcount:
                pass

        for step in itertools.count():
            # One connection, so that the next lease is of the same one.
            async with open_database(views[0].conninfo, workspace, connections_max=1) as narrow:
                view, other = narrow.seen_by(Sight("human:ana")), narrow.seen_by(Sight("human:bob"))
                await check(view)
                async with other.connection() as connection:
                    pid = connection.info.backend_pid
                task = asyncio.ensure_future(act(view, other))
                for _ in range(step):
                    await asyncio.sleep(0)
                    wait_for_server()
                if task.done():
                    return
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                # The viewer of the last lease first: what it left behind would not be set again.
                for next_view in (other, view):
                    await check(next_view)
                    async with next_view.connection() as connection:
                        row = await (await connection.execute("SHOW synchronous_commit")).fetchone()
                        assert row == ("local",)


async def test_a_cancellation_anywhere_leaves_no_rights_behind(views: list[Database]) -> None:
    dice = random.Random(21)
    wrong: list[BaseException] = []

    async def work(act: Callable[[], Awaitable[None]]) -> None:
        try:
            await act()
        except AssertionError as error:
            wrong.append(error)

    async def cancel_some() -> None:
        for _ in range(CANCELLATIONS // 4):
            view, other = dice.choice(views), dice.choice(views)
            act = dice.choice((nest, hurry, roll_back_quietly))
            # Twice as often the shortest one: its lease is mostly the change of the settings.
            given = partial(check, view) if dice.random() < 0.5 else partial(act, view, other)
            if dice.random() < 0.5:
                with anyio.move_on_after(dice.random() * 0.004):
                    await work(given)
                continue
            task = asyncio.create_task(work(given))
            for _ in range(dice.randrange(12)):
                await asyncio.sleep(0)
            if dice.random() < 0.5:
                await asyncio.sleep(dice.random() * 0.004)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async with anyio.create_task_group() as group:
        for _ in range(4):
            group.start_soon(cancel_some)
    for view in views * 3:
        await check(view)
        await read(view)
    assert wrong == []
    # None is missing from the pool, and each waits for the disk again.
    with anyio.fail_after(10):
        async with contextlib.AsyncExitStack() as stack:
            for view in views[:CONNECTIONS]:
                connection = await stack.enter_async_context(view.connection())
                row = await (await connection.execute("SHOW synchronous_commit")).fetchone()
                assert row == ("local",)


@pytest.mark.parametrize("block", ["keep_together", "hurry"])
async def test_two_tasks_of_one_block_keep_their_viewers(views: list[Database], block: str) -> None:
    """The second would change the viewer of the first between two of its statements."""
    view, other = views[0], views[1]
    has_changed = asyncio.Event()

    async def change_viewer() -> None:
        await check(other)
        has_changed.set()

    async with getattr(view, block)():
        async with view.connection() as connection:
            task = asyncio.create_task(change_viewer())
            await has_changed.wait()
            assert await settings_of(connection) == (str(view.workspace), view.sight)
        await task


@pytest.mark.parametrize("block", ["keep_together", "hurry"])
async def test_a_block_within_a_block_gives_the_viewer_back(
    views: list[Database], block: str
) -> None:
    view, other = views[0], views[1]
    own = (str(view.workspace), view.sight)
    async with getattr(view, block)(), view.connection() as connection:
        await check(other)
        assert await settings_of(connection) == own
        with contextlib.suppress(Conflict):
            async with other.connection() as same, same.transaction():
                assert same is connection
                raise Conflict
        assert await settings_of(connection) == own
        async with other.keep_together():
            await check(other)
        assert await settings_of(connection) == own
        await check(other)
        await read(view)


async def test_a_block_that_ends_in_another_context_lends_its_connection_no_more(
    views: list[Database],
) -> None:
    """A generator that is closed by the garbage collection does so."""
    view, other = views[0], views[1]
    kept = view.hurry()
    await kept.__aenter__()
    with pytest.raises(ValueError, match="different Context"):
        await asyncio.create_task(kept.__aexit__(None, None, None), context=contextvars.Context())
    # This task still has the variable, and must not use what another one may have leased by now.
    async with other.connection() as leased:
        await check(view)
        assert await settings_of(leased) == (str(other.workspace), other.sight)
