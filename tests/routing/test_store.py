"""What speaks for a turn, as the database answers it: words by rarity, holders, closed doors."""

import math
from dataclasses import replace

import pytest

from turntree.api import Tree
from turntree.core.ids import TurnId
from turntree.core.message import assistant, user
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, open_database, prepare_database
from turntree.routing.rank import terms_of
from turntree.routing.store import ProgramTexts, RoutingStore
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
def routing(database: Database) -> RoutingStore:
    return RoutingStore(database)


async def record(tree: Tree, session: str, said: str) -> TurnId:
    return (await tree.turns.record(session, [user(said)], [assistant("done")])).turn.id


async def test_a_word_counts_by_how_rare_it_is(tree: Tree, routing: RoutingStore) -> None:
    both = await record(tree, "a", "zebra giraffe")
    one = await record(tree, "b", "giraffe")
    await record(tree, "c", "lion")
    await tree.search.fill()
    found = await routing.list_by_any_word(terms_of("a zebra, a giraffe or a whale"), limit=10)
    assert [turn for turn, _ in found] == [both, one]
    assert found[0][1] == pytest.approx({"zebra": math.log(4), "giraffe": math.log(2.5)})
    assert found[1][1] == pytest.approx({"giraffe": math.log(2.5)})
    assert await routing.list_by_any_word(terms_of("zebra giraffe"), limit=1) == found[:1]
    assert await routing.list_by_any_word((), limit=10) == []


async def test_a_word_that_stands_everywhere_is_passed_over(
    tree: Tree, routing: RoutingStore
) -> None:
    turns = [await record(tree, "a", f"zebra number{place}") for place in range(4)]
    await tree.search.fill()
    strict = replace(routing, common=3)
    found = await strict.list_by_any_word(terms_of("zebra number2"), limit=10)
    assert [(turn, list(words)) for turn, words in found] == [(turns[2], ["number2"])]


async def test_every_holder_is_named_the_one_to_continue_in_first(
    tree: Tree, routing: RoutingStore
) -> None:
    root = await record(tree, "main", "one")
    await tree.sessions.fork("main", "at-root")
    head = await record(tree, "main", "two")
    await tree.sessions.fork("main~1", "old")
    await tree.sessions.set_status("old", "archived")
    alone = await record(tree, "gone", "three")
    await tree.sessions.set_status("gone", "deleted")
    found = await routing.list_holders([root, head, alone], to="human:ana")
    assert [(one.label, one.is_active) for one in found[root]] == [
        ("at-root", True), ("main", True), ("old", False),
    ]  # fmt: skip
    assert [(one.label, one.head) for one in found[head]] == [("main", head)]
    assert found[alone] == []


async def test_a_closed_session_is_marked_for_who_may_not_read_it(
    tree: Tree, routing: RoutingStore
) -> None:
    turn = await record(tree, "secret", "one")
    program = await tree.programs.create("session", "secret", {}, visibility="private")
    for who, is_closed in (("human:ana", False), ("human:mallory", True)):
        (held,) = (await routing.list_holders([turn], to=who))[turn]
        assert held.is_closed is is_closed
        assert await routing.list_closed([held.session], to=who) == (
            {held.session} if is_closed else set()
        )
    await tree.programs.invite("secret", "human:mallory")
    (held,) = (await routing.list_holders([turn], to="human:mallory"))[turn]
    assert (str(held.session), held.is_closed) == (program.id, False)


async def test_nothing_is_seen_from_another_workspace(tree: Tree, conninfo: str) -> None:
    turn = await record(tree, "main", "zebra")
    await tree.search.fill()
    await tree.programs.create("agent", "atlas", {"description": "zebra"})
    elsewhere = await prepare_database(conninfo, "elsewhere", FakeClock(99).new_id())
    async with open_database(conninfo, elsewhere, sight=EVERYTHING) as other:
        theirs = RoutingStore(other)
        assert await theirs.list_by_any_word(terms_of("zebra"), limit=10) == []
        assert await theirs.list_holders([turn], to="human:ana") == {turn: []}
        assert await theirs.list_likeness("toy", (1.0,), [turn]) == {}
        assert await ProgramTexts(other, "human:ana").find("atlas") is None
