"""Reads the shape of the tree: segments, heads, marks, and turns as lines."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Final, NamedTuple
from uuid import UUID

from turntree.core.canonical import digest_from_raw
from turntree.core.event import FeedPosition
from turntree.core.ids import Digest, TurnId
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, as_uuids
from turntree.db.sql import load_statements
from turntree.ledger.title_start import START_CHARS, START_CHARS_MAX, find_title

SQL = load_statements(__file__)

CHANGES_MAX: Final = 2_000
"""After this many events, everything is read again: that costs less than looking up each."""
TAKES_AWAY: Final = (
    "message.erased", "node.untagged", "program.granted", "program.revoked",
    "program.visibility_changed", "session.configured", "session.merged",
)  # fmt: skip
"""Kinds of events after which a client may hold what it should no longer show."""


class SegmentEnds(NamedTuple):
    """An unbranched run of turns, by its two ends."""

    id: int
    parent: int
    parent_depth: int
    low: int
    high: int
    first_ms: int
    last_ms: int
    by: str | None
    """The agent as a principal, or the tool."""
    first_turn: str
    last_turn: str


class SessionHead(NamedTuple):
    """A session and the position of its head; -1 stands for no segment."""

    id: str
    label: str
    title: str
    segment: int
    depth: int
    folder: str | None
    spawn_segment: int
    spawn_depth: int
    status: str
    tool: str | None
    began_ms: int


_BEGAN: Final = attrgetter("began_ms", "id")


class TurnMarkPlace(NamedTuple):
    """A turn that is worth a mark."""

    segment: int
    depth: int
    kind: str
    name: str | None


class TurningPlace(NamedTuple):
    """The turn that goes on in a segment which others leave."""

    segment: int
    depth: int
    turn: str


class PausePlace(NamedTuple):
    """A gap between two turns of a segment."""

    segment: int
    depth: int
    from_ms: int
    to_ms: int


class TurnOutline(NamedTuple):
    """A turn without its messages."""

    segment: int
    depth: int
    turn: TurnId
    digest: Digest
    title: str
    by: str
    tool: str | None
    model: str | None
    at_ms: int
    outcome: str
    kind: str
    tokens: int | None
    files: bool


class SpineSegment(NamedTuple):
    """The part of a segment that belongs to a thread."""

    id: UUID
    number: int
    low: int
    high: int


class BranchEnds(NamedTuple):
    """A branch that leaves a thread."""

    from_depth: int
    segment: int
    low: int
    high: int
    turn: str
    by: str
    tool: str | None
    label: str | None
    last_ms: int


class TurnRange(NamedTuple):
    """Turns of one segment."""

    segment: int
    low: int
    high: int


@value
class ShapeChanges:
    """What changed after a position; each segment comes with the number of its root."""

    streams: frozenset[UUID]
    segments: tuple[UUID, ...]
    roots: dict[int, int]


@value
class ShapeState:
    """How far events and imports of a workspace go; two that are equal have the same skeleton."""

    told: tuple[int | None, ...]
    """The newest settled event, and the number of later ones, as the viewer sees them; the same of
    imports, if nothing is hidden from the viewer."""
    everything: tuple[int | None, ...] | None
    """The same for all events and imports; None if nothing is hidden from the viewer."""


@value
class ShapeStore:
    """The tree without its texts. It only reads."""

    database: Database

    async def find_position(self) -> tuple[FeedPosition, bool]:
        """Return the newest settled position, and whether nothing is hidden from this viewer."""
        row = await self.database.fetch_one(SQL["shape_position"])
        assert row is not None, "a left join always has a row"
        *position, sees_all = row
        numbers = [number or 0 for number in position]
        return FeedPosition(*numbers), bool(sees_all)

    async def find_state(self) -> ShapeState:
        """Return what is another as soon as anything is, of what this viewer sees."""
        row = await self.database.fetch_one(SQL["shape_state"])
        assert row is not None, "a left join always has a row"
        *told, sees_all = row
        if sees_all:
            return ShapeState(tuple(told), None)
        # What is taken from a viewer's sight is an event that this viewer cannot read.
        row = await self.database.seen_by(EVERYTHING).fetch_one(SQL["shape_state"])
        assert row is not None, "a left join always has a row"
        *everything, _ = row
        return ShapeState(tuple(told), tuple(everything))

    async def find_changes(self, after: FeedPosition) -> ShapeChanges | None:
        """Return what changed after a position; None if everything has to be read again."""
        rows = await self.database.fetch(
            SQL["shape_changes"], epoch=after.epoch, xid=str(after.transaction), n=after.n,
            kinds=list(TAKES_AWAY), limit=CHANGES_MAX,
        )  # fmt: skip
        takes_away = any(takes for _, takes, _ in rows)
        if takes_away or sum(count for *_, count in rows) >= CHANGES_MAX:
            return None
        streams = [stream for stream, *_ in rows]
        changed = await self.database.fetch(SQL["shape_changed"], streams=streams)
        roots = {number: root for _, number, root in changed}
        return ShapeChanges(frozenset(streams), tuple(id for id, *_ in changed), roots)

    async def list_segments(self, of: ShapeChanges | None) -> list[SegmentEnds]:
        """Return the segments that changed, or all, a parent before its children."""
        rows = await self.database.fetch(
            SQL["shape_segments"], segments=None if of is None else list(of.segments)
        )
        return [SegmentEnds._make(row) for row in rows]

    async def list_sessions(self, of: ShapeChanges | None) -> list[SessionHead]:
        """Return the sessions that changed, or all, oldest first."""
        rows = await self.database.fetch(
            SQL["shape_sessions"],
            sessions=None if of is None else list(of.streams),
            start=START_CHARS,
        )
        heads = [
            SessionHead(row[0], row[1], row[2] or _title(row[3]) or "", *row[4:]) for row in rows
        ]
        return sorted(heads, key=_BEGAN)

    async def list_marks(self, of: ShapeChanges | None) -> list[TurnMarkPlace]:
        """Return the marks of the segments that changed, or of all."""
        rows = await self.database.fetch(
            SQL["shape_marks"], segments=None if of is None else list(of.segments)
        )
        return [TurnMarkPlace._make(row) for row in rows]

    async def list_turnings(self, of: ShapeChanges | None) -> list[TurningPlace]:
        """Return the turns that go on where other segments leave those that changed, or all."""
        rows = await self.database.fetch(
            SQL["shape_turnings"], segments=None if of is None else list(of.segments)
        )
        return [TurningPlace._make(row) for row in rows]

    async def count_by_day(self, zone: str) -> list[tuple[str, str | None, int]]:
        """Return days, who took turns, and how many."""
        return [(day, by, turns) for day, by, turns in await self.database.fetch(
            SQL["shape_activity"], zone=zone
        )]  # fmt: skip

    async def list_pauses(self, seconds: int) -> list[PausePlace]:
        """Return the gaps that are longer than some seconds."""
        rows = await self.database.fetch(SQL["shape_pauses"], seconds=seconds)
        return [PausePlace._make(row) for row in rows]

    async def list_places(self, turns: Sequence[TurnId]) -> list[TurnRange]:
        """Return the positions of some turns; one that does not exist is left out."""
        rows = await self.database.fetch(SQL["shape_places"], turns=as_uuids(turns))
        return [TurnRange(segment, depth, depth) for segment, depth in rows]

    async def list_lines(self, ranges: Sequence[TurnRange], *, limit: int) -> list[TurnOutline]:
        """Return turns in the order of their ranges."""
        segments, lows, highs = zip(*ranges, strict=True) if ranges else ((), (), ())
        rows = await self.database.fetch(
            SQL["shape_rows"], segments=list(segments), lows=list(lows), highs=list(highs),
            start=START_CHARS, limit=limit,
        )  # fmt: skip
        titles = {row[2]: _summary(row[12]) or _title(row[4]) for row in rows}
        short = [turn for turn, title in titles.items() if title is None]
        if short:
            for turn, text in await self.database.fetch(
                SQL["shape_texts"], turns=as_uuids(short), start=START_CHARS_MAX
            ):
                titles[turn] = _title(text, START_CHARS_MAX)
        return [
            TurnOutline(
                segment, depth, turn, digest_from_raw(bytes(digest)),
                titles[turn] or "",
                by, tool, model, at_ms, outcome, kind, tokens, files,
            )
            for segment, depth, turn, digest, _, by, tool, model, at_ms, outcome, kind, tokens, _,
                files in rows
        ]  # fmt: skip

    async def list_spine(self, head: TurnId) -> list[SpineSegment]:
        """Return the segments of a thread, the root's first."""
        rows = await self.database.fetch(SQL["shape_spine"], head=UUID(head))
        return [SpineSegment._make(row) for row in reversed(rows)]

    async def list_branches(self, spine: Sequence[SpineSegment]) -> list[BranchEnds]:
        """Return what leaves a thread, from its root on."""
        rows = await self.database.fetch(SQL["shape_branches"], **_spine_params(spine))
        return [BranchEnds._make(row) for row in rows]

    async def list_compactions(self, spine: Sequence[SpineSegment]) -> list[int]:
        """Return the depths of the compactions of a thread."""
        rows = await self.database.fetch(SQL["shape_compactions"], **_spine_params(spine))
        return [depth for (depth,) in rows]


def _spine_params(spine: Sequence[SpineSegment]) -> dict[str, list[UUID] | list[int]]:
    return {"segments": [part.id for part in spine], "highs": [part.high for part in spine]}


def _title(start: str | None, chars: int = START_CHARS) -> str | None:
    return None if start is None else find_title(start, is_cut=len(start) >= chars)


def _summary(turns: int | None) -> str | None:
    return None if turns is None else f"compaction: {turns:,} {'turn' if turns == 1 else 'turns'}"
