"""Connections: several questions in one transaction, for one task alone."""

import anyio
import anyio.lowlevel
import pytest

from turntree.domain.errors import Conflict, NotFound
from turntree.domain.message import assistant, user
from turntree.runtime.tree import Tree
from turntree.store.database import Database
from turntree.store.ledger import PostgresLedger

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
    ledger = PostgresLedger(database)

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
