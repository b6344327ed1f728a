"""Slots of workspaces, and maps of slots to databases."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree.core.errors import InvalidOperation
from turntree.core.ids import RANDOM_BITS, uuid7
from turntree.db.shard import (
    SLOTS,
    ShardMap,
    make_shard_map,
    place_id,
    slot_of,
    slot_of_name,
)

ONE, TWO = "postgresql://one/turntree", "postgresql://two/turntree"
HALVES = make_shard_map([(["0-2047"], ONE), (["2048-4095"], TWO)])


def test_slot_of_a_name_never_changes() -> None:
    # A ledger depends on these for as long as it lives.
    assert [slot_of_name(name) for name in ("default", "team", "équipe")] == [0x37A, 0xCA8, 0x8CA]
    assert slot_of("01a0c3a8-2001-7000-8000-0000000deadb") == 0xADB


@given(st.integers(0, (1 << RANDOM_BITS) - 1), st.text(max_size=40))
def test_id_of_a_new_workspace_leads_where_its_name_does(randomness: int, name: str) -> None:
    made, new_id = place_id(uuid7(1_790_000_000_000, randomness), name), uuid7(0, randomness)
    assert slot_of(made) == slot_of_name(name)
    assert len(made) == len(new_id)
    assert HALVES.find(made) == HALVES.find_named(name)


@given(st.lists(st.integers(1, SLOTS - 1), unique=True, max_size=8))
def test_map_of_any_cuts_finds_one_database_for_each_slot(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), SLOTS]
    shards = make_shard_map([
        ([f"{low}-{high - 1}"], f"db-{low}") for low, high in pairwise(ends)
    ])  # fmt: skip
    for slot in range(0, SLOTS, 97):
        (found,) = [one for one in shards.shards if one.has(slot)]
        assert shards.find(f"{slot:036x}") == found


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([(["0-2047"], ONE), (["2047-4095"], TWO)], "slot 2047 is in shard 1 and in shard 2"),
        ([(["0-2047"], ONE), (["2049-4095"], TWO)], "slot 2048 is in no shard"),
        ([(["0-4094"], ONE)], "slot 4095 is in no shard"),
        ([(["1-4095"], ONE)], "slot 0 is in no shard"),
        ([], "slot 0 is in no shard"),
        ([(["0-4096"], ONE)], "they are 0 to 4095"),
        ([(["9-3"], ONE)], "they are 0 to 4095"),
        ([(["all"], ONE)], "'all' is not a range of slots"),
    ],
)
def test_map_with_a_gap_or_an_overlap_is_refused(
    entries: list[tuple[list[str], str]], why: str
) -> None:
    with pytest.raises(InvalidOperation, match=why):
        make_shard_map(entries)


def test_shard_is_described_without_its_password() -> None:
    shards = make_shard_map([(["0-9", "4095"], "postgresql://me:hunter2@x/y"), (["10-4094"], TWO)])
    assert str(shards.get(1)) == "shard 1 (slots 0-9, 4095)"
    assert "hunter2" not in repr(shards)
    with pytest.raises(InvalidOperation, match="there is no shard 3; there are 1 to 2"):
        shards.get(3)


def test_workspace_from_before_the_map_is_held_only_where_both_lead() -> None:
    one, two = HALVES.shards
    assert one.holds(place_id(uuid7(0, 0), "default"), "default")
    assert not two.holds(place_id(uuid7(0, 0), "default"), "default")
    stray = f"{uuid7(0, 0)[:-3]}fff"
    assert not one.holds(stray, "default")
    assert not two.holds(stray, "default")
    assert ShardMap(make_shard_map([(["0-4095"], ONE)]).shards).shards[0].holds(stray, "default")
