"""Bulk import: the same tree as by hand, in bounded memory, whatever row-level security says."""

import psycopg
import pytest

from turntree.api import Tree
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.ids import Digest, TurnId
from turntree.core.message import ToolResult, ToolUse, assistant, tool, user
from turntree.core.principal import Principal
from turntree.core.turn import Header, seal
from turntree.core.usage import ModelCall, Usage, recorded
from turntree.db.database import Database
from turntree.testing.fakes import FakeClock
from turntree.transcripts.bulk_copy import import_turns
from turntree.transcripts.incoming import ImportedTurn, ImportProgress

pytestmark = pytest.mark.anyio


def grow(world: FakeClock, parents: list[int | None]) -> list[ImportedTurn]:
    """Seal one turn after each named earlier one."""
    grown: list[ImportedTurn] = []
    for number, place in enumerate(parents):
        above = None if place is None else grown[place].sealed.turn
        digest: Digest | None = None if above is None else above.digest
        at = world.now()
        header = Header(TurnId(world.new_id()), digest, Principal("human", "ana"), at, at)
        reply = [
            assistant(ToolUse(f"call-{number}", "read", {"path": "a.py"})),
            tool(ToolResult(f"call-{number}", "ok", "text")),
            assistant(f"answer {number}"),
        ]
        sealed = seal(header, [user(f"question {number}")], reply)
        calls = [ModelCall("m", Usage(10, 5), call_id=f"q{number}")]
        journal = recorded(sealed.turn, calls)
        grown.append(ImportedTurn(sealed, None if above is None else above.id, calls, journal))
    return grown


TREE: list[int | None] = [None, 0, 1, 2, 1, 4, 1, None, 7, 5, 5, 9, 2]


async def check(tree: Tree, grown: list[ImportedTurn]) -> None:
    """Every thread reads as its parents say, and relations agree."""
    above = {item.sealed.turn.id: item.parent for item in grown}
    for item in grown:
        expected: list[TurnId] = []
        at: TurnId | None = item.sealed.turn.id
        while at is not None:
            expected.insert(0, at)
            at = above[at]
        thread = await tree.threads.read(item.sealed.turn.id)
        assert [placed.turn.id for placed in thread] == expected
        for other in grown:
            is_above = other.sealed.turn.id in expected
            assert is_above == await tree.threads.is_ancestor(other.sealed.turn.id, expected[-1])


@pytest.mark.parametrize("batch_turns", [1, 3, 2000])
async def test_an_import_gives_the_tree_it_was_given(
    tree: Tree, database: Database, world: FakeClock, batch_turns: int
) -> None:
    grown = grow(world, TREE)
    assert (await import_turns(database, grown, batch_turns=batch_turns)).added == len(TREE)
    await check(tree, grown)
    usage, calls = await tree.threads.usage(*(item.sealed.turn.id for item in grown))
    assert (usage.input, calls) == (10 * len(TREE), len(TREE))


async def test_without_the_right_to_bypass_the_policies_the_import_is_staged(
    tree: Tree, database: Database, world: FakeClock, conninfo: str
) -> None:
    grown = grow(world, TREE)
    with psycopg.connect(conninfo, autocommit=True) as owner:
        owner.execute("ALTER ROLE turntree_importer NOBYPASSRLS")
        try:
            assert (await import_turns(database, grown, batch_turns=4)).added == len(TREE)
        finally:
            owner.execute("ALTER ROLE turntree_importer BYPASSRLS")
    await check(tree, grown)


async def test_importing_twice_changes_nothing(database: Database, world: FakeClock) -> None:
    grown = grow(world, TREE)
    await import_turns(database, grown[:5])
    again = await import_turns(database, grown)
    assert (again.added, again.known) == (len(TREE) - 5, 5)
    assert (await import_turns(database, grown)).added == 0


async def test_an_import_goes_on_beside_turns_that_were_appended(
    tree: Tree, database: Database, world: FakeClock
) -> None:
    grown = grow(world, TREE)
    await import_turns(database, grown)
    fork = await tree.sessions.fork(grown[3].sealed.turn.id, "side")
    placed = await tree.turns.record("side", [user("more")], [assistant("yes")])
    assert fork.head == grown[3].sealed.turn.id
    assert placed.depth == 5
    more = grow(FakeClock(7), [None])
    await import_turns(database, more)
    await check(tree, grown)


async def test_a_turn_before_its_parent_is_refused(database: Database, world: FakeClock) -> None:
    with pytest.raises(NotFound):
        await import_turns(database, grow(world, [None, 0])[1:])


async def test_a_turn_built_on_another_parent_is_refused(
    database: Database, world: FakeClock
) -> None:
    first, second, third = grow(world, [None, 0, 1])
    wrong = ImportedTurn(third.sealed, first.sealed.turn.id)
    with pytest.raises(InvalidOperation):
        await import_turns(database, [first, second, wrong])


async def test_progress_is_reported_after_each_batch(database: Database, world: FakeClock) -> None:
    seen: list[int] = []

    def report(progress: ImportProgress) -> None:
        seen.append(progress.added)

    await import_turns(database, grow(world, [None, 0, 1, 2, 3]), batch_turns=2, report=report)
    assert seen == [2, 4, 5]
