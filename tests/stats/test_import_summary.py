"""The figures of what came home."""

from turntree.core.ids import Timestamp
from turntree.stats.import_summary import (
    DiskUsage,
    ImportedCounts,
    ImportedTranscript,
    deletion_of,
    take_tally,
)

NOW = Timestamp("2026-11-15T12:00:00.000Z")


def test_what_stands_more_than_once_is_what_the_records_tell_beyond_the_calls() -> None:
    brought = [
        ImportedTranscript("a", {"tokens": 70, "repaired": 2}, None),
        ImportedTranscript("a", {"tokens": 50}, None),
        ImportedTranscript("b", {}, None),
    ]
    tally = take_tally(
        ImportedCounts(2, 9, {"a": 90, "b": 5}, "s"), 150, DiskUsage(10, 5, 5), brought, NOW
    )
    assert (tally.tokens, tally.tokens_repeated) == (95, {"a": 30})
    assert (tally.bytes_before, tally.bytes_after.total) == (150, 20)
    assert (tally.sessions_repaired, tally.calls_repaired) == (1, 2)


def test_a_figure_that_cannot_be_computed_is_not_invented() -> None:
    brought = [ImportedTranscript("a", {"tokens": 70}, None), ImportedTranscript("b", {}, None)]
    tally = take_tally(
        ImportedCounts(1, 1, {"a": 90, "b": 1}, None), 0, DiskUsage(0, 0, 0), brought, NOW
    )
    assert tally.tokens_repeated == {}


def test_soon_is_within_a_week() -> None:
    days = [Timestamp(f"2026-11-{day}T00:00:00.000Z") for day in (10, 20, 30)]
    brought = [ImportedTranscript("a", {}, day) for day in days]
    tally = take_tally(ImportedCounts(3, 3, {}, None), 0, DiskUsage(0, 0, 0), brought, NOW)
    assert (tally.sessions_deleted_soon, tally.next_deleted_on) == (2, days[0])


def test_a_transcript_is_deleted_with_the_first_of_its_sessions() -> None:
    heads = {
        "a": {"deleted_on": "2026-11-20T00:00:00.000Z"},
        "b": {"deleted_on": "2026-11-18T00:00:00.000Z"},
        "c": {"deleted_on": 7},
        "d": None,
    }
    assert deletion_of(heads) == "2026-11-18T00:00:00.000Z"
    assert deletion_of({}) is None
