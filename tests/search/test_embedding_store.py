"""Vectors in the database: what lies near, with and without the index, inside one workspace."""

import math
import random
from dataclasses import replace

import psycopg
import pytest

from turntree.api import Tree
from turntree.core.message import assistant, user
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, open_database, prepare_database
from turntree.search.embedding import Neighbor
from turntree.search.embedding_source import StoredEmbedding
from turntree.search.embedding_store import EmbeddingStore
from turntree.search.results import Vector
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

DIMS = 384
COUNT = 600


def a_vector(dice: random.Random) -> Vector:
    numbers = [dice.gauss(0, 1) for _ in range(DIMS)]
    length = math.sqrt(sum(x * x for x in numbers))
    return tuple(x / length for x in numbers)


def near_to(vector: Vector, dice: random.Random, share: float) -> Vector:
    mixed = [a * (1 - share) + b * share for a, b in zip(vector, a_vector(dice), strict=True)]
    length = math.sqrt(sum(x * x for x in mixed))
    return tuple(x / length for x in mixed)


@pytest.fixture
def meanings(database: Database) -> EmbeddingStore:
    return EmbeddingStore(database)


async def fill(meanings: EmbeddingStore, world: FakeClock) -> list[StoredEmbedding]:
    dice = random.Random(3)
    middles = [a_vector(dice) for _ in range(20)]
    made = [
        StoredEmbedding(world.new_id(), "agent" if place % 5 == 0 else "task", vector)
        for place in range(COUNT)
        for vector in [near_to(middles[place % 20], dice, 0.4)]
    ]
    await meanings.put("toy", made, seen_from=await meanings.horizon())
    return made


def ids(found: list[Neighbor]) -> list[str]:
    return [one.id for one in found]


@pytest.mark.slow
async def test_the_index_finds_what_comparing_all_of_them_finds(
    meanings: EmbeddingStore, world: FakeClock
) -> None:
    made = await fill(meanings, world)
    indexed = replace(meanings, exact_max=0)
    for one in made[:10]:
        for kinds in ([], ["agent"], ["agent", "task"]):
            exact = await meanings.list_near("toy", one.vector, limit=10, kinds=kinds)
            found = await indexed.list_near("toy", one.vector, limit=10, kinds=kinds)
            assert ids(found) == ids(exact)
            assert [a.likeness for a in found] == pytest.approx([a.likeness for a in exact])
            assert not kinds or {near.kind for near in found} <= set(kinds)
        without = await indexed.list_near("toy", one.vector, limit=10, without=one.id)
        assert one.id not in ids(without)


@pytest.mark.slow
async def test_many_are_found_by_the_index_and_not_by_comparing(
    meanings: EmbeddingStore, world: FakeClock, conninfo: str
) -> None:
    made = await fill(meanings, world)
    await replace(meanings, exact_max=0).list_near("toy", made[0].vector, limit=3)
    # What PostgreSQL counts is told a moment after the work, or when the connection ends.
    async with meanings.database.connection() as connection:
        await connection.execute("SELECT pg_stat_force_next_flush()")
    with psycopg.connect(conninfo) as connection_:
        row = connection_.execute(
            "SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE indexrelname = 'embeddings_384'"
        ).fetchone()
    assert row is not None
    assert row[0] == 1


async def test_no_vector_is_seen_from_another_workspace(
    meanings: EmbeddingStore, world: FakeClock, conninfo: str
) -> None:
    made = await fill(meanings, world)
    elsewhere = await prepare_database(conninfo, "elsewhere", FakeClock(99).new_id())
    async with open_database(conninfo, elsewhere, sight=EVERYTHING) as other:
        theirs = EmbeddingStore(other)
        for exact_max in (0, 5_000):
            looked = replace(theirs, exact_max=exact_max)
            assert await looked.list_near("toy", made[0].vector, limit=10) == []
        assert await theirs.find(made[0].id, "toy") is None
        assert await theirs.list_stats() == []


async def test_vector_without_turn_is_not_stored(
    meanings: EmbeddingStore, world: FakeClock, tree: Tree
) -> None:
    turn = (await tree.turns.record("main", [user("hello")], [assistant("hi")])).turn.id
    dice = random.Random(1)
    horizon = await meanings.horizon()
    kept = [StoredEmbedding(id, "turn", a_vector(dice)) for id in (turn, world.new_id())]
    await meanings.put("toy", kept, seen_from=horizon)
    assert await meanings.list_digests("toy", [one.id for one in kept]) == {turn: None}
    await tree.turns.erase(turn, 0, reason="asked")
    await meanings.put("toy", kept, seen_from=horizon)
    assert await meanings.find(turn, "toy") is None
