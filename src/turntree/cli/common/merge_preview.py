"""Print a revert or a pick: what would change, what is in the way, and the turns to choose from.

Pure, like ``cli.output.text``.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from turntree.cli.command import Terminal
from turntree.cli.output.changes import (
    PATHS_SHOWN_MAX,
    diff_document,
    draw_diffs,
    draw_table,
    shown_path,
)
from turntree.cli.output.text import (
    counted,
    cut,
    digits,
    late_sentence,
    title,
)
from turntree.core.ids import TurnId
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.resources.file_diff import FileDiff
from turntree.resources.file_merge import MergeConflict, Why
from turntree.resources.plans.merge import MergeItem, MergePlan

TITLE_MAX: Final = 40
UNCLEAR_SHOWN_MAX: Final = 8
REASONS: Final[Mapping[Why, str]] = {
    "lines": "the same lines were changed since",
    "content": "it was changed since, and is not text",
    "removed": "one side removed it, and the other changed it",
    "added": "another file is there now",
    "type": "it is something else now",
    "mode": "its mode was changed since",
    "in_the_way": "a file is where its folder was",
}


@value
class ShownMerge:
    """A revert or pick before it is carried out."""

    plan: MergePlan
    turns: Mapping[TurnId, ThreadTurn]
    """The turns it is about, and those that its conflicts name."""
    diffs: tuple[tuple[MergeItem, tuple[FileDiff, ...]], ...]
    """What would change in each resource, line by line."""


def draw_merge(shown: ShownMerge, done: str, terminal: Terminal) -> Iterator[str]:
    """Yield which turns are meant, and a table of the paths of each resource."""
    for turn in shown.plan.turns:
        placed = shown.turns[turn]
        yield f"{done} {digits(placed.turn.digest)} {title(placed.turn)}"
    for item, diffs in shown.diffs:
        yield terminal.paint(shown_path(item.resource.place), "label")
        if diffs:
            yield from draw_table(diffs, terminal, shown_max=PATHS_SHOWN_MAX)
        else:
            yield "  nothing has to change"
        if item.late_ms is not None:
            yield terminal.paint(f"  {late_sentence(item.late_ms)}", "warn")
        if item.unclear:
            many = counted(len(item.unclear), "path")
            yield terminal.paint(
                f"  {many} of several turns that ran at the same time: as now", "warn"
            )
            for path in item.unclear[:UNCLEAR_SHOWN_MAX]:
                yield f"    {shown_path(path)}"


def draw_lines(
    shown: ShownMerge, terminal: Terminal, *, lines_max: int | None = None
) -> Iterator[str]:
    """Yield what would change, line by line, up to a maximum."""
    diffs = [diff for _, diffs in shown.diffs for diff in diffs]
    if diffs:
        yield from draw_diffs(diffs, terminal, lines_max=lines_max)


def draw_conflict(conflict: MergeConflict, turns: Mapping[TurnId, ThreadTurn]) -> str:
    """Return a conflict in one line: where, why, and the turns that are in the way."""
    named = [
        f"{digits(turns[turn].turn.digest)} {cut(title(turns[turn].turn), TITLE_MAX)}"
        for turn in conflict.turns
        if turn in turns
    ]
    if conflict.outside:
        named.append("outside any turn")
    by = f": {', '.join(named)}" if named else ""
    places = ", ".join(
        f"{start}-{start + count - 1}" if count > 1 else str(start)
        for start, count in conflict.lines
    )
    where = f":{places}" if places else ""
    return f"{shown_path(conflict.path)}{where}  {REASONS[conflict.why]}{by}"


def merge_document(shown: ShownMerge, *, with_lines: bool = True) -> dict[str, Any]:
    """Return a revert or pick as a JSON document."""
    plan = shown.plan
    return {
        "operation": plan.kind,
        "undoes": plan.undoes,
        "turns": [shown.turns[turn].turn.digest for turn in plan.turns],
        "undecided": bool(plan.undecided),
        "places": [
            {
                "resource": item.resource.id,
                "place": shown_path(item.resource.place),
                "state": item.target.external.id,
                "present": item.present.id,
                "changes": [diff_document(diff, with_lines=with_lines) for diff in diffs],
                "conflicts": [_conflict_document(one, shown.turns) for one in item.conflicts],
                "done_already": [shown_path(path) for path in item.done],
                "unclear": [shown_path(path) for path in item.unclear],
                "late_ms": item.late_ms,
            }
            for item, diffs in shown.diffs
        ],
    }


def _conflict_document(
    conflict: MergeConflict, turns: Mapping[TurnId, ThreadTurn]
) -> dict[str, Any]:
    return {
        "path": shown_path(conflict.path),
        "why": conflict.why,
        "lines": [{"first": first, "count": count} for first, count in conflict.lines],
        "turns": [turns[turn].turn.digest for turn in conflict.turns if turn in turns],
        "outside": conflict.outside,
    }
