"""Two writers in every order of their statements: the ledger is as if one had come first."""

from dataclasses import replace

import pytest

from proofs.drills import plants
from proofs.drills.audit import audit_session, read_thread
from proofs.drills.crowd import gather, write
from proofs.drills.history import judge_appends
from proofs.drills.kills import kill_everywhere
from proofs.drills.pairs import PAIRS, Pair, explore
from turntree.core.viewer import EVERYTHING
from turntree.db.database import open_database
from turntree.integrity.fsck import fsck

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
async def test_every_interleaving_of_two_writers_is_valid(conninfo: str, pair: Pair) -> None:
    (explored,) = await explore(conninfo, [pair])
    assert explored.problems == ()
    assert explored.orders >= 2


async def test_interleavings_detect_missing_lock(conninfo: str) -> None:
    await plants.install(conninfo, plants.MISSING_LOCK)
    (explored,) = await explore(conninfo, PAIRS[:1])
    assert any("the head was" in problem for problem in explored.problems)


async def test_concurrent_writers_in_one_session_lose_no_turn(conninfo: str) -> None:
    crowd = replace(await gather(conninfo, name="crowd", writers=16), turns_each=6)
    acks = await write(crowd)
    async with open_database(conninfo, crowd.workspace, sight=EVERYTHING) as database:
        thread = [placed.turn.id for placed in await read_thread(database, crowd.session)]
        assert judge_appends(acks, thread) == []
        assert len(thread) == 16 * 6
        assert await audit_session(database, crowd.session) == []
        assert await fsck(database) == []


async def test_killed_writer_leaves_each_turn_once(conninfo: str) -> None:
    killed = await kill_everywhere(conninfo)
    assert killed.problems == ()
    assert killed.points >= 28


async def test_interleavings_detect_lost_update(conninfo: str) -> None:
    await plants.install(conninfo, plants.LOST_UPDATE)
    crowd = await gather(conninfo, name="crowd", writers=8)
    acks = await write(replace(crowd, turns_each=5, is_patient=True))
    async with open_database(conninfo, crowd.workspace, sight=EVERYTHING) as database:
        thread = [placed.turn.id for placed in await read_thread(database, crowd.session)]
    assert any(problem.startswith("lost: ") for problem in judge_appends(acks, thread))
