"""Rebuilding what follows from the facts, and reading the ledger by two processes at once."""

from contextlib import closing
from dataclasses import replace
from uuid import UUID

import pytest
from psycopg.conninfo import make_conninfo

from tests.ledger.planted_events import plant, planting, told_in
from turntree.api import Tree
from turntree.core.errors import DatabaseUnavailable
from turntree.db.database import Database, prepare_database
from turntree.integrity import repair
from turntree.integrity import scan_ranges as ranges
from turntree.integrity.fsck import fsck
from turntree.integrity.repair import repair_derived
from turntree.integrity.scan import RangeScanner
from turntree.integrity.scan_process import ScanProcess
from turntree.integrity.shared_snapshot import SharedSnapshot
from turntree.testing.fakes import FakeClock
from turntree.testing.hashing_embedder import HashingEmbedder

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture(scope="module")
def template(server: str, template: str) -> str:
    """A database in which the story was told, so that every test here begins after it."""
    return told_in(server, template)


DERIVED = {
    "tool_calls": "DELETE FROM turntree.tool_calls",
    "model_calls": "UPDATE turntree.model_calls SET output_tokens = 1",
    "message_files": "UPDATE turntree.message_files SET path = 'b.py'",
    "compactions": "UPDATE turntree.compactions SET turns_summarized = 9",
    "object_holders": "DELETE FROM turntree.object_holders",
    "tags": "INSERT INTO turntree.tags SELECT workspace_id, id, 'no' FROM turntree.turns",
    "search_documents": "INSERT INTO turntree.search_documents"
    " SELECT workspace_id, gen_random_uuid(), 1, '' FROM turntree.turns",
    "embeddings": "INSERT INTO turntree.embeddings SELECT workspace_id, id, 'toy',"
    " array_fill(1::real, ARRAY[CASE WHEN depth = 5 THEN 2 ELSE 3 END]) FROM turntree.turns",
    "session_reach": "UPDATE turntree.session_reach SET max_depth = max_depth + 1",
    "programs": "UPDATE turntree.programs SET state = 'asleep', details = '{{}}', event_seq = 99",
}


@pytest.mark.parametrize("table", DERIVED)
async def test_a_projection_is_rebuilt_from_the_facts(
    database: Database, conninfo: str, table: str
) -> None:
    plant(conninfo, DERIVED[table])
    broken = await fsck(database)
    told = repair_derived(conninfo, database.workspace, dry_run=True)
    assert {change.table for change in told} == {table}
    assert await fsck(database) == broken
    assert repair_derived(conninfo, database.workspace, dry_run=False) == told
    # Sound means too that no trigger is left off.
    assert await fsck(database) == []
    assert repair_derived(conninfo, database.workspace, dry_run=False) == []


async def test_a_program_whose_row_is_gone_comes_back_with_its_grants(
    database: Database, conninfo: str
) -> None:
    grants = b"SELECT * FROM turntree.program_grants ORDER BY 2, 3, 4"
    rows = b"SELECT id, name, state, version, details FROM turntree.programs ORDER BY id"
    with planting(conninfo) as connection:
        before = connection.execute(grants).fetchall(), connection.execute(rows).fetchall()
        assert before[0]
    plant(conninfo, "DELETE FROM turntree.program_grants")
    plant(conninfo, "DELETE FROM turntree.programs WHERE kind = 'agent'")
    changes = repair_derived(conninfo, database.workspace, dry_run=False)
    assert {change.table for change in changes} == {"programs", "program_grants"}
    with planting(conninfo) as connection:
        after = connection.execute(grants).fetchall(), connection.execute(rows).fetchall()
    assert after == before
    assert await fsck(database) == []


async def test_programs_come_back_however_many_are_lost(
    database: Database, conninfo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair, "PAGE_PROGRAMS_MAX", 2)
    plant(conninfo, "DELETE FROM turntree.programs")
    lost = repair_derived(conninfo, database.workspace, dry_run=True)
    assert len([change for change in lost if change.table == "programs"]) > 2
    assert repair_derived(conninfo, database.workspace, dry_run=False) == lost
    assert await fsck(database) == []


async def test_programs_that_have_each_others_names_get_their_own_back(
    database: Database, conninfo: str
) -> None:
    names = b"SELECT id, name FROM turntree.programs WHERE kind <> 'session' ORDER BY id"
    with planting(conninfo) as connection:
        before = connection.execute(names).fetchall()
        (one, his), (other, hers), *_ = before
    for id, name in ((one, "between"), (other, his), (one, hers)):
        plant(conninfo, f"UPDATE turntree.programs SET name = '{name}' WHERE id = '{id}'")  # noqa: S608
    changes = repair_derived(conninfo, database.workspace, dry_run=False)
    assert {UUID(change.subject) for change in changes} == {one, other}
    with planting(conninfo) as connection:
        assert connection.execute(names).fetchall() == before
    assert await fsck(database) == []


async def test_no_program_is_rebuilt_from_events_that_prove_nothing(
    database: Database, conninfo: str
) -> None:
    plant(conninfo, "UPDATE turntree.programs SET state = 'asleep'")
    plant(
        conninfo,
        "UPDATE turntree.events SET body = replace(replace(body, 'human:', 'agent:'),"
        " 'system:', 'agent:') WHERE kind LIKE '%.%'",
    )
    changes = repair_derived(conninfo, database.workspace, dry_run=True)
    assert "programs" not in {change.table for change in changes}


async def test_a_vector_that_was_taken_out_is_made_again(
    database: Database, conninfo: str, tree: Tree
) -> None:
    search = replace(tree.search, embedder=HashingEmbedder())
    await search.fill_meanings()
    count = b"SELECT count(*) FROM turntree.embeddings"
    with planting(conninfo) as connection:
        before = connection.execute(count).fetchone()
        connection.execute(
            "UPDATE turntree.embeddings SET vector = array_fill(1::real, ARRAY[3])"
            " WHERE node_id = (SELECT node_id FROM turntree.embeddings LIMIT 1)"
        )
        (change,) = repair_derived(conninfo, database.workspace, dry_run=False)
        assert (change.table, change.removed, change.added) == ("embeddings", 1, 0)
        assert connection.execute(count).fetchone() != before
        await search.fill_meanings()
        assert connection.execute(count).fetchone() == before
    assert await fsck(database) == []


async def test_nothing_is_rebuilt_from_bytes_that_prove_nothing(
    database: Database, conninfo: str
) -> None:
    plant(conninfo, "UPDATE turntree.turn_bodies SET body = replace(body, 'use-1', 'use-2')")
    plant(conninfo, "UPDATE turntree.events SET body = replace(body, 'opus', 'grand')")
    assert repair_derived(conninfo, database.workspace, dry_run=True) == []


async def test_another_workspace_is_not_repaired(database: Database, conninfo: str) -> None:
    plant(conninfo, "DELETE FROM turntree.tool_calls")
    other = await prepare_database(conninfo, "empty", FakeClock(1).new_id())
    assert repair_derived(conninfo, UUID(other), dry_run=False) == []
    assert repair_derived(conninfo, database.workspace, dry_run=True) != []


@pytest.mark.parametrize("command", [None, ("/does/not/exist",), ("/bin/false",)])
async def test_a_second_process_helps_if_it_can(
    database: Database, conninfo: str, monkeypatch: pytest.MonkeyPatch, command: tuple[str] | None
) -> None:
    monkeypatch.setattr(ranges, "SECOND_PROCESS_FROM_TURNS", 0)
    monkeypatch.setattr(ranges, "RANGE_TURNS_MIN", 1)
    monkeypatch.setattr(ranges, "RANGES_WANTED", 1000)
    if command is not None:
        monkeypatch.setattr(ranges, "ScanProcess", lambda moment: ScanProcess(moment, command))
    assert await fsck(database) == []
    plant(conninfo, "UPDATE turntree.tool_calls SET tool = 'write'")
    with planting(conninfo) as connection:
        calls = connection.execute("SELECT turn_id::text FROM turntree.tool_calls").fetchall()
    assert {found.subject for found in await fsck(database)} == {turn for (turn,) in calls}


async def test_another_process_sees_what_this_one_sees(database: Database, conninfo: str) -> None:
    plant(conninfo, DERIVED["tool_calls"])
    plant(conninfo, "UPDATE turntree.events SET body = body || ' '")
    with planting(conninfo) as connection, connection.transaction():
        ((snapshot,),) = connection.execute("SELECT pg_export_snapshot()").fetchall()
        moment = SharedSnapshot(database.conninfo, database.workspace, str(snapshot))
        with moment.joined() as joined, closing(ScanProcess(moment)) as elsewhere:
            here = RangeScanner(joined, moment.workspace).read(ranges.FIRST, ranges.LAST)
            assert elsewhere.read(ranges.FIRST, ranges.LAST) == here
    assert here.complaints
    assert here.differences


async def test_a_database_that_went_away_is_said_to_be_unreachable(
    database: Database, conninfo: str
) -> None:
    gone = replace(database, conninfo=make_conninfo(conninfo, dbname="nowhere"))
    with pytest.raises(DatabaseUnavailable):
        await fsck(gone)
    moment = SharedSnapshot(gone.conninfo, gone.workspace, "")
    with pytest.raises(DatabaseUnavailable):
        await ranges.RangeScan(moment, [(ranges.FIRST, ranges.LAST)], lambda _: True).run(0)


async def test_a_lost_program_whose_name_was_taken_comes_back_under_its_id(
    database: Database, conninfo: str, tree: Tree
) -> None:
    lost = await tree.programs.create("task", "errand", {"title": "first"})
    plant(conninfo, f"DELETE FROM turntree.programs WHERE id = '{lost.id}'")  # noqa: S608
    taken = await tree.programs.create("task", "errand", {"title": "second"})
    told = repair_derived(conninfo, database.workspace, dry_run=True)
    assert repair_derived(conninfo, database.workspace, dry_run=False) == told
    assert (await tree.programs.get("errand")).id == taken.id
    assert (await tree.programs.get(lost.id)).config["title"] == "first"
    assert await fsck(database) == []
    assert repair_derived(conninfo, database.workspace, dry_run=False) == []
