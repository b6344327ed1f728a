"""Print a move with files: what would change, what stays, and the conflicts.

Pure, like ``cli.output.text``.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from turntree.cli.command import Terminal
from turntree.cli.output.changes import (
    PATHS_SHOWN_MAX,
    diff_document,
    draw_diffs,
    draw_table,
    shown_path,
    shown_size,
)
from turntree.cli.output.text import clean, counted, digits, title
from turntree.core.ids import Digest
from turntree.core.turn import Turn
from turntree.core.value import value
from turntree.resources.file_diff import FileDiff
from turntree.resources.plans.restore import RestoreItem, RestorePlan
from turntree.resources.resource import FileChange

KEPT_SHOWN_MAX: Final = 8
CONFLICTS_SHOWN_MAX: Final = 20


@value
class ShownItem:
    """What would happen to one resource, line by line."""

    item: RestoreItem
    diffs: tuple[FileDiff, ...]
    pinned_by: Digest | None


@value
class Preview:
    """A move with files, before it is made."""

    plan: RestorePlan
    items: tuple[ShownItem, ...]
    before: Digest | None
    after: Digest | None
    turn: Turn | None
    """The session's new head."""
    found_by: Digest | None = None
    """The turn whose state before it is restored, if that was asked for."""

    @property
    def is_idle(self) -> bool:
        """Whether neither the session nor any file would change."""
        stays = self.plan.target == self.plan.session.head
        return stays and not any(shown.item.acts for shown in self.items)


def draw_summary(preview: Preview, terminal: Terminal) -> Iterator[str]:
    """Yield the session's move, and a table of the paths of each resource."""
    label = clean(preview.plan.session.label)
    where = "to no turn" if preview.turn is None else f"{title(preview.turn)}"
    way = f"{digits(preview.before)} -> {digits(preview.after)}"
    yield f"{terminal.paint(label, 'label')}  {way}  {where}".rstrip()
    for shown in preview.items:
        yield from _draw_item(shown, preview, terminal)
    for resource in preview.plan.unknown:
        place = shown_path(resource.place)
        yield f"{terminal.paint(place, 'label')}   stays: no turn says how it was then"


def draw_preview(
    preview: Preview, terminal: Terminal, *, lines_max: int | None = None
) -> Iterator[str]:
    """Yield what would change, line by line, up to a maximum."""
    diffs = [diff for shown in preview.items for diff in shown.diffs]
    if diffs:
        yield from draw_diffs(diffs, terminal, lines_max=lines_max)


def draw_conflicts(preview: Preview, terminal: Terminal) -> Iterator[str]:
    """Yield the paths that were changed both by turns and outside them."""
    found = [change for _, change in preview.plan.conflicts]
    yield from _paths(found, CONFLICTS_SHOWN_MAX, terminal)


def preview_document(preview: Preview, *, with_lines: bool = True) -> dict[str, Any]:
    """Return a move with files as a JSON document."""
    plan = preview.plan
    return {
        "session": plan.session.label,
        "plan": plan.plan.id,
        "move": plan.move,
        "before_digest": preview.before,
        "after_digest": preview.after,
        "undecided": plan.undecided,
        "places": [_item_document(shown, with_lines=with_lines) for shown in preview.items],
        "unknown": [shown_path(resource.place) for resource in plan.unknown],
    }


def _item_document(shown: ShownItem, *, with_lines: bool) -> dict[str, Any]:
    item = shown.item
    return {
        "resource": item.resource.id,
        "place": shown_path(item.resource.place),
        "state": item.target.external.id,
        "present": None if item.present is None else item.present.id,
        "pinned_by": shown.pinned_by,
        "supported": item.supported,
        "whole": item.whole,
        "goes": item.fate == "goes",
        "changes": [diff_document(diff, with_lines=with_lines) for diff in shown.diffs],
        "kept": [shown_path(change.path) for change in item.kept],
        "conflicts": [shown_path(change.path) for change in item.conflicts],
    }


def _draw_item(shown: ShownItem, preview: Preview, terminal: Terminal) -> Iterator[str]:
    item = shown.item
    yield f"{terminal.paint(shown_path(item.resource.place), 'label')}{_state(shown, preview)}"
    if not item.supported:
        yield terminal.paint("  cannot be brought back: it stays as it is", "warn")
    elif item.present is None:
        yield f"  is gone, and made anew: {shown_size(item.target.size)}"
    elif item.fate == "goes":
        yield "  goes: it was gone before, and made anew"
    elif item.fate == "outlives":
        yield "  stays: it was gone before, but has changed since"
    elif shown.diffs:
        yield from draw_table(shown.diffs, terminal, shown_max=PATHS_SHOWN_MAX)
    elif item.acts:
        yield "  is brought back as a whole"
    else:
        yield "  nothing has to change"
    if item.kept:
        many = _subject(item.kept, "stays", "stay")
        pronoun = "it" if len(item.kept) == 1 else "them"
        yield f"  {many}: no turn that is left behind changed {pronoun}"
        yield from _paths(item.kept, KEPT_SHOWN_MAX, terminal)
    if item.conflicts:
        fates = ("is in the way", "are in the way") if preview.plan.undecided else ("stays", "stay")
        many = _subject(item.conflicts, *fates)
        what = "changed by a turn and outside it"
        yield terminal.paint(f"  {many}: {what}", "warn")
        yield from _paths(item.conflicts, CONFLICTS_SHOWN_MAX, terminal)


def _subject(changes: Sequence[FileChange], one: str, several: str) -> str:
    return f"{counted(len(changes), 'path')} {one if len(changes) == 1 else several}"


def _state(shown: ShownItem, preview: Preview) -> str:
    if shown.pinned_by is None or shown.pinned_by == preview.after:
        return ""
    if shown.pinned_by == preview.found_by:
        return f"   as {digits(shown.pinned_by)} found it"
    return f"   as {digits(shown.pinned_by)} left it, the nearest turn that pinned its files"


def _paths(changes: Sequence[FileChange], shown_max: int, terminal: Terminal) -> Iterator[str]:
    for change in changes[:shown_max]:
        yield f"    {shown_path(change.path)}"
    if len(changes) > shown_max:
        yield terminal.spell(f"    … and {len(changes) - shown_max:,} more")
