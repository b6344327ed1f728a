"""Stories: what a person can do with a tree, one promise each, through the public door."""

import pytest

import turntree
from turntree import Label, ModelCall, Principal, Tree, Usage, assistant, user

pytestmark = pytest.mark.anyio


async def say(tree: Tree, session: str, *words: str) -> list[turntree.ThreadTurn]:
    return [await tree.turns.record(session, [user(w)], [assistant(w.upper())]) for w in words]


async def titles(tree: Tree, revision: str) -> list[str]:
    return [placed.turn.title for placed in await tree.threads.read(revision)]


async def test_every_turn_is_an_address_that_brings_its_ancestry(tree: Tree) -> None:
    for placed in await say(tree, "main", "one", "two", "three"):
        thread = await tree.threads.read(placed.turn.digest[:20])
        assert thread[-1] == placed
        assert [above.depth for above in thread] == list(range(1, placed.depth + 1))


async def test_a_fork_may_begin_anywhere_even_after_the_last_reply(tree: Tree) -> None:
    turns = await say(tree, "main", "one", "two", "three")
    for placed in turns:
        fork = await tree.sessions.fork(placed.turn.id, f"from-{placed.depth}")
        assert fork.head == placed.turn.id
        await say(tree, fork.label, "another")
    assert await titles(tree, "from-3") == ["one", "two", "three", "another"]
    assert await titles(tree, "main") == ["one", "two", "three"]


async def test_a_turn_in_no_session_can_still_be_continued(tree: Tree) -> None:
    _, lost = await say(tree, "main", "one", "two")
    await tree.sessions.rewind("main", "main~1")
    await say(tree, "main", "other two")
    await tree.sessions.fork(lost.turn.id, "found")
    assert await titles(tree, "found") == ["one", "two"]


async def test_a_rewind_loses_nothing_and_undo_takes_it_back(tree: Tree) -> None:
    await say(tree, "main", "one", "two", "three")
    await tree.sessions.rewind("main", "main~2")
    assert await titles(tree, "main") == ["one"]
    await tree.sessions.undo("main")
    assert await titles(tree, "main") == ["one", "two", "three"]


async def test_leaves_are_a_question_about_turns_not_sessions(tree: Tree) -> None:
    _, second = await say(tree, "main", "one", "two")
    await tree.sessions.fork("main~1", "inner")
    assert await tree.revisions.threads.list_leaves() == [second.turn.id]
    (third,) = await say(tree, "inner", "three")
    assert await tree.revisions.threads.list_leaves() == sorted([second.turn.id, third.turn.id])
    assert len(await tree.turns.list_children("main~1")) == 2


async def test_the_reflog_says_where_a_session_stood_and_who_held_a_turn(tree: Tree) -> None:
    first, second = await say(tree, "main", "one", "two")
    await tree.sessions.rewind("main", "main~1")
    moves = await tree.sessions.list_moves("main")
    assert [move.kind for move in moves] == ["rewind", "advance", "advance", "create"]
    stood = await tree.resolve(f"main@{{{moves[1].at}}}")
    assert stood.turn == second.turn.id
    other = await tree.sessions.fork(first.turn.id, "other")
    main = await tree.sessions.get("main")
    holders = tree.revisions.threads.list_sessions_holding
    assert await holders(second.turn.id) == [main.id]
    assert await holders(first.turn.id) == sorted([main.id, other.id])


async def test_a_name_leads_to_its_session_or_begins_one(tree: Tree) -> None:
    await say(tree, "channel:sms:1", "hello")
    promoted = await tree.sessions.promote("channel:sms:1", "entity:ana")
    assert promoted.aliases == ("channel:sms:1",)
    await say(tree, "channel:sms:1", "it is me")
    assert await titles(tree, "entity:ana") == ["hello", "it is me"]
    assert (await tree.sessions.get_or_create("entity:bob")).head is None


async def test_a_compaction_of_strangers_is_refused(tree: Tree) -> None:
    (elsewhere,) = await say(tree, "other", "one")
    await say(tree, "main", "one")
    details = turntree.Compaction(elsewhere.turn.id, None, 1)
    with pytest.raises(turntree.InvalidOperation):
        await tree.turns.record("main", [], [assistant("summary")], compaction=details)


async def test_one_session_may_be_answered_by_many_models(tree: Tree) -> None:
    for model in ("small", "large"):
        call = ModelCall(model, Usage(input=10, output=2))
        await tree.turns.record("main", [user("q")], [assistant("a")], calls=[call])
    thread = await tree.threads.read("main")
    assert [placed.turn.header.model for placed in thread] == ["small", "large"]
    calls = await tree.turns.list_calls([placed.turn.id for placed in thread])
    assert [call.model for found in calls.values() for call in found] == ["small", "large"]


async def test_a_turn_says_who_acted_and_for_whom(tree: Tree) -> None:
    by = Principal("agent", "atlas", Principal("human", "ana"))
    placed = await tree.turns.record("main", [user("q")], [assistant("a")], by=by)
    assert (await tree.turns.get(placed.turn.id)).turn.header.by == by
    assert (await tree.sessions.list_moves("main"))[0].by == "agent:atlas"


async def test_a_second_try_is_a_sibling_that_says_so(tree: Tree) -> None:
    await say(tree, "main", "one")
    failed = await tree.turns.record("main", [user("two")], [], outcome="failed")
    await tree.sessions.rewind("main", "main~1")
    again = await tree.turns.record(
        "main", [user("two")], [assistant("2")], retry_of=failed.turn.id
    )
    assert again.turn.header.retry_of == failed.turn.id
    assert again.parent == failed.parent


async def test_a_tag_is_put_on_and_taken_off_with_an_event_each(tree: Tree) -> None:
    await say(tree, "main", "one")
    assert await tree.turns.tag("main", "good")
    assert not await tree.turns.tag("main", "good")
    assert await tree.turns.untag("main", "good")
    kinds = [event.kind for _, event in await tree.feed.read()]
    assert kinds[-2:] == ["node.tagged", "node.untagged"]


async def test_every_change_of_a_session_leaves_an_event(tree: Tree) -> None:
    await say(tree, "main", "one", "two")
    await tree.sessions.rewind("main", "main~1")
    await tree.sessions.undo("main")
    await tree.sessions.rename("main", "trunk")
    await tree.sessions.alias("trunk", "stem")
    await tree.sessions.set_status("trunk", "archived")
    await tree.sessions.set_status("trunk", "active")
    session = await tree.sessions.get(Label("stem"))
    kinds = [fact.event.kind for fact in await tree.ledger.facts(session.id)]
    assert kinds == [
        "session.created",
        *["session.head_moved"] * 4,
        "session.renamed",
        "session.aliased",
        "session.archived",
        "session.unarchived",
    ]
