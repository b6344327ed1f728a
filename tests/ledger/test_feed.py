"""The feed: no reader ever skips a commit, however late it comes."""

import asyncio
import random
from typing import LiteralString

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from turntree.api import Tree
from turntree.core.event import BEGINNING, FeedPosition
from turntree.core.message import assistant, user
from turntree.db.database import Connection, Database, Row

pytestmark = pytest.mark.anyio

WRITERS = 8
COMMITS_EACH = 400
SESSION_EVENT = (
    "SELECT turntree.insert_event(%s, %s, %s, 'acme.noted', '2026-11-15T00:00:00.000Z', '{}')"
)


async def write(database: Database, writer: int) -> int:
    """Commit one event at a time, often late and sometimes not at all."""
    chance = random.Random(writer)
    stream = f"00000000-0000-7000-8000-{writer:012d}"
    kept = 0
    connection: Connection
    async with database.connection() as connection:
        for _ in range(COMMITS_EACH):
            async with connection.transaction():
                await connection.execute(SESSION_EVENT, (database.workspace, stream, kept))
                if chance.random() < 0.3:
                    await asyncio.sleep(chance.random() * 0.004)
                if chance.random() < 0.05:
                    raise psycopg.Rollback  # Leaves the block, and nothing behind.
                kept += 1
    return kept


async def rows_of(database: Database, query: LiteralString, number: int) -> list[Row]:
    """Ask something no reader of the product asks."""
    async with database.connection() as connection:
        return await (await connection.execute(query, (number,))).fetchall()


@pytest.mark.slow
async def test_feed_reader_sees_late_commit_that_sequence_reader_misses(
    tree: Tree, database: Database
) -> None:
    seen: list[tuple[str, int]] = []
    by_number: set[int] = set()
    position, number = BEGINNING, 0

    async def read() -> None:
        nonlocal position, number
        page = await tree.feed.read(position, limit=5000)
        seen.extend((event.stream, event.seq) for _, event in page)
        position = page[-1][0] if page else position
        rows = await rows_of(database, "SELECT n FROM turntree.events WHERE n > %s", number)
        by_number.update(n for (n,) in rows)
        number = max(by_number, default=0)

    writers = [asyncio.create_task(write(database, writer)) for writer in range(WRITERS)]
    while not all(task.done() for task in writers):
        await read()
    committed = sum([await task for task in writers])
    await read()
    assert committed > 2500
    assert len(seen) == len(set(seen)) == committed
    for writer in range(WRITERS):
        stream = f"00000000-0000-7000-8000-{writer:012d}"
        order = [seq for where, seq in seen if where == stream]
        assert order == sorted(order)
    # The control: a reader that trusts the numbers alone misses what committed behind its back.
    assert len(by_number) < committed


async def test_a_long_transaction_elsewhere_delays_the_feed_and_loses_nothing(
    tree: Tree, database: Database, server: str
) -> None:
    await tree.turns.record("main", [user("one")], [assistant("1")])
    before = [event for _, event in await tree.feed.read()]
    with psycopg.connect(make_conninfo(server, dbname="postgres")) as elsewhere:
        elsewhere.execute("CREATE TEMP TABLE anything (n int)")
        elsewhere.execute("INSERT INTO anything VALUES (1)")
        await tree.turns.record("main", [user("two")], [assistant("2")])
        assert [event for _, event in await tree.feed.read()] == before
    after = [event for _, event in await tree.feed.read()]
    assert after[: len(before)] == before
    assert len(after) == len(before) + 1


async def test_pages_join_without_gap_or_overlap(tree: Tree) -> None:
    for number in range(7):
        await tree.turns.record("main", [user(f"{number}")], [assistant("ok")])
    whole = await tree.feed.read()
    paged: list[tuple[FeedPosition, object]] = []
    position = BEGINNING
    while page := await tree.feed.read(position, limit=2):
        paged.extend(page)
        position = FeedPosition.parse(str(page[-1][0]))
    assert paged == whole


async def test_a_stored_event_is_what_its_id_proves(tree: Tree, database: Database) -> None:
    await tree.turns.record("main", [user("one")], [assistant("1")])
    wrong = await rows_of(
        database,
        "SELECT 1 FROM turntree.events WHERE id <> sha256(convert_to(body, 'UTF8')) AND n > %s",
        0,
    )
    assert wrong == []
