"""Which turns of a transcript are ours, and what becomes of those that follow them."""

from dataclasses import replace

import pytest

from turntree.core.canonical import digest_bytes
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Timestamp, TurnId
from turntree.core.message import assistant, user
from turntree.core.principal import Principal
from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.drafts import (
    DraftCompaction,
    DraftSession,
    DraftSpawn,
    DraftTurn,
    Key,
    KnownTurn,
    Projection,
    seal_drafts,
)
from turntree.transcripts.handoff_link import (
    HandoffLink,
    OwnRecords,
    bridge,
    find_copy,
    find_gap,
    find_graft,
    list_written,
    plant,
)

AT = Timestamp("2026-01-01T00:00:00.000Z")
KNOWN = KnownTurn(TurnId("01a1c000-0000-7000-8000-000000000002"), digest_bytes(b"known"), 7)
GRAFT = HandoffLink("here", "here.jsonl", 20, None, KNOWN)
OURS = frozenset({0, 1})


def draft(key: str, parent: str | None, *records: int, reply: str = "so") -> DraftTurn:
    """A turn that a transcript tells of."""
    above = None if parent is None else Key(parent)
    query, answer = (user(f"{key}?"),), (assistant(reply),)
    return DraftTurn(Key(key), above, query, answer, AT, AT, records=records)


def projection(*turns: DraftTurn, head: str | None = None) -> Projection:
    """What a bundle tells of: a session that stands at its last turn, or at another."""
    stands = Key(head) if head is not None else turns[-1].key
    return Projection(turns, [DraftSession("here", "here", stands)])


WRITTEN = projection(draft("a", None, 0), draft("b", "a", 1))


def planted(*others: DraftTurn, head: str | None = None) -> Projection:
    told = projection(*WRITTEN.turns, *others, head=head)
    return plant(told, GRAFT, OURS, WRITTEN)


def keys(found: Projection) -> list[str]:
    return [turn.key for turn in found.turns]


def test_records_in_the_bytes_that_we_wrote_are_ours() -> None:
    records = [
        RawRecord("here.jsonl", 0, b"{}"),
        RawRecord("here.jsonl.zst", 19, b"{}"),
        RawRecord("here.jsonl", 20, b"{}"),
        RawRecord("here/subagents/agent-1.jsonl", 0, b"{}"),
    ]
    assert list_written(GRAFT, records) == [0, 1]


def test_records_with_our_ids_are_ours_wherever_they_stand() -> None:
    marked = replace(GRAFT, mark="-ours")
    lines = [b'{"id":"1-ours"}', b'{"id":"2"}', b'{"of":"1-ours"}', b"[]", b"{", b'{"id":3}']
    records = [RawRecord("copy.jsonl", place, line) for place, line in enumerate(lines)]
    assert list_written(marked, records) == [0]
    assert list_written(replace(marked, last="1-ours"), records) == [0]
    assert list_written(replace(marked, last="2-ours"), records) == [], "it was cut off before"


def test_a_graft_is_found_by_what_a_transcript_begins_with() -> None:
    marked = replace(GRAFT, mark="-ours")
    told = projection(draft("a", None, 1), draft("b", "a", 2))
    named = [b'{"id":"other"}', b'{"uuid":"1-ours"}', b'{"uuid":"2-ours"}']
    copy = [RawRecord("copy.jsonl", place, data) for place, data in enumerate(named)]
    plain = [RawRecord("here.jsonl", place, b"{}") for place in range(3)]
    assert find_graft(told, copy, [GRAFT, marked]) is marked
    assert find_graft(told, plain, [marked, GRAFT]) is GRAFT
    assert find_graft(told, copy, [GRAFT]) is None
    assert find_graft(told, plain, []) is None
    assert find_graft(projection(draft("a", None, 0)), copy, [marked]) is None


def test_what_the_tool_added_follows_the_known_turn() -> None:
    found = planted(draft("c", "b", 2), draft("d", "c", 3))
    assert keys(found) == ["c", "d"]
    first, second = seal_drafts(found, Principal("agent", "toy"))
    assert first.parent == KNOWN.id
    assert first.sealed.turn.header.parent == KNOWN.digest
    assert second.parent == first.sealed.turn.id


def test_a_session_that_nobody_continued_stands_at_the_known_turn() -> None:
    found = planted()
    assert keys(found) == []
    assert found.sessions[0].head in found.planted
    assert list(seal_drafts(found, Principal("agent", "toy"))) == []


def test_what_stands_beside_our_words_may_change() -> None:
    last = replace(
        WRITTEN.turns[1], records=(1, 2), sealed_at=Timestamp("2026-01-02T00:00:00.000Z")
    )
    told = projection(WRITTEN.turns[0], last, draft("c", "b", 3))
    assert keys(plant(told, GRAFT, OURS, WRITTEN)) == ["c"]


def test_a_turn_that_the_tool_went_on_with_is_not_ours_alone() -> None:
    longer = draft("b", "a", 1, 2, reply="so, and more")
    told = projection(WRITTEN.turns[0], longer, draft("c", "b", 3))
    assert plant(told, GRAFT, OURS, WRITTEN) is told


def test_a_way_that_leaves_before_the_known_turn_keeps_what_it_stands_on() -> None:
    found = planted(draft("c", "b", 2), draft("x", "a", 3))
    assert keys(found) == ["a", "c", "x"]
    parents = {one.draft.key: one.parent for one in seal_drafts(found, Principal("agent", "toy"))}
    assert parents[Key("c")] == KNOWN.id
    assert parents[Key("x")] not in (None, KNOWN.id)
    assert keys(planted(draft("c", "b", 2), head="a")) == ["a", "c"]


def test_a_subagent_of_an_earlier_turn_keeps_it() -> None:
    told = projection(*WRITTEN.turns, draft("c", "b", 2))
    agent = DraftSession("agent", "agent", None, spawn=DraftSpawn("here", Key("a"), "call"))
    told = replace(told, sessions=[*told.sessions, agent])
    assert keys(plant(told, GRAFT, OURS, WRITTEN)) == ["a", "c"]


def test_a_compaction_counts_the_known_turns() -> None:
    summary = replace(draft("c", "b", 2), kind="compaction", compaction=DraftCompaction())
    summary = replace(summary, query=())
    (sealed,) = seal_drafts(planted(summary), Principal("agent", "toy"))
    told = sealed.sealed.turn.header.compaction
    assert told is not None
    assert (told.summarized_through, told.turns_summarized) == (KNOWN.id, KNOWN.depth)


def test_a_compaction_that_kept_a_turn_of_ours_leaves_everything_as_it_is() -> None:
    kept = replace(draft("c", "b", 2), compaction=DraftCompaction(first_kept=Key("b")))
    assert keys(planted(kept)) == ["a", "b", "c"]


def test_turns_that_are_no_single_thread_stay_as_they_are() -> None:
    forked = projection(draft("a", None, 0), draft("b", None, 1))
    told = projection(*forked.turns, draft("c", "b", 2))
    assert plant(told, GRAFT, OURS, forked) is told
    assert plant(WRITTEN, GRAFT, frozenset(), Projection([], [])) is WRITTEN


def test_a_planted_turn_cannot_come_twice() -> None:
    twice = replace(WRITTEN, planted={Key("b"): KNOWN})
    with pytest.raises(InvalidOperation):
        list(seal_drafts(twice, Principal("agent", "toy")))


def test_a_gap_reaches_up_to_the_next_turn_that_stays() -> None:
    told = projection(*WRITTEN.turns, draft("c", "b", 4, 5))
    found = find_gap(told, plant(told, GRAFT, OURS, WRITTEN), GRAFT, OURS, 8)
    assert found == OwnRecords(KNOWN, [0, 1, 2, 3])


def test_a_turn_of_ours_that_stays_is_no_gap() -> None:
    told = projection(*WRITTEN.turns, draft("c", "a", 2))
    found = find_gap(told, plant(told, GRAFT, OURS, WRITTEN), GRAFT, OURS, 3)
    assert found == OwnRecords(KNOWN, [1])


def test_what_stands_behind_a_gap_follows_the_known_turn() -> None:
    came = projection(draft("c", None, 4), draft("d", "c", 5))
    (first, second) = seal_drafts(
        bridge(came, OwnRecords(KNOWN, [0, 1])), Principal("agent", "toy")
    )
    assert (first.parent, second.parent) == (KNOWN.id, first.sealed.turn.id)


def test_nobody_who_came_before_a_gap_or_began_by_itself_follows_it() -> None:
    agent = DraftSession("there", "there", Key("s"), spawn=DraftSpawn("here", Key("c"), "call"))
    told = projection(draft("z", None, 0), draft("c", None, 4), draft("s", None, 6), head="c")
    told = replace(told, sessions=[*told.sessions, agent])
    found = bridge(told, OwnRecords(KNOWN, [1, 2]))
    parents = {turn.key: turn.parent for turn in found.turns}
    assert [key for key, parent in parents.items() if parent is None] == ["z", "s"]


def test_a_session_of_which_only_a_gap_is_left_stands_at_the_known_turn() -> None:
    empty = Projection([], [DraftSession("here", "here", None)])
    found = bridge(empty, OwnRecords(KNOWN, [0, 1]))
    (session,) = found.sessions
    assert session.head is not None
    assert found.planted[session.head] == KNOWN


def test_a_copy_is_known_by_its_words_and_only_if_it_is_whole() -> None:
    renamed = (draft("a", None, 3), draft("x", None, 4), draft("b", "a", 5), draft("c", "b", 6))
    assert find_copy(projection(*renamed), WRITTEN) == {3, 5}
    assert find_copy(projection(renamed[0], draft("b", "a", 5, reply="no")), WRITTEN) == frozenset()
    assert find_copy(projection(*renamed), projection(draft("c", None, 0))) == frozenset()
