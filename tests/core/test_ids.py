"""Ids, short ids and moments: each reads back as what it was."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from turntree.core.ids import (
    RANDOM_BITS,
    SHORT_ID_LENGTH,
    Timestamp,
    derived_id,
    find_long_id,
    instant,
    short_id,
    unix_ms,
    uuid7,
)
from turntree.testing import strategies

moments_ms = st.integers(0, (1 << 48) - 1)
readable_ms = st.integers(0, 253_402_300_799_999)
randomness = st.integers(0, (1 << RANDOM_BITS) - 1)


@given(moments_ms, randomness)
def test_an_id_is_a_uuid_of_version_7_that_holds_its_moment(ms: int, bits: int) -> None:
    parsed = uuid.UUID(uuid7(ms, bits))
    assert (parsed.version, parsed.variant) == (7, uuid.RFC_4122)
    assert parsed.int >> 80 == ms
    assert (parsed.int >> 64 & 0xFFF) << 62 | parsed.int & ((1 << 62) - 1) == bits


@given(st.lists(st.tuples(moments_ms, randomness), min_size=2, max_size=5))
def test_ids_sort_by_time(drawn: list[tuple[int, int]]) -> None:
    assert [uuid7(*pair) for pair in sorted(drawn)] == sorted(uuid7(*pair) for pair in drawn)


@given(strategies.ids())
def test_a_short_id_reads_back_in_any_case(id: str) -> None:
    short = short_id(id)
    assert len(short) == SHORT_ID_LENGTH
    assert find_long_id(short) == find_long_id(short.upper()) == id


@given(strategies.ids())
def test_an_id_reads_back_with_and_without_dashes(id: str) -> None:
    assert find_long_id(id) == find_long_id(id.upper()) == find_long_id(id.replace("-", "")) == id


@given(strategies.ids(), strategies.ids())
def test_short_ids_sort_as_ids_do(left: str, right: str) -> None:
    assert (short_id(left) < short_id(right)) == (left < right)


def test_find_long_id_of_other_text_is_none() -> None:
    # The first character of a short id holds three bits, so an 8 is already too large.
    for text in ("", "main", "z" * 26, "8" + "0" * 25, "i" * 26, "g" * 32, "0" * 31, "0" * 64):
        assert find_long_id(text) is None


@given(st.text(max_size=40))
def test_find_long_id_of_any_text_is_none_or_long(text: str) -> None:
    found = find_long_id(text)
    assert found is None or find_long_id(found) == found


contents = st.lists(strategies.texts(), max_size=4)


@given(readable_ms, contents, contents)
def test_derived_id_is_equal_only_for_equal_content(
    ms: int, left: list[str], right: list[str]
) -> None:
    assert (derived_id(ms, *left) == derived_id(ms, *right)) == (left == right)


def test_a_derived_id_never_changes() -> None:
    # Pinned: two people who import one transcript must end with the same turns for ever.
    assert derived_id(1_790_000_000_000, "sha256:00", "hello") == PINNED
    assert derived_id(1_790_000_000_001, "sha256:00", "hello") != PINNED


def test_derived_id_separates_fields() -> None:
    assert derived_id(0, "ab") != derived_id(0, "a", "b")
    assert derived_id(0, "a\nb") != derived_id(0, "a", "b")
    assert derived_id(0, "1:a") != derived_id(0, "a")


@given(readable_ms)
def test_timestamp_reads_back(ms: int) -> None:
    assert unix_ms(instant(ms)) == ms
    assert len(instant(ms)) == len("2026-11-15T09:30:00.000Z")


@given(readable_ms, readable_ms)
def test_timestamps_sort_as_text(left: int, right: int) -> None:
    assert (instant(left) < instant(right)) == (left < right)


def test_timestamp_is_utc_with_milliseconds() -> None:
    assert instant(1_790_000_000_007) == Timestamp("2026-09-21T14:13:20.007Z")


PINNED = "01a0c450-6c00-7c70-8ea0-884514a5620a"
