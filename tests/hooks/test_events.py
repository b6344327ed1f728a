"""Sightings: how they become spans, and which turn a span tells of."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from turntree.core.ids import TurnId, instant
from turntree.core.principal import Principal
from turntree.core.turn import Header
from turntree.hooks.events import (
    SIGHTING_KINDS,
    AgentStream,
    HookEvent,
    SightingKind,
    TurnSpan,
    find_turn,
    fold_sightings,
    join_spans,
    pair_calls,
)

MAIN = AgentStream("claude-code", "s", None)
WORKER = AgentStream("claude-code", "s", "a1")


def sighting(at: int, kind: SightingKind, stream: AgentStream = MAIN) -> HookEvent:
    return HookEvent(f"{at:06d}", stream, kind, instant(at), "/work")


def turn(name: str, started: int, sealed: int, kind: str = "normal") -> Header:
    by = Principal("agent", "claude-code")
    return Header(TurnId(name), None, by, instant(started), instant(sealed), kind=kind)  # type: ignore[arg-type]


def ends(*sightings: HookEvent) -> list[tuple[str | None, str]]:
    spans = fold_sightings(sightings).spans
    return [(span.begin.id if span.begin else None, span.end.id) for span in spans]


def test_a_beginning_and_an_end_are_a_span() -> None:
    assert ends(sighting(2, "end"), sighting(1, "begin")) == [("000001", "000002")]


def test_a_turn_that_is_being_taken_waits() -> None:
    folded = fold_sightings([sighting(1, "session"), sighting(2, "begin")])
    assert [one.kind for one in folded.announced] == ["session"]
    assert [one.id for one in folded.waiting] == ["000002"]
    assert folded.spans == []


def test_whoever_is_interrupted_ends_where_the_next_one_begins() -> None:
    assert ends(sighting(1, "begin"), sighting(5, "begin"), sighting(9, "end")) == [
        ("000001", "000005"),
        ("000005", "000009"),
    ]


def test_a_session_that_is_closed_ends_its_turn() -> None:
    assert ends(sighting(1, "begin"), sighting(5, "close"), sighting(6, "close")) == [
        ("000001", "000005")
    ]


def test_a_compaction_cuts_a_turn_in_two_and_nothing_between_turns() -> None:
    assert ends(sighting(1, "begin"), sighting(4, "cut"), sighting(9, "end")) == [
        ("000001", "000004"),
        ("000004", "000009"),
    ]
    assert [one.id for one in fold_sightings([sighting(4, "cut")]).idle] == ["000004"]


def test_a_session_opened_again_in_the_middle_of_a_turn_says_nothing() -> None:
    folded = fold_sightings([sighting(1, "begin"), sighting(3, "session"), sighting(9, "end")])
    assert (len(folded.spans), folded.announced, len(folded.idle)) == (1, [], 1)


def test_an_end_without_a_beginning_counts_for_a_session_and_not_for_a_subagent() -> None:
    assert ends(sighting(3, "end")) == [(None, "000003")]
    assert ends(sighting(3, "end", WORKER)) == []


def test_streams_do_not_end_each_other() -> None:
    sightings = [
        sighting(1, "begin"),
        sighting(2, "begin", WORKER),
        sighting(3, "end", WORKER),
        sighting(4, "end"),
    ]
    assert ends(*sightings) == [("000002", "000003"), ("000001", "000004")]


@given(st.lists(st.tuples(st.sampled_from(SIGHTING_KINDS), st.sampled_from([MAIN, WORKER]))))
def test_no_mark_is_lost_and_no_order_matters(told: list[tuple[SightingKind, AgentStream]]) -> None:
    sightings = [sighting(at, kind, stream) for at, (kind, stream) in enumerate(told)]
    folded = fold_sightings(reversed(sightings))
    assert folded == fold_sightings(sightings)
    seen = [*folded.announced, *folded.waiting, *folded.idle, *folded.calling]
    seen += [one for span in folded.spans for one in span.sightings]
    assert set(seen) == set(sightings)
    for stream in (MAIN, WORKER):
        spans = [span for span in folded.spans if span.end.stream == stream]
        assert all(first.end.id <= last.end.id for first, last in pairwise(spans))


def test_a_span_tells_of_the_last_turn_that_had_begun() -> None:
    thread = [turn("one", 100, 200), turn("two", 300, 400), turn("three", 500, 600)]
    assert find_turn(TurnSpan(sighting(299, "begin"), sighting(405, "end")), thread) == "two"
    assert find_turn(TurnSpan(None, sighting(450, "end")), thread) == "two"


def test_a_turn_that_is_not_written_down_yet_is_not_taken_for_the_one_before() -> None:
    span = TurnSpan(sighting(299, "begin"), sighting(405, "end"))
    assert find_turn(span, [turn("one", 100, 200)]) is None
    assert find_turn(span, []) is None


def test_a_summary_is_nobodys_turn() -> None:
    thread = [turn("one", 100, 200), turn("two", 300, 400), turn("sum", 402, 404, "compaction")]
    assert find_turn(TurnSpan(sighting(299, "begin"), sighting(405, "end")), thread) == "two"


def test_spans_of_one_turn_are_one_span() -> None:
    first, second = (
        TurnSpan(sighting(1, "begin"), sighting(4, "cut")),
        TurnSpan(sighting(4, "cut"), sighting(9, "end")),
    )
    joined = join_spans([(TurnId("t"), first), (TurnId("t"), second)])
    (span,) = joined.values()
    assert [one.id for one in span.sightings] == ["000001", "000004", "000009"]
    assert span.begin is not None
    assert (span.begin.id, span.end.id) == ("000001", "000009")


def call(at: int, kind: SightingKind, id: str | None) -> HookEvent:
    return HookEvent(f"{at:06d}", MAIN, kind, instant(at), "/work", call=id)


def test_calls_are_paired_by_their_ids_and_one_without_an_end_is_left_out() -> None:
    (span,) = fold_sightings(
        [
            sighting(1, "begin"),
            call(2, "call", "a"),
            call(3, "call", "b"),
            call(4, "return", "a"),
            call(5, "call", "denied"),
            call(6, "return", "b"),
            sighting(9, "end"),
        ]
    ).spans
    assert [(one.id, end.id) for one, end in pair_calls(span)] == [
        ("000002", "000004"),
        ("000003", "000006"),
    ]


def test_a_call_outside_of_a_turn_has_no_effect() -> None:
    folded = fold_sightings([call(1, "call", "a"), sighting(2, "begin"), call(3, "call", "b")])
    assert [one.id for one in folded.idle] == ["000001"]
    assert [one.id for one in folded.waiting] == ["000002"]


def test_a_return_without_an_id_ends_every_call_that_has_begun() -> None:
    (span,) = fold_sightings([
        sighting(1, "begin"), call(2, "return", None),
        call(3, "call", "a"), call(4, "call", "b"), call(5, "return", None),
        call(6, "call", "c"), call(7, "return", "c"), call(8, "return", None),
        call(9, "call", "killed"), sighting(10, "end"),
    ]).spans  # fmt: skip
    assert [(one.call, end.id) for one, end in pair_calls(span)] == [
        ("a", "000005"),
        ("b", "000005"),
        ("c", "000007"),
    ]
