"""Stories through the public door: what the tree promises, one story a promise."""

import random
from dataclasses import replace
from typing import Any
from uuid import UUID

import orjson
import pytest

import turntree
from turntree.core import turn as turns
from turntree.core.compaction import visible
from turntree.core.message import PART_INLINE_MAX_BYTES, ObjectRef, Part, part_from_json
from turntree.core.session import MoveKind, SessionMove, undo_target
from turntree.db.database import Database
from turntree.ledger.thread_store import SQL
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio

Tree = turntree.Tree
Placed = turntree.ThreadTurn
user, assistant, tool = turntree.user, turntree.assistant, turntree.tool


async def say(tree: Tree, session: str, *words: str, **details: Any) -> list[Placed]:
    return [
        await tree.turns.record(session, [user(word)], [assistant(f"{word}!")], **details)
        for word in words
    ]


def titles(placed: tuple[Placed, ...]) -> list[str]:
    return [one.turn.title for one in placed]


def words_of(placed: tuple[Placed, ...]) -> list[str]:
    return [one.turn.reply[0].text for one in placed]


async def compact(tree: Tree, session: str, through: Placed, kept: Placed | None) -> Placed:
    details = turntree.Compaction(
        through.turn.id, None if kept is None else kept.turn.id, through.depth
    )
    return await tree.turns.record(session, [], [assistant("in short")], compaction=details)


async def test_a_context_reads_the_summary_then_what_was_kept_then_what_followed(
    tree: Tree,
) -> None:
    _, b, c, _ = await say(tree, "main", "a", "b", "c", "d")
    await compact(tree, "main", b, c)
    await say(tree, "main", "e")
    assert words_of(await tree.threads.read_visible("main")) == ["in short", "c!", "d!", "e!"]
    assert len(await tree.threads.read("main")) == 6


async def test_a_fork_from_before_a_compaction_still_sees_everything(tree: Tree) -> None:
    *_, d = await say(tree, "main", "a", "b", "c", "d")
    await compact(tree, "main", d, None)
    await tree.sessions.fork(d.turn.id, "before")
    await say(tree, "before", "e")
    await say(tree, "main", "f")
    assert words_of(await tree.threads.read_visible("before")) == ["a!", "b!", "c!", "d!", "e!"]
    assert words_of(await tree.threads.read_visible("main")) == ["in short", "f!"]


async def test_the_ledger_and_the_domain_agree_on_what_is_visible(tree: Tree) -> None:
    chance = random.Random(7)
    said = await say(tree, "main", "a", "b")
    for _ in range(8):
        through = chance.randrange(len(said) - 1)
        kept = said[through + 1] if chance.random() < 0.7 else None
        said.append(await compact(tree, "main", said[through if kept else -1], kept))
        said += await say(tree, "main", *["x"] * chance.randrange(3))
        thread = await tree.threads.read("main")
        expected = visible([(one.turn.id, one.turn.header.compaction, one) for one in thread])
        assert list(await tree.threads.read_visible("main")) == expected


async def test_comparing_shows_where_two_threads_part(tree: Tree) -> None:
    await say(tree, "main", "a", "b")
    await tree.sessions.fork("main", "side")
    await say(tree, "main", "c")
    await say(tree, "side", "d", "e")
    found = await tree.threads.compare("main", "side")
    assert found.base is not None
    assert found.base.turn.title == "b"
    assert (titles(found.left), titles(found.right)) == (["c"], ["d", "e"])


async def test_comparing_a_thread_with_its_own_past_leaves_one_side_empty(tree: Tree) -> None:
    await say(tree, "main", "a", "b", "c")
    found = await tree.threads.compare("main~2", "main")
    assert (titles(found.left), titles(found.right)) == ([], ["b", "c"])
    assert await tree.threads.is_ancestor("main~2", "main")
    assert not await tree.threads.is_ancestor("main", "main~2")


async def test_threads_that_share_nothing_are_all_difference(tree: Tree) -> None:
    await say(tree, "main", "a")
    await say(tree, "other", "b")
    found = await tree.threads.compare("main", "other")
    assert found.base is None
    assert (titles(found.left), titles(found.right)) == (["a"], ["b"])


def call(number: int, id: str | None = None) -> turntree.ModelCall:
    usage = turntree.Usage(10**number, 2 * 10**number, 3, 4, 5)
    return turntree.ModelCall("scripted-1", usage, "nobody", id)


async def test_what_forks_share_is_counted_once(tree: Tree) -> None:
    await say(tree, "main", "a", calls=[call(1), call(2)])
    await tree.sessions.fork("main", "side")
    await say(tree, "main", "b", calls=[call(3)])
    await say(tree, "side", "c", calls=[call(4)])
    usage, calls = await tree.threads.usage("main", "side")
    assert (usage.input, usage.output, calls) == (11110, 22220, 4)
    assert (usage.cached_input, usage.cache_write, usage.reasoning) == (12, 16, 20)
    assert (await tree.threads.usage("side"))[0].input == 10110
    assert (await tree.threads.usage("main~1", "main", "main"))[0].input == 1110


async def test_one_call_recorded_in_two_turns_costs_once(tree: Tree) -> None:
    await say(tree, "main", "a", calls=[call(1, "msg_1")])
    await say(tree, "again", "a", calls=[call(1, "msg_1"), call(2, "msg_2")])
    usage, calls = await tree.threads.usage("main", "again")
    assert (usage.input, calls) == (110, 2)


async def test_a_session_that_moved_away_is_still_known_to_have_held_a_turn(tree: Tree) -> None:
    a, b, _ = await say(tree, "main", "a", "b", "c")
    side = await tree.sessions.fork(a.turn.id, "side")
    main = await tree.sessions.get("main")
    await tree.sessions.rewind("main", a.turn.id)
    holding = tree.threads.threads.list_sessions_holding
    assert await holding(b.turn.id) == [main.id]
    assert set(await holding(a.turn.id)) == {main.id, side.id}
    await tree.sessions.replay("side", b.turn.id)
    assert set(await holding(b.turn.id)) == {main.id, side.id}


async def test_fork_returns_the_session_as_it_is_stored(tree: Tree) -> None:
    a, b = await say(tree, "main", "a", "b")
    by_id = await tree.sessions.fork(a.turn.id, "by-id")
    by_name = await tree.sessions.fork("main", "by-name")
    assert by_id == await tree.sessions.get("by-id")
    assert by_name == await tree.sessions.get("by-name")
    assert (by_id.head, by_name.head) == (a.turn.id, b.turn.id)
    empty = await tree.sessions.create("empty")
    assert empty == await tree.sessions.get("empty")


async def test_fork_at_an_unknown_id_is_refused_and_begins_nothing(
    tree: Tree, world: FakeClock
) -> None:
    await say(tree, "main", "a")
    with pytest.raises(turntree.NotFound):
        await tree.sessions.fork(world.new_id(), "side")
    assert [one.label async for one in tree.sessions.list_all()] == ["main"]


async def test_a_head_is_found_as_it_stood_at_a_time(tree: Tree, world: FakeClock) -> None:
    a, _ = await say(tree, "main", "a", "b")
    await tree.sessions.rewind("main", a.turn.id)
    then = world.now()
    await say(tree, "main", "c")
    assert (await tree.resolve(f"main@{{{then}}}")).turn == a.turn.id
    assert (await tree.turns.get("main")).turn.title == "c"


async def test_every_move_is_in_the_reflog_with_its_author(tree: Tree) -> None:
    a, b = await say(tree, "main", "a", "b")
    await tree.sessions.rewind("main", a.turn.id)
    await tree.sessions.undo("main")
    moves = await tree.sessions.list_moves("main")
    assert [move.kind for move in moves] == ["undo", "rewind", "advance", "advance", "create"]
    assert (moves[0].before, moves[0].after) == (a.turn.id, b.turn.id)
    assert {move.by for move in moves} == {"human:ana"}


async def test_the_ledger_undoes_as_the_domain_says(tree: Tree) -> None:
    chance = random.Random(7)
    await say(tree, "main", "a", "b")
    kinds: list[MoveKind] = ["advance", "rewind", "reset", "undo", "undo"]
    for number in range(40):
        moves = (await tree.sessions.list_moves("main"))[::-1]
        await one_move(tree, chance.choice(kinds), number, moves)
    assert any(move.kind == "undo" for move in await tree.sessions.list_moves("main"))


async def one_move(tree: Tree, kind: MoveKind, number: int, moves: list[SessionMove]) -> None:
    session = await tree.sessions.get("main")
    if kind == "undo":
        target = undo_target(moves)
        if target is None:
            with pytest.raises(turntree.InvalidOperation, match="nothing to undo"):
                await tree.sessions.undo("main")
        else:
            assert (await tree.sessions.undo("main")).head == target.before
    elif kind == "rewind" and session.depth > 1:
        await tree.sessions.rewind("main", "main~1")
    elif kind == "reset" and moves[2].after is not None:
        await tree.sessions.replay("main", moves[2].after)
    else:
        await say(tree, "main", f"n{number}")


async def test_a_promoted_session_keeps_its_old_name_as_an_alias(tree: Tree) -> None:
    (a,) = await say(tree, "guest-17", "a")
    promoted = await tree.sessions.promote("guest-17", "ana:main")
    assert (promoted.label, promoted.aliases) == ("ana:main", ("guest-17",))
    assert (await tree.turns.get("guest-17")).turn == a.turn
    back = await tree.sessions.rename("ana:main", "guest-17")
    assert (back.label, back.aliases) == ("guest-17", ("ana:main",))


async def test_a_name_that_is_taken_stays_with_its_owner(tree: Tree) -> None:
    await say(tree, "main", "a")
    await say(tree, "other", "b")
    await tree.sessions.alias("main", "login")
    for name in ("main", "login"):
        with pytest.raises(turntree.Conflict, match="is taken"):
            await tree.sessions.rename("other", name)
        with pytest.raises(turntree.Conflict, match="is taken"):
            await tree.sessions.create(name)
    with pytest.raises(turntree.InvalidRevision):
        await tree.sessions.create("HEAD")


async def test_two_sessions_that_turn_out_to_be_one_are_merged(tree: Tree) -> None:
    (a,) = await say(tree, "main", "a")
    (b,) = await say(tree, "guest", "b")
    guest = await tree.sessions.get("guest")
    merged = await tree.sessions.merge("main", "guest")
    assert merged.aliases == ("guest",)
    assert (await tree.turns.get("guest")).turn == a.turn
    assert [s.label async for s in tree.sessions.list_all()] == ["main"]
    (kept,) = [s async for s in tree.sessions.list_all(status="archived")]
    assert (kept.id, kept.head) == (guest.id, b.turn.id)


async def test_a_subagent_knows_the_call_that_began_it(tree: Tree) -> None:
    use = turntree.ToolUse("call_1", "delegate", {"task": "look it up"})
    result = turntree.ToolResult("call_1", "ok", "found")
    reply = [assistant(use), tool(result), assistant("done")]
    parent = await tree.turns.record("main", [user("find out")], reply)
    main = await tree.sessions.get("main")
    spawn = turntree.Spawn(main.id, parent.turn.id, "call_1", "fork", "look it up")
    child = await tree.sessions.fork(parent.turn.id, "main/helper", spawn=spawn)
    assert child.spawn == spawn
    (began,) = await tree.ledger.facts(child.id)
    assert (began.event.data["call_id"], began.event.data["task"]) == ("call_1", "look it up")
    # A stranger dumps the event again and gets its bytes, whichever members it has.
    assert (await tree.edges.list_history(child.id))[0].data == began.event.data
    assert (await tree.sessions.get("main")).spawn is None
    fresh = await tree.sessions.create("main/other", spawn=replace(spawn, mode="fresh", task=None))
    assert fresh.spawn == replace(spawn, mode="fresh", task=None)
    assert fresh.head is None


async def test_an_origin_is_imported_once(tree: Tree) -> None:
    origin = turntree.Origin("claude-code", "0b8f")
    session = await tree.sessions.create("imported", origin=origin)
    assert session.origin == origin
    with pytest.raises(turntree.Conflict):
        await tree.sessions.create("again", origin=origin)


async def test_a_large_part_becomes_an_object_and_reads_back(tree: Tree) -> None:
    long = "é" * PART_INLINE_MAX_BYTES
    use = turntree.ToolUse("1", "write", {"content": long})
    result = turntree.ToolResult("1", "error", {"log": long})
    parts: list[Part] = [turntree.Text(long), turntree.Reasoning("hm", long), use]
    reply = [assistant(*parts), tool(result), assistant("small")]
    placed = await tree.turns.record("main", [user(long)], reply)
    stored = await tree.turns.get("main")
    assert stored == placed
    lifted = [part for said in stored.turn.messages[:-1] for part in said.parts]
    assert all(isinstance(part, ObjectRef) for part in lifted)
    read = [
        part_from_json(orjson.loads(await tree.ledger.get_object(part.object)))
        for part in lifted
        if isinstance(part, ObjectRef)
    ]
    assert read == [turntree.Text(long), *parts, result]
    assert stored.turn.reply[-1] == assistant("small")


async def test_an_erased_message_is_gone_and_its_thread_still_proves_itself(
    tree: Tree,
) -> None:
    a, b = await say(tree, "main", "my number is 555", "thanks")
    assert await tree.turns.erase(a.turn.id, 0, reason="asked for")
    assert not await tree.turns.erase(a.turn.id, 0, reason="asked for")
    first, second = await tree.threads.read("main")
    assert (first.turn.messages[0].text, first.turn.messages[1].text) == ("", "my number is 555!")
    assert (first.turn.digest, second.turn) == (a.turn.digest, b.turn)
    (receipt,) = await tree.ledger.facts(a.turn.id)
    assert receipt.event.kind == "message.erased"
    assert receipt.event.data == {"by": "human:ana", "reason": "asked for", "sequence": 0}
    with pytest.raises(turntree.NotFound, match="has no message 2"):
        await tree.turns.erase(a.turn.id, 2, reason="asked for")


async def test_every_stored_turn_proves_itself_back_to_its_root(
    tree: Tree, database: Database
) -> None:
    a, *_ = await say(tree, "main", "a", "b", "c")
    await tree.turns.erase(a.turn.id, 1, reason="asked for")
    findings: list[str] = []
    parent: turntree.Digest | None = None
    for placed in await tree.threads.read("main"):
        ((_, header, said, *_),) = await database.fetch(SQL["find_turn"], turn=UUID(placed.turn.id))
        findings.append(turns.verify(f"{header}\n{said}", placed.turn.digest, parent))
        parent = placed.turn.digest
    assert findings == ["erased", "whole", "whole"]


async def test_words_on_a_turn_change_nothing_in_it(tree: Tree) -> None:
    (a,) = await say(tree, "main", "a")
    assert await tree.turns.tag("main", "good")
    assert not await tree.turns.tag("main", "good")
    assert await tree.turns.marks.list_tags(tag="good") == [(a.turn.id, "good")]
    assert await tree.turns.untag("main", "good")
    assert await tree.turns.marks.list_tags() == []
    assert (await tree.turns.get("main")) == a
    kinds = [fact.event.kind for fact in await tree.ledger.facts(a.turn.id)]
    assert kinds == ["node.tagged", "node.untagged"]


async def test_a_thread_is_read_whole_from_either_end_or_in_the_middle(tree: Tree) -> None:
    await say(tree, "main", "a", "b", "c", "d")
    read = tree.threads.read
    assert titles(await read("main")) == ["a", "b", "c", "d"]
    assert titles(await read("main", last=2)) == ["c", "d"]
    assert titles(await read("main", first=2)) == ["a", "b"]
    assert titles(await read("main", last=9)) == ["a", "b", "c", "d"]
    assert titles(await tree.threads.page("main", low=2, high=3)) == ["b", "c"]


async def test_a_digest_is_shown_by_as_many_digits_as_it_needs(tree: Tree) -> None:
    said = await say(tree, "main", *(f"n{n}" for n in range(40)))
    digests = [one.turn.digest for one in said]
    lengths = await tree.turns.list_unique_lengths(digests)
    for one in said:
        prefix = one.turn.digest[7 : 7 + lengths[one.turn.digest]]
        assert [d for d in digests if d[7:].startswith(prefix)] == [one.turn.digest]
        assert (await tree.resolve(prefix)).turn == one.turn.id


async def test_an_exchange_that_cannot_be_sealed_leaves_nothing(tree: Tree) -> None:
    use = turntree.ToolUse("1", "ls", {})
    with pytest.raises(turntree.InvalidOperation, match="without a result"):
        await tree.turns.record("main", [user("a")], [assistant(use)])
    assert (await tree.sessions.get("main")).head is None
    assert await tree.turns.list_newest() == []


async def test_a_large_part_goes_with_the_last_message_that_holds_it(tree: Tree) -> None:
    large = user("a secret " * 2000)
    first = await tree.turns.record("main", [large], [assistant("1")])
    second = await tree.turns.record("main", [large], [assistant("2")])
    (part,) = first.turn.messages[0].parts
    assert isinstance(part, ObjectRef)
    await tree.turns.erase(first.turn.id, 0, reason="asked for")
    assert await tree.ledger.get_object(part.object)
    await tree.turns.erase(second.turn.id, 0, reason="asked for")
    with pytest.raises(turntree.NotFound):
        await tree.ledger.get_object(part.object)
    assert await tree.checks.fsck() == []
