"""The shape of the tree: columns of equal length, so that a large tree stays a small document."""

from typing import Literal

from turntree.core.value import value

MarkKind = Literal["failed", "stopped", "compaction", "tag", "files"]


@value
class SegmentColumns:
    """Unbranched runs of turns, a parent before its children. A turn is a segment and a depth."""

    id: tuple[int, ...]
    """Ascending and stable, not consecutive."""
    parent: tuple[int, ...]
    """The id of the segment that it leaves, -1 if it begins a tree."""
    parent_depth: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    first_ms: tuple[int, ...]
    """When its first turn started, in milliseconds since 1970."""
    last_ms: tuple[int, ...]
    """When its last turn was sealed."""
    agent: tuple[int, ...]
    """Who answered: an index of ``agents``."""
    project: tuple[int, ...]
    """An index of ``projects``, -1 if there is none."""
    first_turn: tuple[str, ...]
    last_turn: tuple[str, ...]


@value
class SessionColumns:
    """Sessions and the positions of their heads, the oldest first."""

    id: tuple[str, ...]
    label: tuple[str, ...]
    title: tuple[str, ...]
    segment: tuple[int, ...]
    """The segment of its head, -1 if it has no turn."""
    depth: tuple[int, ...]
    agent: tuple[int, ...]
    project: tuple[int, ...]
    folder: tuple[str | None, ...]
    spawn_segment: tuple[int, ...]
    """The position of the turn that spawned it, -1 if none did."""
    spawn_depth: tuple[int, ...]
    archived: tuple[bool, ...]
    tool: tuple[str | None, ...]
    """The tool it was imported from."""
    began_ms: tuple[int, ...]


@value
class MarkColumns:
    """Turns that are worth a mark."""

    segment: tuple[int, ...]
    depth: tuple[int, ...]
    kind: tuple[MarkKind, ...]
    name: tuple[str | None, ...]
    """The tag."""


@value
class TurningColumns:
    """The turn that follows in the same segment where another segment or a subagent leaves it."""

    segment: tuple[int, ...]
    depth: tuple[int, ...]
    turn: tuple[str, ...]


@value
class ShapeDocument:
    """The skeleton of the tree, or what changed in it after a position."""

    position: str
    """Send it as ``after`` to get what changes later."""
    whole: bool
    """Whether this is everything, so that what the client had is out of date."""
    turns: int
    """How many turns the listed segments have."""
    agents: tuple[str, ...]
    projects: tuple[str, ...]
    segments: SegmentColumns
    sessions: SessionColumns
    marks: MarkColumns
    """All marks of the listed segments."""
    turnings: TurningColumns


@value
class PauseColumns:
    """Gaps of more than half an hour between two turns of a segment."""

    segment: tuple[int, ...]
    depth: tuple[int, ...]
    """The turn before the gap."""
    from_ms: tuple[int, ...]
    to_ms: tuple[int, ...]


@value
class ActivityDocument:
    """How many turns each agent took on each day, and when work paused."""

    days: tuple[str, ...]
    agents: tuple[str, ...]
    cells: tuple[tuple[int, int, int], ...]
    """Indexes of a day and an agent, and the number of turns."""
    pauses: PauseColumns


@value
class RowDocument:
    """One turn as a line: everything but its messages."""

    segment: int
    depth: int
    turn: str
    digest: str
    title: str
    agent: str
    model: str | None
    at_ms: int
    outcome: str
    kind: str
    tokens: int | None
    files: bool
    """Whether it changed files."""


@value
class RowList:
    """Turns as lines, in the order in which they were asked for."""

    rows: tuple[RowDocument, ...]


@value
class SpineNode:
    """A turn of a thread that deserves a place on its spine."""

    turn: str
    depth: int
    title: str
    at_ms: int
    kind: str
    outcome: str


@value
class SpineBranch:
    """A branch that leaves a thread."""

    from_turn: str
    from_depth: int
    turn: str
    """The first turn of the branch."""
    label: str | None
    """The session that was there last."""
    title: str
    turns: int
    agent: str
    last_ms: int


@value
class SpineDocument:
    """A thread by its branch points, ends and compactions; depths tell what is between."""

    head: str
    turns: int
    nodes: tuple[SpineNode, ...]
    branches: tuple[SpineBranch, ...]


@value
class PlaceList:
    """The positions of all turns that a search finds."""

    hits: tuple[tuple[int, int], ...]
    """Segment and depth of each."""
    total: int
    is_complete: bool
    """False if there are more, or if some turns are not in the index yet."""
