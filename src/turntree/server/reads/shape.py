"""The shape of the tree, its activity, turns as lines, spines, and the places of hits.

The shape is written by orjson: pydantic would check each of its numbers again.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import orjson

from turntree.core.errors import InvalidOperation, InvalidQuery
from turntree.core.ids import TurnId, find_long_id
from turntree.core.value import value
from turntree.ledger.shape import Skeleton, agent_name
from turntree.ledger.shape_store import TurnOutline, TurnRange
from turntree.server.access.rights import READ
from turntree.server.context import ServerContext
from turntree.server.route import ApiRoute
from turntree.server.skeleton import find_shape, keep_skeleton
from turntree.wire.shape import (
    ActivityDocument,
    MarkColumns,
    PauseColumns,
    PlaceList,
    RowDocument,
    RowList,
    SegmentColumns,
    SessionColumns,
    ShapeDocument,
    SpineBranch,
    SpineDocument,
    SpineNode,
    TurningColumns,
)

RANGES_MAX: Final = 256
NUMBER_DIGITS_MAX: Final = 18
EVERYTHING: Final = "0"


@value
class ShapeRequest:
    """What the client has already."""

    after: str = EVERYTHING
    """The position of an earlier answer; 0 for everything."""


@value
class ActivityRequest:
    """Where the days begin."""

    zone: str = "UTC"
    """A time zone by its name, such as Europe/Berlin."""


@value
class RowRequest:
    """Which turns: a range of one segment, several ranges, or turns by id."""

    segment: int | None = None
    low: int = 1
    high: int = 1
    at: str = ""
    """Ranges as SEGMENT.LOW-HIGH, separated by commas."""
    turns: str = ""
    """Ids, separated by commas."""


@value
class SpineRequest:
    """Which thread."""

    revision: str


@value
class PlacesRequest:
    """What to search for."""

    q: str
    typing: bool = False
    """Whether it is still being typed: what cannot be read yet finds nothing, without an error."""


async def get_shape(context: ServerContext, asked: ShapeRequest) -> bytes:
    """Return the skeleton of the tree, or what changed after a position."""
    if asked.after != EVERYTHING:
        return write_shape(await find_shape(context.tree).read(asked.after))
    kept = await keep_skeleton(context.tree)
    answer = kept.answers.get("shape")
    return answer or kept.keep_answer("shape", write_shape(kept.skeleton))


def write_shape(skeleton: Skeleton) -> bytes:
    """Return the document of a skeleton as JSON."""
    return orjson.dumps(
        ShapeDocument(
            skeleton.position,
            skeleton.whole,
            sum(segment.high - segment.low + 1 for segment in skeleton.segments),
            skeleton.agents,
            skeleton.projects,
            SegmentColumns(*_columns(skeleton.segments, 11)),
            SessionColumns(*_columns(skeleton.sessions, 13)),
            MarkColumns(*_columns(skeleton.marks, 4)),
            TurningColumns(*_columns(skeleton.turnings, 3)),
        )
    )


async def get_activity(context: ServerContext, asked: ActivityRequest) -> bytes:
    """Return how many turns each agent took a day."""
    kept = await keep_skeleton(context.tree)
    name = f"activity in {asked.zone}"
    answer = kept.answers.get(name)
    return answer or kept.keep_answer(name, await _write_activity(context, asked))


async def _write_activity(context: ServerContext, asked: ActivityRequest) -> bytes:
    activity = await context.tree.shape.activity(zone=asked.zone)
    days: dict[str, int] = {}
    agents: dict[str, int] = {}
    cells = tuple(
        (days.setdefault(day, len(days)), agents.setdefault(agent, len(agents)), turns)
        for day, agent, turns in activity.counts
    )
    pauses = PauseColumns(*_columns(activity.pauses, 4))
    return orjson.dumps(ActivityDocument(tuple(days), tuple(agents), cells, pauses))


async def list_rows(context: ServerContext, asked: RowRequest) -> RowList:
    """Return turns as lines.

    Raises:
        InvalidOperation: A range or an id cannot be read.
    """
    if asked.turns:
        ids = asked.turns.split(",")
        if any(find_long_id(id) != id for id in ids):
            raise InvalidOperation("turns takes whole ids, separated by commas")
        lines = await context.tree.shape.lines_of([TurnId(id) for id in ids])
    else:
        ranges = list(_read_ranges(asked.at))
        if asked.segment is not None:
            ranges.append(TurnRange(asked.segment, asked.low, asked.high))
        lines = await context.tree.shape.lines(ranges)
    return RowList(tuple([_row(line) for line in lines]))


async def get_spine(context: ServerContext, asked: SpineRequest) -> SpineDocument:
    """Return a thread with every branch that leaves it."""
    spine = await context.tree.shape.spine(asked.revision)
    nodes = [
        SpineNode(line.turn, line.depth, line.title, line.at_ms, line.kind, line.outcome)
        for line in spine.nodes
    ]
    branches = [
        SpineBranch(
            branch.from_turn, ends.from_depth, ends.turn, ends.label, branch.title,
            ends.high - ends.low + 1, _agent(ends.by, ends.tool), ends.last_ms,
        )
        for branch in spine.branches
        for ends in [branch.ends]
    ]  # fmt: skip
    return SpineDocument(spine.head, spine.turns, tuple(nodes), tuple(branches))


async def find_places(context: ServerContext, asked: PlacesRequest) -> bytes:
    """Return the positions of all turns that a search finds."""
    nothing = orjson.dumps(PlaceList((), 0, is_complete=True))
    if not asked.q.strip():
        return nothing
    try:
        places = await context.tree.search.places(asked.q)
    except InvalidQuery:
        if asked.typing:
            return nothing
        raise
    return orjson.dumps(PlaceList(places.hits, len(places.hits), places.is_complete))


def _columns(rows: Sequence[Iterable[Any]], width: int) -> Iterable[tuple[Any, ...]]:
    """Return the columns of rows; as many as a row has, even if there is none."""
    return zip(*rows, strict=True) if rows else ((),) * width


def _read_ranges(text: str) -> Iterable[TurnRange]:
    for part in text.split(",")[:RANGES_MAX] if text else ():
        segment, _, depths = part.partition(".")
        low, _, high = depths.partition("-")
        numbers = segment, low, high or low
        if not all(one.isdecimal() and len(one) <= NUMBER_DIGITS_MAX for one in numbers):
            raise InvalidOperation(f"{part[:80]!r} is not a range such as 12.3-40")
        yield TurnRange(int(segment), int(low), int(high or low))


def _row(line: TurnOutline) -> RowDocument:
    return RowDocument(
        line.segment, line.depth, line.turn, line.digest, line.title, _agent(line.by, line.tool),
        line.model, line.at_ms, line.outcome, line.kind, line.tokens, line.files,
    )  # fmt: skip


def _agent(by: str, tool: str | None) -> str:
    return agent_name(by if by.startswith("agent:") else tool)


ROUTES: Final = (
    ApiRoute(
        "GET", "/shape", READ, get_shape, "The skeleton of the tree, or what changed in it.",
        ShapeRequest, ShapeDocument,
    ),
    ApiRoute(
        "GET", "/shape/activity", READ, get_activity, "Turns by day and agent, and pauses.",
        ActivityRequest, ActivityDocument,
    ),
    ApiRoute(
        "GET", "/rows", READ, list_rows, "Turns as lines, without messages.", RowRequest, RowList,
    ),
    ApiRoute(
        "GET", "/spine/{revision}", READ, get_spine, "A thread and every branch that leaves it.",
        SpineRequest, SpineDocument,
    ),
    ApiRoute(
        "GET", "/search/places", READ, find_places, "The places of all turns that a search finds.",
        PlacesRequest, PlaceList,
    ),
)  # fmt: skip
