"""Connections: several questions in one transaction, for one task alone."""

import anyio
import anyio.lowlevel
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from turntree.api import Tree
from turntree.core.errors import Conflict, NotFound
from turntree.core.ids import WorkspaceId
from turntree.core.message import assistant, user
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, open_database
from turntree.ledger.store import Ledger

pytestmark = pytest.mark.anyio


async def transaction_of(database: Database) -> str:
    """Return which transaction a question is asked in."""
    async with database.connection() as connection:
        cursor = await connection.execute("SELECT pg_current_xact_id()::text")
        row = await cursor.fetchone()
    assert row is not None
    return str(row[0])


async def test_what_is_kept_together_is_one_transaction(database: Database) -> None:
    apart = {await transaction_of(database) for _ in range(3)}
    async with database.keep_together():
        together = {await transaction_of(database) for _ in range(3)}
    assert (len(apart), len(together)) == (3, 1)
    assert await transaction_of(database) not in together


async def test_what_is_kept_together_is_undone_together(database: Database) -> None:
    ledger = Ledger(database)

    async def put_in_vain() -> None:
        async with database.keep_together():
            digests.append(await ledger.put_object(b"one"))
            raise Conflict

    digests = [await ledger.put_object(b"two")]
    with pytest.raises(Conflict):
        await put_in_vain()
    assert await ledger.get_object(digests[0]) == b"two"
    with pytest.raises(NotFound):
        await ledger.get_object(digests[1])


async def test_another_task_is_not_drawn_in(database: Database) -> None:
    found: list[str] = []
    may_ask, asked = anyio.Event(), anyio.Event()

    async def ask() -> None:
        await may_ask.wait()
        found.append(await transaction_of(database))
        asked.set()

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await anyio.lowlevel.checkpoint()
        async with database.keep_together():
            found.append(await transaction_of(database))
            may_ask.set()
            await asked.wait()
    assert len(set(found)) == 2


async def test_a_turn_can_be_recorded_inside(tree: Tree, database: Database) -> None:
    async with database.keep_together():
        await tree.turns.record("main", [user("q")], [assistant("a")])
        placed = await tree.turns.get("main")
    assert (await tree.turns.get("main")).turn.id == placed.turn.id


async def test_a_key_is_held_by_one_and_let_go_however_the_block_ends(database: Database) -> None:
    async with database.holding("a") as first, database.holding("a") as second:
        assert (first, second) == (True, False)
        async with database.holding("b") as other:
            assert other
    with anyio.move_on_after(0.5) as scope:
        async with database.holding("a") as again:
            assert again
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    async with database.holding("a") as free:
        assert free


async def test_a_key_goes_with_its_connection(database: Database) -> None:
    async with database.holding("a") as held:
        assert held
        async with await psycopg.AsyncConnection.connect(database.conninfo) as owner:
            await owner.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_locks"
                " WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database"
                " WHERE datname = current_database()) AND pid <> pg_backend_pid()"
            )
        with anyio.fail_after(10):
            while True:
                async with database.holding("a") as again:
                    if again:
                        break
                await anyio.sleep(0.05)


async def disk_of(database: Database) -> str:
    """Return whether what is written now waits for the disk."""
    async with database.connection() as connection:
        row = await (await connection.execute("SHOW synchronous_commit")).fetchone()
    assert row is not None
    return str(row[0])


async def test_whoever_hurries_waits_for_no_disk_and_whoever_comes_next_does(
    database: Database,
) -> None:
    async def hurry_in_vain() -> None:
        async with patient.hurry():
            assert await disk_of(patient) == "off"
            raise Conflict

    careful = make_conninfo(database.conninfo, options="-c synchronous_commit=local")
    workspace = WorkspaceId(str(database.workspace))
    async with open_database(careful, workspace, connections_max=1, sight=EVERYTHING) as patient:
        async with patient.hurry():
            assert await disk_of(patient) == "off"
        assert await disk_of(patient) == "local"
        with pytest.raises(Conflict):
            await hurry_in_vain()
        assert await disk_of(patient) == "local"
