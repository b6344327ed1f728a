"""The shape of the tree over HTTP: columns of equal length, lines, spines, places of hits."""

import pytest

from tests.server.reads.conftest import Reader
from tests.server.reads.scenes import say
from turntree.api import Tree
from turntree.server.route import adapter_of
from turntree.server.skeleton import ANSWERS_MAX, keep_skeleton
from turntree.wire.shape import ActivityDocument, PlaceList, ShapeDocument

pytestmark = pytest.mark.anyio


async def test_shape_has_columns_of_equal_length(tree: Tree, reader: Reader) -> None:
    first = await say(tree, "main", "one")
    await say(tree, "main", "two")
    await tree.sessions.fork(first, "side")
    await say(tree, "side", "another way")
    shape = await reader.get("shape")
    adapter_of(ShapeDocument).validate_python(shape)
    assert (shape["whole"], shape["turns"], shape["agents"]) == (True, 3, ["claude-code"])
    for table, rows in (("segments", 2), ("sessions", 2), ("marks", 0), ("turnings", 1)):
        assert {len(column) for column in shape[table].values()} == {rows}
    later = await reader.get("shape", after=shape["position"])
    assert (later["whole"], later["segments"]["id"]) == (False, [])


async def test_empty_tree_has_empty_columns(reader: Reader) -> None:
    shape = await reader.get("shape", after="0")
    adapter_of(ShapeDocument).validate_python(shape)
    assert (shape["turns"], shape["segments"]["id"]) == (0, [])
    activity = await reader.get("shape", "activity")
    adapter_of(ActivityDocument).validate_python(activity)
    assert (activity["days"], activity["cells"]) == ([], [])


async def test_activity_in_many_time_zones_is_not_kept_for_all(tree: Tree, reader: Reader) -> None:
    await say(tree, "main", "one")
    zones = [f"Etc/GMT+{hours}" for hours in range(1, ANSWERS_MAX + 3)]
    first = [await reader.get("shape", "activity", zone=zone) for zone in zones]
    assert len((await keep_skeleton(tree)).answers) == ANSWERS_MAX
    assert [await reader.get("shape", "activity", zone=zone) for zone in zones] == first


async def test_rows_are_found_by_range_and_by_turn(tree: Tree, reader: Reader) -> None:
    turns = [await say(tree, "main", f"turn {number}") for number in (1, 2, 3)]
    (segment,) = (await reader.get("shape"))["segments"]["id"]
    by_range = await reader.get("rows", segment=segment, low=1, high=2)
    assert [row["title"] for row in by_range["rows"]] == ["turn 1", "turn 2"]
    several = await reader.get("rows", at=f"{segment}.3-3,{segment}.1")
    assert [row["turn"] for row in several["rows"]] == [turns[2], turns[0]]
    by_turn = await reader.get("rows", turns=",".join(turns[:2]))
    assert [row["depth"] for row in by_turn["rows"]] == [1, 2]
    for wrong in ({"at": "1.x"}, {"turns": "nonsense"}):
        assert (await reader.send("rows", **wrong)).status_code in {409, 422}


async def test_spine_and_places_lead_to_the_same_turns(tree: Tree, reader: Reader) -> None:
    first = await say(tree, "main", "why is the sky blue?")
    await tree.sessions.fork(first, "side/way")
    other = await say(tree, "side/way", "another xylophone")
    await say(tree, "main", "two")
    spine = await reader.get("spine", "main")
    (branch,) = spine["branches"]
    assert (branch["from_turn"], branch["turn"], branch["label"]) == (first, other, "side/way")
    places = await reader.get("search", "places", q="xylophone")
    adapter_of(PlaceList).validate_python(places)
    ((segment, depth),) = places["hits"]
    (row,) = (await reader.get("rows", segment=segment, low=depth, high=depth))["rows"]
    assert row["turn"] == other
    assert (await reader.get("search", "places", q=" "))["hits"] == []
