"""``diff --files``: how files differ between two turns, or between a turn and now.

Gathers the data; ``cli.output.changes`` prints it.
"""

import os
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final

from turntree.cli.command import Terminal
from turntree.cli.common.turn_files import TurnFiles, note_standing, relative, stand
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.changes import diff_document, draw_diffs, draw_table, shown_path
from turntree.cli.output.progress import Report, counting
from turntree.cli.output.text import clean, digits
from turntree.core.errors import InvalidRevision, NotFound
from turntree.core.ref import ExtRef
from turntree.core.value import value
from turntree.resources.file_diff import FileDiff
from turntree.resources.files import pair_states
from turntree.resources.resource import FileChange, ResolvedTurnSnapshot, Resource
from turntree.resources.service import in_thread

NOW: Final = "."
"""Means the files as they are now."""


@value
class PlaceDiff:
    """How one resource differs."""

    resource: Resource
    old: ExtRef | None
    new: ExtRef | None
    diffs: list[FileDiff]


@value
class FilesDiffer:
    """How the files of two turns differ."""

    standings: tuple[TurnFiles, ...]
    places: list[PlaceDiff]

    @property
    def differ(self) -> bool:
        """Whether anything differs."""
        return any(place.diffs for place in self.places)


def diff_files(
    terminal: Terminal, left: str, right: str, paths: Sequence[str], *, stat: bool
) -> bool:
    """Print how files differ, and return whether they do."""
    with counting(terminal, "comparing") as report:
        found = with_ledger(
            terminal, partial(_read, left=left, right=right, paths=paths, report=report)
        )
    if terminal.as_json:
        terminal.document(_document(found, with_lines=not stat))
        return found.differ
    note_standing(terminal, found.standings)
    if found.differ:
        terminal.page(_draw(found, terminal, stat=stat))
    else:
        terminal.note("the files are the same")
    return found.differ


async def _read(
    opened: CliContext, *, left: str, right: str, paths: Sequence[str], report: Report
) -> FilesDiffer:
    old = await stand(opened, left)
    if right != NOW and await _is_path(opened, right):
        right, paths = NOW, (right, *paths)
    if right == NOW:
        pairs = [(one, one.after.external, await _present(opened, one)) for one in old.pins]
        places = [
            await _compare(opened, one.resource, (before, after), paths, report)
            for one, before, after in pairs
        ]
        return FilesDiffer((old,), places)
    new = await stand(opened, right)
    places = [
        await _compare(opened, resource, states, paths, report)
        for resource, *states in pair_states(old.pins, new.pins)
    ]
    return FilesDiffer((old, new), places)


async def _is_path(opened: CliContext, word: str) -> bool:
    """Whether a file was named in a turn's position; a turn of that name wins."""
    try:
        await opened.tree.resolve(word)
    except (NotFound, InvalidRevision):
        return await in_thread(os.path.lexists, word)
    return False


async def _present(opened: CliContext, pinned: ResolvedTurnSnapshot) -> ExtRef:
    try:
        return await opened.tree.files.keep_present(pinned.resource)
    except NotFound as error:
        place = shown_path(pinned.resource.place)
        raise NotFound(f"there is nothing at {place} now: {error}") from error


async def _compare(
    opened: CliContext,
    resource: Resource,
    states: Sequence[ExtRef | None],
    paths: Sequence[str],
    report: Report,
) -> PlaceDiff:
    old, new = states
    files = opened.tree.files
    changes = await files.compare(resource, old, new)
    wanted = [relative(resource, path) for path in paths]
    chosen = [change for change in changes if not wanted or _is_wanted(change, wanted)]
    diffs = await files.diff(resource, old, new, only=chosen, report=report)
    return PlaceDiff(resource, old, new, diffs)


def _is_wanted(change: FileChange, wanted: Sequence[str]) -> bool:
    return any(
        one in {".", change.path}
        or change.path.startswith(f"{one.rstrip('/')}/")
        or fnmatchcase(change.path, one)
        for one in wanted
    )


def _draw(found: FilesDiffer, terminal: Terminal, *, stat: bool) -> Iterator[str]:
    shown = [place for place in found.places if place.diffs]
    for place in shown:
        if len(found.places) > 1:
            yield terminal.paint(clean(place.resource.place), "label")
        if stat:
            yield from draw_table(place.diffs, terminal)
        else:
            yield from draw_diffs(place.diffs, terminal)


def _document(found: FilesDiffer, *, with_lines: bool) -> dict[str, Any]:
    return {
        "differ": found.differ,
        "turns": [
            {
                "asked": one.asked.turn.digest,
                "pinned_by": one.pinned.turn.digest,
                "short": digits(one.pinned.turn.digest),
            }
            for one in found.standings
        ],
        "places": [
            {
                "resource": place.resource.id,
                "place": shown_path(place.resource.place),
                "old": None if place.old is None else place.old.id,
                "new": None if place.new is None else place.new.id,
                "changes": [diff_document(diff, with_lines=with_lines) for diff in place.diffs],
            }
            for place in found.places
        ],
    }
