"""``files``: the files a turn left, and what it changed.

Gathers the data; ``cli.output.file_tree`` and ``cli.output.changes`` print it.
"""

import sys
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.common.turn_files import TurnFiles, choose_pin, relative, stand
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.harmless import harmless
from turntree.cli.hints import command_hint
from turntree.cli.output.changes import (
    PATHS_SHOWN_MAX,
    diff_document,
    draw_table,
    entry_document,
    shown_path,
    shown_size,
)
from turntree.cli.output.file_tree import draw_tree
from turntree.cli.output.progress import Report, counting
from turntree.cli.output.text import clean, counted, digits, title
from turntree.cli.param_types import REVISION
from turntree.core.errors import DataMissing, NotFound
from turntree.core.ids import TurnId
from turntree.core.turn import Turn
from turntree.core.value import value
from turntree.resources.blame import AmbiguousChange
from turntree.resources.file_diff import DiffKind, FileDiff
from turntree.resources.resource import FileEntry, ResolvedTurnSnapshot
from turntree.resources.worktrees import name_some

DEPTH_DEFAULT: Final = 1


@value
class FileListing:
    """A resource as a turn left it, and what the turn changed in it."""

    pinned: ResolvedTurnSnapshot
    entries: list[FileEntry]
    diffs: list[FileDiff] | None
    """None if there is no snapshot from before the turn."""
    doubts: list[AmbiguousChange]
    """Changes that other turns may have made."""
    rivals: Mapping[TurnId, Turn]
    """The turns named there."""

    @property
    def files(self) -> int:
        """Number of files."""
        return sum(entry.kind != "directory" for entry in self.entries)


@verb()
@click.argument("revision", metavar="[REV]", default="HEAD", type=REVISION)
@click.argument("path", metavar="[PATH]", required=False)
@click.option("--all", "-a", "everything", is_flag=True, help="Whole tree, all folders expanded.")
def files(terminal: Terminal, revision: str, path: str | None, everything: bool) -> None:
    """Show the files a turn left, and which of them it changed.

    With PATH, print that file as the turn left it.
    """
    if path is not None:
        _print_file(terminal, revision, path)
        return
    with counting(terminal, "reading") as report:
        standing, held = with_ledger(terminal, partial(_read, revision=revision, report=report))
    if terminal.as_json:
        terminal.document(_document(standing, held))
        return
    terminal.page(_draw(standing, held, terminal, depth_max=None if everything else DEPTH_DEFAULT))
    short = digits(standing.pinned.turn.digest)
    terminal.note(f"next: turntree worktree {short}     turntree diff {short} --files")


def _print_file(terminal: Terminal, revision: str, path: str) -> None:
    async def act(opened: CliContext) -> tuple[str, bytes]:
        standing = await stand(opened, revision)
        pinned = choose_pin(standing, Path.cwd())
        inside = relative(pinned.resource, path)
        state = pinned.after.external
        try:
            return inside, await opened.tree.files.read(pinned.resource, state, inside)
        except DataMissing:
            raise
        except NotFound as error:
            command = f"turntree files {digits(standing.pinned.turn.digest)} --all"
            raise NotFound(str(error), hint=command_hint(command)) from error

    inside, content = with_ledger(terminal, act)
    if terminal.as_json:
        text = content.decode("utf-8", "backslashreplace")
        terminal.document({"path": shown_path(inside), "size": len(content), "text": text})
    else:
        # A pipe gets the raw bytes. A terminal must not: it would obey escape sequences.
        shown = harmless(content.decode("utf-8", "backslashreplace"))
        click.echo(shown if sys.stdout.isatty() else content, nl=False)


async def _read(
    opened: CliContext, *, revision: str, report: Report
) -> tuple[TurnFiles, list[FileListing]]:
    standing = await stand(opened, revision)
    return standing, [await _hold(opened, pinned, report) for pinned in standing.pins]


async def _hold(opened: CliContext, pinned: ResolvedTurnSnapshot, report: Report) -> FileListing:
    tree, resource, after = opened.tree, pinned.resource, pinned.after.external
    entries = await tree.files.list_entries(resource, after)
    if pinned.before is None:
        return FileListing(pinned, entries, None, [], {})
    diffs = await tree.files.diff(resource, pinned.before.external, after, report=report)
    try:
        doubts = await tree.blame.list_doubts(pinned)
    except DataMissing:
        doubts = []  # Another turn's snapshot is gone; this turn's files are not.
    named = {turn for doubt in doubts for turn in doubt.turns}
    rivals = {turn: (await tree.turns.get(turn)).turn for turn in sorted(named)}
    return FileListing(pinned, entries, diffs, doubts, rivals)


def _draw(
    standing: TurnFiles, held: list[FileListing], terminal: Terminal, *, depth_max: int | None
) -> Iterator[str]:
    turn = standing.pinned.turn
    if standing.sentence is not None:
        yield terminal.paint(standing.sentence, "warn")
    yield f"{terminal.paint(digits(turn.digest), 'strong')} {title(turn)}"
    for one in held:
        yield ""
        yield from _draw_held(one, terminal, depth_max=depth_max)


def _draw_held(one: FileListing, terminal: Terminal, *, depth_max: int | None) -> Iterator[str]:
    pinned = one.pinned
    size = shown_size(pinned.after.size)
    held = f"{counted(one.files, 'file')}, {size}"
    yield f"{terminal.paint(clean(pinned.resource.place), 'label')}   {held}"
    if pinned.after.consistency == "inconsistent":
        yield terminal.paint("files changed while this state was kept", "warn")
    signs: dict[str, DiffKind] = {diff.path: diff.kind for diff in one.diffs or ()}
    yield from draw_tree(one.entries, signs, terminal, depth_max=depth_max)
    if one.diffs is None:
        yield terminal.paint(
            "what it changed is unknown: there is no snapshot from before it", "dim"
        )
    elif not one.diffs:
        yield terminal.paint("it changed none of them", "dim")
    else:
        yield "it changed" if not one.doubts else "changed while it was at work"
        yield from draw_table(one.diffs, terminal, shown_max=PATHS_SHOWN_MAX)
        yield from _draw_doubts(one, terminal)


def _draw_doubts(one: FileListing, terminal: Terminal) -> Iterator[str]:
    """Yield which other turns may have changed what: one line per group of turns."""
    grouped: dict[tuple[tuple[TurnId, ...], bool], list[str]] = {}
    for doubt in one.doubts:
        grouped.setdefault((doubt.turns, doubt.is_theirs), []).append(shown_path(doubt.path))
    for (turns, is_theirs), paths in grouped.items():
        named = [f"{digits(one.rivals[turn].digest)} {title(one.rivals[turn])}" for turn in turns]
        who = ", ".join(named) or "a turn that is hidden from you"
        deed = "changed" if is_theirs else "perhaps changed"
        line = f"  at the same time {deed} by {who}: {name_some(paths)}"
        yield terminal.paint(line, "warn")


def _document(standing: TurnFiles, held: list[FileListing]) -> dict[str, Any]:
    return {
        "turn": standing.asked.turn.id,
        "digest": standing.asked.turn.digest,
        "pinned_by": standing.pinned.turn.id,
        "pinned_by_digest": standing.pinned.turn.digest,
        "resources": [
            {
                "resource": one.pinned.resource.id,
                "kind": one.pinned.resource.kind,
                "place": shown_path(one.pinned.resource.place),
                "snapshot": one.pinned.after.id,
                "state": one.pinned.after.external.id,
                "before": None if one.pinned.before is None else one.pinned.before.external.id,
                "size": one.pinned.after.size,
                "files": one.files,
                "consistency": one.pinned.after.consistency,
                "entries": [entry_document(entry) for entry in one.entries],
                "changed": None
                if one.diffs is None
                else [diff_document(diff, with_lines=False) for diff in one.diffs],
                "doubts": [
                    {
                        "path": shown_path(doubt.path),
                        "turns": list(doubt.turns),
                        "digests": [one.rivals[turn].digest for turn in doubt.turns],
                        "certain": doubt.is_theirs,
                    }
                    for doubt in one.doubts
                ],
            }
            for one in held
        ],
    }
