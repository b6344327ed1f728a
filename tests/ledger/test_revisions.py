"""Revisions against a real ledger: every way of pointing at a turn, and what is said of a miss."""

from datetime import datetime, timedelta

import pytest

from turntree.api import Tree
from turntree.core.errors import Ambiguous, InvalidRevision, NotFound
from turntree.core.ids import Timestamp, short_id
from turntree.core.message import assistant, user
from turntree.core.revision import MessagePart, ToolPart
from turntree.core.thread import ThreadTurn
from turntree.core.usage import ModelCall, Usage
from turntree.ledger.revisions import parse_time
from turntree.testing.fakes import FakeClock

pytestmark = pytest.mark.anyio


async def three_turns(tree: Tree) -> list[ThreadTurn]:
    return [
        await tree.turns.record("main", [user(f"question {n}")], [assistant(f"answer {n}")])
        for n in (1, 2, 3)
    ]


async def test_a_label_an_alias_and_head_lead_to_the_head(tree: Tree) -> None:
    *_, third = await three_turns(tree)
    await tree.sessions.alias("main", "login")
    for revision in ("main", "login", "HEAD", "main@{0}", "@{0}", "main~0"):
        found = await tree.resolve(revision)
        assert found.turn == third.turn.id
        assert found.session is not None
        assert found.session.label == "main"


async def test_steps_go_back_by_turns(tree: Tree) -> None:
    first, second, _ = await three_turns(tree)
    assert (await tree.resolve("main~")).turn == second.turn.id
    assert (await tree.resolve("main^")).turn == second.turn.id
    assert (await tree.resolve("main~2")).turn == first.turn.id
    assert (await tree.resolve("main~1^")).turn == first.turn.id
    with pytest.raises(NotFound, match="goes back 3 turns, but the thread has only 3"):
        await tree.resolve("main~3")


async def test_every_unique_digest_prefix_resolves(tree: Tree) -> None:
    first, *_ = await three_turns(tree)
    digits = first.turn.digest.removeprefix("sha256:")
    for length in range(12, len(digits) + 1):
        for prefix in (digits[:length], digits[:length].upper()):
            assert (await tree.resolve(prefix)).turn == first.turn.id
        assert (await tree.resolve(f"sha256:{digits[:length]}")).turn == first.turn.id
    for length in (12, 26, 32, 36):
        assert (await tree.resolve(f"turn:{digits[:length]}")).turn == first.turn.id


async def test_an_id_leads_to_its_turn_in_every_spelling(tree: Tree) -> None:
    _, second, _ = await three_turns(tree)
    id = second.turn.id
    short = short_id(id)
    for text in (id, id.upper(), id.replace("-", ""), short, short.upper(), f"turn:{id}"):
        assert (await tree.resolve(text)).turn == id
    for length in range(20, len(short) + 1):
        assert (await tree.resolve(short[:length])).turn == id
    for length in range(24, len(id) + 1):
        assert (await tree.resolve(id[:length])).turn == id
    digits = id.replace("-", "")
    for length in range(22, len(digits) + 1):
        assert (await tree.resolve(digits[:length])).turn == id
    for text in (f"{id}/0", f"{short}/1"):
        assert (await tree.resolve(text)).turn == id


async def test_a_response_of_two_turns_lists_both(tree: Tree) -> None:
    call = ModelCall("gpt-5", Usage(2, 1), "openai", "resp_0aB1")
    first, second = [
        await tree.turns.record(label, [user("hi")], [assistant(label)], calls=[call])
        for label in ("main", "copy")
    ]
    with pytest.raises(Ambiguous, match="'resp_0aB1' is a response of several turns") as refusal:
        await tree.resolve("resp_0aB1")
    assert first.turn.digest[7:19] in str(refusal.value)
    assert second.turn.digest[7:19] in str(refusal.value)
    # With a session, only the turn that it holds can be meant.
    for label, placed in (("main", first), ("copy", second)):
        assert (await tree.resolve(f"session:{label}/turn:resp_0aB1")).turn == placed.turn.id


async def test_resolve_ambiguous_prefix_lists_candidates(tree: Tree) -> None:
    turns = await three_turns(tree)
    with pytest.raises(Ambiguous) as refusal:
        await tree.resolve(short_id(turns[0].turn.id)[:5])
    for placed in turns:
        assert placed.turn.digest[7:19] in str(refusal.value)
        assert placed.turn.title in str(refusal.value)


async def test_a_label_wins_over_the_beginning_of_a_digest(tree: Tree) -> None:
    first, _, third = await three_turns(tree)
    prefix = first.turn.digest[7:15]
    await tree.sessions.fork("main", prefix)
    assert (await tree.resolve(prefix)).turn == third.turn.id
    assert (await tree.resolve(f"turn:{prefix}")).turn == first.turn.id


async def test_a_turn_named_within_a_session_must_have_been_held_by_it(tree: Tree) -> None:
    first, second, third = await three_turns(tree)
    await tree.sessions.fork(first.turn.id, "side")
    await tree.sessions.rewind("main", first.turn.id)
    for placed in (first, second, third):
        found = await tree.resolve(f"session:main/turn:{placed.turn.digest[7:19]}")
        assert found.turn == placed.turn.id
    assert (await tree.resolve(f"session:side/turn:{first.turn.id}")).turn == first.turn.id
    with pytest.raises(NotFound, match="side has never held"):
        await tree.resolve(f"session:side/turn:{second.turn.id}")


async def test_moves_are_counted_back_through_the_reflog(tree: Tree) -> None:
    first, _, third = await three_turns(tree)
    await tree.sessions.rewind("main", first.turn.id)
    assert (await tree.resolve("main@{0}")).turn == first.turn.id
    assert (await tree.resolve("main@{1}")).turn == third.turn.id
    assert (await tree.resolve("main@{1}~2")).turn == first.turn.id
    with pytest.raises(NotFound, match="has no turns yet"):
        await tree.resolve("main@{4}")
    with pytest.raises(NotFound, match="moved 5 times, not 5"):
        await tree.resolve("main@{5}")


async def test_a_head_is_found_at_a_time(tree: Tree, world: FakeClock) -> None:
    first, second, _ = await three_turns(tree)
    at = second.turn.header.sealed_at
    assert (await tree.resolve(f"main@{{{at}}}")).turn == second.turn.id
    just_before = datetime.fromisoformat(at) - timedelta(milliseconds=1)
    assert (await tree.resolve(f"main@{{{just_before.isoformat()}}}")).turn == first.turn.id
    world.ms += 24 * 3600 * 1000
    await tree.turns.record("main", [user("next day")], [assistant("indeed")])
    assert (await tree.resolve("main@{23 hours ago}")).turn == (await tree.resolve("main~1")).turn
    with pytest.raises(NotFound, match="began after"):
        await tree.resolve("main@{2 weeks ago}")


async def test_only_a_session_has_moves(tree: Tree) -> None:
    first, *_ = await three_turns(tree)
    with pytest.raises(InvalidRevision, match="only a session has"):
        await tree.resolve(f"{first.turn.digest[7:19]}@{{1}}")


async def test_resolve_words_returns_newest_matching_turn(tree: Tree) -> None:
    first, _, third = await three_turns(tree)
    assert (await tree.resolve(":/question")).turn == third.turn.id
    assert (await tree.resolve(":/QUESTION 1")).turn == first.turn.id
    quoted = await tree.turns.record("main", [user('say "hi"\nÉtudes')], [assistant("hi")])
    assert (await tree.resolve(':/say "HI"')).turn == quoted.turn.id
    assert (await tree.resolve(":/étud")).turn == quoted.turn.id
    with pytest.raises(NotFound, match="no turn says"):
        await tree.resolve(":/nobody said this")


async def test_resolve_part_returns_turn_and_part(tree: Tree) -> None:
    _, _, third = await three_turns(tree)
    assert (await tree.resolve("main:tool/2")).part == ToolPart(2)
    found = await tree.resolve("main:msg/1")
    assert (found.turn, found.part) == (third.turn.id, MessagePart(1))


async def test_a_range_has_two_ends(tree: Tree) -> None:
    first, second, third = await three_turns(tree)
    resolve = tree.revisions.resolve_range
    assert await resolve("main") == third.turn.id
    assert await resolve("main~2..main") == (first.turn.id, third.turn.id, False)
    assert await resolve("main~2...main~1") == (first.turn.id, second.turn.id, True)


async def test_resolve_unknown_name_raises_not_found(tree: Tree) -> None:
    await three_turns(tree)
    await tree.sessions.create("empty")
    for revision, why in {
        "nowhere": "neither a session nor",
        "abc": "neither a session nor",
        "0" * 64: "neither a session nor",
        "01a0c3a8-2001-7000-8000-00000000dead": "neither a session nor",
        "empty": "has no turns yet",
        "empty~1": "has no turns yet",
        "session:nowhere/turn:abcd": "there is no session",
        "@(researcher)": "there is no program",
    }.items():
        with pytest.raises(NotFound, match=why):
            await tree.resolve(revision)


NOW = Timestamp("2026-11-15T09:30:00.000Z")


@pytest.mark.parametrize(
    ("words", "moment"),
    [
        ("now", NOW),
        ("yesterday", "2026-11-14T09:30:00.000Z"),
        ("2 hours ago", "2026-11-15T07:30:00.000Z"),
        ("1.week.ago", "2026-11-08T09:30:00.000Z"),
        ("90_minutes_ago", "2026-11-15T08:00:00.000Z"),
        ("2026-11-01T00:00:00+02:00", "2026-10-31T22:00:00.000Z"),
        ("2026-11-01T00:00:00Z", "2026-11-01T00:00:00.000Z"),
    ],
)
def test_time_words_give_timestamp(words: str, moment: str) -> None:
    assert parse_time(words, NOW) == moment


@pytest.mark.parametrize(
    "words",
    ["soon", "2 fortnights ago", "2026-13-01", "9999999999 years ago", "0001-01-01T00:00:00+23:00"],
)
def test_time_words_without_meaning_are_refused(words: str) -> None:
    with pytest.raises(InvalidRevision, match="is not a time"):
        parse_time(words, NOW)
