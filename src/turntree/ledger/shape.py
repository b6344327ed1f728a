"""The shape facet: the whole tree as segments, and what changed in it after a position."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import PurePosixPath, PureWindowsPath
from typing import Final, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from turntree.core.errors import InvalidOperation
from turntree.core.event import FeedPosition
from turntree.core.ids import TurnId
from turntree.core.value import Facet, value
from turntree.ledger.revisions import RevisionResolver
from turntree.ledger.shape_store import (
    BranchEnds,
    PausePlace,
    SegmentEnds,
    SessionHead,
    ShapeChanges,
    ShapeStore,
    TurningPlace,
    TurnMarkPlace,
    TurnOutline,
    TurnRange,
)

LINES_MAX: Final = 256
PAUSE_S: Final = 1_800
OWN_TOOL: Final = "turntree"
"""Who answered where neither an agent nor another tool did."""
SAMPLE_TOOL: Final = "turntree-demo"
"""The origin of sample data, which people asked for in Turntree itself."""
NO_INDEX: Final = -1
_PARTIAL: Final = "p"
"""Marks a position at which something was hidden from the viewer."""
_Parts = tuple[list[SegmentEnds], list[SessionHead], list[TurnMarkPlace], list[TurningPlace]]


class SkeletonSegment(NamedTuple):
    """A segment with indexes of its agent and project."""

    id: int
    parent: int
    parent_depth: int
    low: int
    high: int
    first_ms: int
    last_ms: int
    agent: int
    project: int
    first_turn: str
    last_turn: str


class SkeletonSession(NamedTuple):
    """A session with indexes of its agent and project."""

    id: str
    label: str
    title: str
    segment: int
    depth: int
    agent: int
    project: int
    folder: str | None
    spawn_segment: int
    spawn_depth: int
    archived: bool
    tool: str | None
    began_ms: int


@value
class Skeleton:
    """The tree without its texts, or what changed in it."""

    position: str
    whole: bool
    agents: tuple[str, ...]
    projects: tuple[str, ...]
    segments: tuple[SkeletonSegment, ...]
    sessions: tuple[SkeletonSession, ...]
    marks: tuple[TurnMarkPlace, ...]
    turnings: tuple[TurningPlace, ...]


@value
class Activity:
    """Turns by day and agent, and pauses."""

    counts: tuple[tuple[str, str, int], ...]
    """Day, agent and number of turns."""
    pauses: tuple[PausePlace, ...]


@value
class Branch:
    """A branch that leaves a thread, by name."""

    ends: BranchEnds
    title: str
    from_turn: TurnId


@value
class Spine:
    """A thread by the turns where something happens: branches, compactions, both ends."""

    head: TurnId
    turns: int
    nodes: tuple[TurnOutline, ...]
    branches: tuple[Branch, ...]


@value
class Shape(Facet):
    """``tree.shape``: what a picture of the whole tree needs, without reading any text."""

    store: ShapeStore
    revisions: RevisionResolver
    tree_projects: dict[int, str | None] = field(default_factory=dict[int, str | None])
    """The project of each tree, by its root segment, as far as it was read."""

    async def read(self, after: str | None = None) -> Skeleton:
        """Return the skeleton of the tree, or only what changed after a position.

        A viewer from whom something is hidden always gets all that is visible: what is taken from
        a viewer's sight leaves no event that this viewer could read.
        """
        # Before the rest: what is committed meanwhile comes twice, and never not at all.
        position, sees_all = await self.store.find_position()
        known = _parse(after) if after and sees_all else None
        changes = None if known is None else await self.store.find_changes(known)
        parts = await self._read_parts(changes)
        if changes is not None and not self._knows(changes, *parts[:2]):
            changes, parts = None, await self._read_parts(None)
        told = f"{position}" if sees_all else f"{position}-{_PARTIAL}"
        return _skeleton(told, changes, *parts, self._projects(changes, *parts[:2]))

    async def _read_parts(self, of: ShapeChanges | None) -> _Parts:
        if of is not None and not of.streams:
            return [], [], [], []
        # Each on a connection of its own: a database has more than one processor.
        return await asyncio.gather(
            self.store.list_segments(of),
            self.store.list_sessions(of),
            self.store.list_marks(of),
            self.store.list_turnings(of),
        )

    def _knows(
        self,
        changes: ShapeChanges,
        segments: Iterable[SegmentEnds],
        sessions: Iterable[SessionHead],
    ) -> bool:
        """Return whether the changes say everything: each tree is known or new, none deleted."""
        new = {one.id for one in segments if UUID(one.first_turn) in changes.streams}
        known = all(root in self.tree_projects or root in new for root in changes.roots.values())
        return known and not any(session.status == "deleted" for session in sessions)

    def _projects(
        self,
        changes: ShapeChanges | None,
        segments: Sequence[SegmentEnds],
        sessions: Sequence[SessionHead],
    ) -> dict[int, str | None]:
        """Return the project of each segment: that of its tree, which its oldest session gave it.

        So a fork with files, which works in a folder of its own, belongs to the same project as
        what it was forked from, and a subagent to that of the turn that spawned it.
        """
        if changes is None:
            self.tree_projects.clear()
            roots: dict[int, int] = {}
            for segment in segments:
                roots[segment.id] = roots.get(segment.parent, segment.id)
        else:
            roots = changes.roots
        spawned: dict[int, int] = {}
        for session in sessions:
            root = roots.get(session.segment, NO_INDEX)
            if root == NO_INDEX:
                continue
            above = roots.get(session.spawn_segment, root)
            if above != root:
                spawned.setdefault(root, above)
            elif self.tree_projects.get(root) is None:
                self.tree_projects[root] = find_project(session.folder, session.label)
        for root in spawned:
            above, passed = root, set[int]()
            while above in spawned and above not in passed:
                passed.add(above)
                above = spawned[above]
            self.tree_projects[root] = self.tree_projects.get(above)
        for root in roots.values():
            self.tree_projects.setdefault(root, None)
        return {id: self.tree_projects[root] for id, root in roots.items()}

    async def activity(self, *, zone: str = "UTC") -> Activity:
        """Return how many turns each agent took a day, and where work paused.

        Raises:
            InvalidOperation: There is no such time zone.
        """
        try:
            ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise InvalidOperation(f"there is no time zone {zone!r}") from error
        counts: dict[tuple[str, str], int] = {}
        for day, by, turns in await self.store.count_by_day(zone):
            key = day, agent_name(by)
            counts[key] = counts.get(key, 0) + turns
        pauses = await self.store.list_pauses(PAUSE_S)
        return Activity(tuple((*key, turns) for key, turns in counts.items()), tuple(pauses))

    async def lines(self, ranges: Sequence[TurnRange]) -> list[TurnOutline]:
        """Return turns as lines, in the order of their ranges, up to ``LINES_MAX``."""
        return await self.store.list_lines(ranges, limit=LINES_MAX)

    async def lines_of(self, turns: Sequence[TurnId]) -> list[TurnOutline]:
        """Return some turns as lines; one that does not exist is left out."""
        return await self.lines(await self.store.list_places(turns[:LINES_MAX]))

    async def spine(self, revision: str) -> Spine:
        """Return a thread with every branch that leaves it.

        Raises:
            NotFound: The revision names nothing.
        """
        head = (await self.revisions.resolve(revision)).turn
        spine = await self.store.list_spine(head)
        branches = await self.store.list_branches(spine)
        depths = {1, spine[-1].high, *await self.store.list_compactions(spine)}
        depths |= {branch.from_depth for branch in branches}
        ranges = [
            TurnRange(part.number, depth, depth)
            for part in spine
            for depth in sorted(depths)
            if part.low <= depth <= part.high
        ]
        firsts = [TurnRange(branch.segment, branch.low, branch.low) for branch in branches]
        count = len(ranges) + len(firsts)
        lines = {
            (line.segment, line.depth): line
            for line in await self.store.list_lines([*ranges, *firsts], limit=count)
        }
        nodes = tuple(lines[at.segment, at.low] for at in ranges if (at.segment, at.low) in lines)
        turns = {node.depth: node.turn for node in nodes}
        return Spine(
            head,
            spine[-1].high,
            nodes,
            tuple(
                Branch(branch, lines[branch.segment, branch.low].title, turns[branch.from_depth])
                for branch in branches
                if (branch.segment, branch.low) in lines and branch.from_depth in turns
            ),
        )


def agent_name(by: str | None) -> str:
    """Return the name of who answered: an agent, or the tool where a person asked.

    ``by`` is a principal or the name of a tool.
    """
    kind, _, name = (by or OWN_TOOL).rpartition(":")
    return name if kind in ("", "agent") and name != SAMPLE_TOOL else OWN_TOOL


def find_project(folder: str | None, label: str) -> str | None:
    """Return the project of a session: the name of its folder, or what its label says.

    The labels of imported sessions have the tool first and their own name last.
    """
    if folder:
        path = PureWindowsPath(folder) if "\\" in folder else PurePosixPath(folder)
        return path.name or None
    between = label.split("/")[1:-1]
    return "/".join(between) or None


def _parse(after: str) -> FeedPosition | None:
    """Return a position that was told; None if it was told to a viewer who saw only a part."""
    try:
        return FeedPosition.parse(after)
    except ValueError:
        return None


def _skeleton(
    position: str,
    changes: ShapeChanges | None,
    segments: Sequence[SegmentEnds],
    sessions: Sequence[SessionHead],
    marks: Sequence[TurnMarkPlace],
    turnings: Sequence[TurningPlace],
    projects: Mapping[int, str | None],
) -> Skeleton:
    agents: dict[str, int] = {}
    names: dict[str, int] = {}

    def index_of(name: str | None) -> int:
        return NO_INDEX if name is None else names.setdefault(name, len(names))

    drawn: list[SkeletonSegment] = []
    agent_of: dict[int, int] = {}
    for id, parent, fork, low, high, first, last, by, first_turn, last_turn in segments:
        agent = agent_of[id] = agents.setdefault(agent_name(by), len(agents))
        project = index_of(projects.get(id))
        drawn.append(
            SkeletonSegment(
                id, parent, fork, low, high, first, last, agent, project, first_turn, last_turn
            )
        )
    kept = [session for session in sessions if session.status != "deleted"]
    heads = [
        SkeletonSession(
            head.id, head.label, head.title or head.label, head.segment, head.depth,
            agent_of[head.segment] if head.segment in agent_of
            else agents.setdefault(agent_name(head.tool), len(agents)),
            index_of(projects[head.segment] if head.segment in projects
                     else find_project(head.folder, head.label)),
            head.folder, head.spawn_segment, head.spawn_depth, head.status == "archived",
            head.tool, head.began_ms,
        )
        for head in kept
    ]  # fmt: skip
    return Skeleton(
        position, changes is None, tuple(agents), tuple(names), tuple(drawn), tuple(heads),
        tuple(marks), tuple(turnings),
    )  # fmt: skip
