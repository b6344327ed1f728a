"""Compaction: what a context still reads, and what it reads instead."""

from hypothesis import given
from hypothesis import strategies as st

from turntree.core.compaction import Compaction, visible
from turntree.core.ids import TurnId
from turntree.testing import strategies

Thread = list[tuple[TurnId, Compaction | None, int]]


def thread(*compactions: tuple[int, int | None], turns: int) -> Thread:
    """Return a thread of numbered turns; (n, k) makes turn n a compaction that keeps from k."""
    details = {
        place: Compaction(
            TurnId(str((place if kept is None else kept) - 1)),
            None if kept is None else TurnId(str(kept)),
            place if kept is None else kept,
        )
        for place, kept in compactions
    }
    return [(TurnId(str(n)), details.get(n), n) for n in range(turns)]


@given(strategies.compactions())
def test_details_read_back(compaction: Compaction) -> None:
    assert Compaction.from_json(compaction.to_json()) == compaction


def test_absent_members_are_omitted() -> None:
    assert Compaction(TurnId("a"), None, 3).to_json() == {
        "summarized_through": "a",
        "turns_summarized": 3,
        "kind": "summary",
        "trigger": "manual",
    }


def test_without_a_compaction_everything_is_read() -> None:
    assert visible(thread(turns=4)) == [0, 1, 2, 3]
    assert visible([]) == []


def test_the_summary_comes_first_then_what_was_kept_then_what_followed() -> None:
    assert visible(thread((4, 2), turns=6)) == [4, 2, 3, 5]


def test_compaction_without_kept_turns_replaces_all_before_it() -> None:
    assert visible(thread((4, None), turns=6)) == [4, 5]


def test_the_newest_compaction_decides() -> None:
    assert visible(thread((2, None), (5, 4), turns=7)) == [5, 4, 6]


def test_a_summary_that_was_kept_is_read_as_a_turn() -> None:
    assert visible(thread((2, None), (5, 2), turns=6)) == [5, 2, 3, 4]


@given(st.integers(1, 12), st.data())
def test_visible_turns_are_unique_and_complete_after_compaction(
    turns: int, data: st.DataObject
) -> None:
    places = data.draw(st.sets(st.integers(1, turns), max_size=3).map(sorted))
    chosen = [
        (place, data.draw(st.none() | st.integers(1, place - 1)) if place > 1 else None)
        for place in places
        if place < turns
    ]
    read = visible(thread(*chosen, turns=turns))
    assert len(read) == len(set(read))
    newest = max((place for place, _ in chosen), default=None)
    if newest is None:
        assert read == list(range(turns))
    else:
        assert read[0] == newest
        assert set(range(newest, turns)) <= set(read)
        assert read[1:] == sorted(read[1:])
