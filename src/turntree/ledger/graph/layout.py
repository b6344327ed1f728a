"""Lays out a forest of turns: rows, lanes and gutters.

Rows are a depth-first walk in which every turn's largest child comes last. That child keeps
its parent's lane; every other child opens the next lane to the right. So a lane is the
number of times a path left the larger half: never more than log2(turns), and one more for
each pinned head that a path can leave. At a row in lane n the lanes 0 to n-1 pass through,
whatever surrounds it, so any window of rows can be drawn without its neighbours.

This module only knows the parents of turns: ids, labels, times and colors are for the code that
prints the line. The web draws the same rows by the same rule.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple, TypeAlias

from turntree.core.ids import TurnId
from turntree.core.value import value

NO_PARENT: Final = -1
ELIDED_TURNS_MIN: Final = 2
"""A single turn takes no more space than the row that would replace it."""


class LayoutNode(NamedTuple):
    """One turn of a topology, which lists parents before children, the older of two first."""

    id: TurnId
    parent: int
    """The index of the turn it is drawn under, or ``NO_PARENT``. For the first turn of a
    subagent that is the turn that spawned it."""
    spawn: bool = False


@value
class LayoutRow:
    """One turn and its position in the picture."""

    index: int
    parent: int
    lane: int
    children: int
    starts_branch: bool
    """Whether it is the oldest turn of a lane that left another: the join is drawn below it."""
    spawn: bool


@value
class ElidedRow:
    """An unbranched run of turns, drawn as one row."""

    newest: int
    oldest: int
    turns: int
    lane: int
    starts_branch: bool
    spawn: bool


AnyRow: TypeAlias = LayoutRow | ElidedRow


class TurnMark(StrEnum):
    """What the glyph of a turn shows."""

    TURN = "turn"
    HEAD = "head"
    COMPACTION = "compaction"
    FAILED = "failed"
    LIVE = "live"


@value
class Glyphs:
    """The glyphs of one style; each is one column wide, except for the two joins."""

    turn: str
    head: str
    compaction: str
    failed: str
    live: str
    elided: str
    lane: str
    fork: str
    spawn: str
    spawned: str


UNICODE: Final = Glyphs("●", "○", "◆", "×", "◉", "┊", "│", "├─╯", "├╌╯", "╎")
ASCII: Final = Glyphs("*", "o", "#", "x", "@", ":", "|", "|-'", "|~'", "~")


@value
class GutterLine:
    """One line of the gutter; a join belongs to no row."""

    gutter: str
    row: AnyRow | None


def layout(topology: Sequence[LayoutNode], pinned: Iterable[int] = ()) -> list[LayoutRow]:
    """Return the rows of a forest, newest first.

    ``pinned`` are indexes of turns whose threads should be straight. The first of them is
    in lane 0; the others leave it where they must.
    """
    children = _children(topology)
    heavy = _heavy(topology, children, pinned)
    rows: list[LayoutRow] = []
    for root in children[NO_PARENT]:
        # The stack holds what is still to be drawn above: the heavy child at the bottom,
        # then the others, so that the branch that was opened first is nearest its fork.
        stack = [(root, 0)]
        while stack:
            index, lane = stack.pop()
            node, below = topology[index], children[index]
            is_light = node.parent != NO_PARENT and heavy[node.parent] != index
            rows.append(LayoutRow(index, node.parent, lane, len(below), is_light, node.spawn))
            if below:
                main_child = heavy[index]
                stack.append((main_child, lane))
                stack.extend((child, lane + 1) for child in reversed(below) if child != main_child)
    rows.reverse()
    return rows


def condense(rows: Iterable[LayoutRow], must_stay: Callable[[int], bool]) -> Iterator[AnyRow]:
    """Yield the rows with every unbranched run of turns drawn as one.

    Roots, forks, heads and spawned turns stay; ``must_stay`` names, by index, what else
    does: the labelled, the compactions, the failed.
    """
    run: list[LayoutRow] = []
    for row in rows:
        is_dull = (
            row.children == 1
            and row.parent != NO_PARENT
            and not row.spawn
            and not must_stay(row.index)
        )
        # A turn with one child is directly below it, so consecutive such rows are one run. No run
        # extends past a fork, because forks stay.
        if is_dull:
            run.append(row)
        else:
            yield from _elide(run)
            run = []
            yield row
    yield from _elide(run)


def gutter(
    rows: Iterable[AnyRow], glyphs: Glyphs, mark: Callable[[LayoutRow], TurnMark] | None = None
) -> Iterator[GutterLine]:
    """Yield the line of each row, and the join below the oldest row of a branch.

    A gutter ends with the glyph of its row; the caller adds the rest. ``mark`` chooses that glyph;
    without it a turn that has no children is a head.
    """
    mark = mark or mark_by_children
    marks: dict[TurnMark, str] = {
        TurnMark.TURN: glyphs.turn,
        TurnMark.HEAD: glyphs.head,
        TurnMark.COMPACTION: glyphs.compaction,
        TurnMark.FAILED: glyphs.failed,
        TurnMark.LIVE: glyphs.live,
    }
    passing = f"{glyphs.lane} "
    for row in rows:
        glyph = glyphs.elided if isinstance(row, ElidedRow) else marks[mark(row)]
        yield GutterLine(passing * row.lane + glyph, row)
        if row.starts_branch:
            join = glyphs.spawn if row.spawn else glyphs.fork
            yield GutterLine(passing * (row.lane - 1) + join, None)
        elif row.spawn and not isinstance(row, ElidedRow):
            # The only child is a subagent's: the edge is dashed although the lane continues.
            yield GutterLine(passing * row.lane + glyphs.spawned, None)


def mark_by_children(row: LayoutRow) -> TurnMark:
    """Return the mark of a turn by its position alone."""
    return TurnMark.TURN if row.children else TurnMark.HEAD


def _children(topology: Sequence[LayoutNode]) -> dict[int, list[int]]:
    """Return the children of every turn, oldest first, and the roots under ``NO_PARENT``."""
    children: dict[int, list[int]] = {index: [] for index in range(NO_PARENT, len(topology))}
    for index, node in enumerate(topology):
        assert NO_PARENT <= node.parent < index, "a turn comes after its parent"
        children[node.parent].append(index)
    return children


def _heavy(
    topology: Sequence[LayoutNode], children: dict[int, list[int]], pinned: Iterable[int]
) -> list[int]:
    """Return, for every turn, the child that keeps its lane, or ``NO_PARENT`` for a head."""
    sizes = [1] * len(topology)
    for index in range(len(topology) - 1, -1, -1):
        parent = topology[index].parent
        if parent != NO_PARENT:
            sizes[parent] += sizes[index]
    # A subagent's turn continues its parent's lane only if there is no other child.
    heavy = [
        max(
            children[index],
            key=lambda child: (not topology[child].spawn, sizes[child]),
            default=NO_PARENT,
        )
        for index in range(len(topology))
    ]
    claimed: set[int] = set()
    for head in pinned:
        child, parent = head, topology[head].parent
        # Below the first turn that an earlier pin claimed, that pin's path stays.
        while parent != NO_PARENT and parent not in claimed:
            claimed.add(parent)
            heavy[parent] = child
            child, parent = parent, topology[parent].parent
    return heavy


def _elide(run: Sequence[LayoutRow]) -> Iterator[AnyRow]:
    if len(run) < ELIDED_TURNS_MIN:
        yield from run
    else:
        newest, oldest = run[0], run[-1]
        yield ElidedRow(
            newest=newest.index,
            oldest=oldest.index,
            turns=len(run),
            lane=oldest.lane,
            starts_branch=oldest.starts_branch,
            spawn=oldest.spawn,
        )
