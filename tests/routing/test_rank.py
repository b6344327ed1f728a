"""Which thread a message belongs to, decided from what speaks for its turns."""

import pytest

from turntree.core.ids import TurnId
from turntree.routing.rank import Evidence, rank, terms_of

A, B, C = TurnId("a"), TurnId("b"), TurnId("c")


def order(*evidence: Evidence, threads: dict[TurnId, list[str]]) -> list[str]:
    return [one.thread for one in rank(evidence, threads)]


def test_a_thread_is_known_by_words_of_several_of_its_turns() -> None:
    found = rank(
        [
            Evidence(A, {"invoice": 2.0, "slow": 2.0}),
            Evidence(B, {"invoice": 2.0}),
            Evidence(C, {"E4127": 5.0}),
        ],
        {A: ["one"], B: ["two"], C: ["two"]},
    )
    assert [one.thread for one in found] == ["two", "one"]
    assert found[0].words == pytest.approx(29 / 33), "rare words count by their square"
    assert found[0].turn == C
    assert set(found[0].matched) == {"invoice", "E4127"}


def test_a_word_counts_once_however_often_it_is_said() -> None:
    (one,) = rank([Evidence(A, {"x": 1.0}), Evidence(B, {"x": 1.0})], {A: ["t"], B: ["t"]})
    assert one.words == 1.0


def test_meaning_is_that_of_the_most_similar_turn() -> None:
    found = rank(
        [Evidence(A, likeness=0.9), Evidence(B, likeness=0.1), Evidence(C, likeness=0.6)],
        {A: ["one"], B: ["one"], C: ["two"]},
    )
    assert [(one.thread, one.likeness) for one in found] == [("one", 0.9), ("two", 0.6)]


def test_a_second_similar_turn_decides_between_equals() -> None:
    found = rank(
        [Evidence(A, likeness=0.6), Evidence(B, likeness=0.6), Evidence(C, likeness=0.5)],
        {A: ["one"], B: ["two"], C: ["two"]},
    )
    assert [one.thread for one in found] == ["two", "one"]


def test_both_sides_together_beat_either() -> None:
    words, both, meaning = (
        Evidence(A, {"x": 1.0}),
        Evidence(B, {"x": 1.0}, 0.5),
        Evidence(C, {}, 0.5),
    )
    threads = {A: ["words"], B: ["both"], C: ["meaning"]}
    assert order(words, both, meaning, threads=threads)[0] == "both"


def test_what_was_said_before_a_fork_speaks_for_both_sides_of_it() -> None:
    threads = {A: ["left", "right"], B: ["right"]}
    assert order(Evidence(A, {"x": 1.0}), Evidence(B, {"y": 1.0}), threads=threads) == [
        "right", "left",
    ]  # fmt: skip


def test_what_may_not_be_seen_changes_no_score() -> None:
    seen = Evidence(A, {"x": 1.0}, 0.5)
    alone = rank([seen], {A: ["one"]})
    beside = rank([seen, Evidence(B, {"secret": 9.0}, 0.99)], {A: ["one"], B: []})
    assert alone == beside


def test_a_message_has_words_and_no_operators() -> None:
    terms = terms_of("in:main the parseRevision fails, fails at tests/test_sql.py -now")
    assert [term.text for term in terms][:3] == ["main", "parseRevision", "fails"]
    assert len(terms_of("word" + " ".join(f"word{n}x" for n in range(100)))) == 32
    assert terms_of("the of and") == ()
