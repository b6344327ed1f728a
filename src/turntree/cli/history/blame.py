"""``blame``: which turns used a file, and which of them wrote a line.

Gathers the data; ``cli.output.blame`` prints it.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.common.turn_files import choose_pin, relative, stand
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.hints import command_hint
from turntree.cli.output.blame import (
    BlamedLines,
    blame_document,
    draw_blame,
    draw_line,
    draw_lines,
    line_document,
)
from turntree.cli.output.changes import shown_path
from turntree.cli.output.progress import Report, counting
from turntree.cli.output.text import counted, digits
from turntree.cli.param_types import REVISION
from turntree.core.errors import DataMissing, NotFound
from turntree.core.ids import Digest, Timestamp, TurnId
from turntree.core.value import value
from turntree.resources.blame import FileLine
from turntree.resources.commits import find_file
from turntree.resources.resource import ResolvedTurnSnapshot, Resource
from turntree.resources.service import in_thread
from turntree.search.results import SnapshotChange
from turntree.search.service import Blame
from turntree.system.shell_words import quoted

BLAME_DEFAULT: Final = 200
TURNS_READ_MAX: Final = 500
_LINES: Final = re.compile(r"(?P<path>.+?):(?P<first>\d+)(?:-(?P<last>\d+))?", re.ASCII)


@value
class _BlameArgs:
    path: str
    full: Path
    """The same, from the root of this machine."""
    first: int | None
    last: int | None
    revision: str | None
    commit: str | None = None


@value
class _Uses:
    found: list[Blame]
    unique: dict[Digest, int]
    now: Timestamp
    is_whole: bool
    """Whether every snapshot could be read."""


@verb()
@click.argument("path", metavar="PATH[:LINE]", type=click.Path())
@click.option(
    "--lines", "all_lines", is_flag=True, help="Every line of the file, each with its turn."
)
@click.option("--at", "revision", metavar="REV", type=REVISION,
              help="Turn that left the file; by default as it is now.")  # fmt: skip
@click.option("--commit", metavar="COMMIT", help="Git commit that has the file as you mean it.")
@click.option("-n", "--limit", type=click.IntRange(1), default=BLAME_DEFAULT, show_default=True,
              help="Maximum number of uses.")  # fmt: skip
@click.pass_context
def blame(
    context: click.Context,
    terminal: Terminal,
    path: str,
    all_lines: bool,
    revision: str | None,
    commit: str | None,
    limit: int,
) -> None:
    """Show which turns read or wrote a file, or which turn wrote a line.

    PATH:LINE and PATH:FIRST-LAST show which turn wrote these lines, according to the snapshots of
    turns: one turn, a change outside any turn, or one of several turns that ran at the same time.
    PATH alone is a path as recorded, the end of one, or a pattern with *: it lists what turns say
    they did, and, marked (pinned), what their snapshots show. Exits with 1 if no turn did.

    With --commit these are the lines of a file in a git commit. They are compared with what turns
    wrote, so that it does not matter whether the commit was amended, rebased, squashed or picked.
    """
    if revision is not None and commit is not None:
        raise click.UsageError("--at names a turn and --commit a commit; give one of them")
    asked = replace(_understand(path, revision), commit=commit)
    if asked.first is not None or all_lines or revision is not None or commit is not None:
        _blame_lines(terminal, asked)
        return
    with counting(terminal, "reading states") as report:
        uses = with_ledger(terminal, partial(_list_uses, asked=asked, limit=limit, report=report))
    found = uses.found
    if terminal.as_json:
        terminal.documents(row for one in found for row in blame_document(one))
    elif found:
        terminal.page(draw_blame(found, uses.unique, uses.now, terminal))
        short = found[0].placed.turn.digest.removeprefix("sha256:")[:8]
        terminal.note(f"next: turntree show {short}     turntree fork {short} LABEL")
    else:
        terminal.note(f"no turn recorded that it used {path}")
        terminal.note(f"next: turntree search {quoted(path)}")
    if not uses.is_whole:
        terminal.note("what turns pinned is not all there, and was not looked at: turntree fsck")
    context.exit(0 if found else 1)


def _understand(path: str, revision: str | None) -> _BlameArgs:
    named = None if Path(path).exists() else _LINES.fullmatch(path)
    if named is None:
        return _BlameArgs(path, _full(path), None, None, revision)
    first = int(named["first"])
    last = first if named["last"] is None else int(named["last"])
    if not 1 <= first <= last:
        raise click.UsageError("lines are counted from 1: PATH:LINE or PATH:FIRST-LAST")
    return _BlameArgs(named["path"], _full(named["path"]), first, last, revision)


def _full(path: str) -> Path:
    """Return an absolute, normalized path; symlinks are not followed."""
    return Path(os.path.abspath(path))  # noqa: PTH100


async def _list_uses(opened: CliContext, *, asked: _BlameArgs, limit: int, report: Report) -> _Uses:
    changes = await _list_changes(opened, asked, report)
    found = await opened.tree.search.blame(asked.path, limit=limit, changes=changes or ())
    digests = [one.placed.turn.digest for one in found]
    unique = await opened.tree.turns.list_unique_lengths(digests)
    return _Uses(found, unique, opened.now, is_whole=changes is not None)


async def _list_changes(
    opened: CliContext, asked: _BlameArgs, report: Report
) -> Sequence[SnapshotChange] | None:
    """Return the changes that snapshots show of a file; None if some snapshots are missing."""
    for resource in await opened.tree.resources.list_around(str(asked.full)):
        if await opened.tree.blame.has_history(resource):
            inside = relative(resource, asked.path)
            try:
                return await opened.tree.blame.list_changes(resource, inside, report=report)
            except DataMissing:
                return None
    return ()


def _blame_lines(terminal: Terminal, asked: _BlameArgs) -> None:
    with counting(terminal, "reading states") as report:
        blamed = with_ledger(terminal, partial(_read_lines, asked=asked, report=report))
    if terminal.as_json:
        terminal.documents(line_document(line, blamed) for line in blamed.shown)
        return
    if len(blamed.shown) == 1:
        terminal.page(draw_line(blamed.shown[0], blamed, terminal))
    else:
        terminal.page(draw_lines(blamed, terminal))
    for turn, late_ms in blamed.late.items():
        short, seconds = digits(blamed.turns[turn].turn.digest), late_ms / 1000
        terminal.note(f"the folder was first recorded {seconds:.1f} s after {short} began; "
                      "what it wrote before that counts as written outside of turns")  # fmt: skip
    if blamed.is_cut:
        terminal.note("older states were not looked at: what is said to be earlier may be a turn's")
    turns = [
        turn for line in blamed.shown if line.writer.kind == "turn" for turn in line.writer.turns
    ]
    if turns:
        short = digits(blamed.turns[turns[0]].turn.digest)
        terminal.note(f"next: turntree show {short}     turntree files {short}")


async def _read_lines(opened: CliContext, *, asked: _BlameArgs, report: Report) -> BlamedLines:
    tree = opened.tree
    resource: Resource | None
    if asked.commit is not None:
        inside, lines, is_cut = await _read_commit(opened, asked, asked.commit, report)
        resource = await _find_around(opened, asked)
    else:
        resource, at = await _find_history(opened, asked)
        inside = relative(resource, asked.path)
        found = await tree.blame(resource, inside, at=at, report=report)
        lines, is_cut = found.lines, found.is_cut
    shown = lines if asked.first is None else lines[asked.first - 1 : asked.last]
    if not shown:
        in_commit = "" if asked.commit is None else f" --commit {quoted(asked.commit)}"
        raise NotFound(
            f"{shown_path(inside)} has only {counted(len(lines), 'line')}",
            hint=command_hint(f"turntree blame {quoted(asked.path)} --lines{in_commit}"),
        )
    named = list(dict.fromkeys(turn for line in shown for turn in line.writer.turns))
    late = {} if resource is None else await _list_late(opened, resource, shown, named)
    turns = {turn: await tree.turns.get(turn) for turn in (*named, *late)}
    return BlamedLines(inside, shown, turns, opened.now, is_cut, late)


async def _list_late(
    opened: CliContext, resource: Resource, shown: Sequence[FileLine], named: Sequence[TurnId]
) -> dict[TurnId, int]:
    """Return the turns that may have written a line before their folder was recorded."""
    pins = opened.tree.resources.pins
    if any(line.writer.kind in ("outside", "earlier") for line in shown):
        newest = await pins.list_newest(resource.id, limit=TURNS_READ_MAX)
        named = [one.pin.turn for one in newest]
    return await pins.list_late(named)


async def _read_commit(
    opened: CliContext, asked: _BlameArgs, commit: str, report: Report
) -> tuple[str, tuple[FileLine, ...], bool]:
    """Return a file of a git commit: its path in the repository, and its lines.

    Raises:
        NotFound: There is no such commit or file, or no git.
    """
    repository, inside = await in_thread(find_file, str(asked.full))
    try:
        await in_thread(repository.get_commit, commit)
        found = await opened.tree.blame.of_commit(repository, commit, [inside], report=report)
    except NotFound as error:
        if error.hint is not None:
            raise
        raise NotFound(f"{shown_path(inside)} in commit {commit}: {error}") from error
    return inside, found.files[inside], found.is_cut


async def _find_history(
    opened: CliContext, asked: _BlameArgs
) -> tuple[Resource, ResolvedTurnSnapshot | None]:
    """Return where a file's history is: in the resource around it, or in a turn's snapshot."""
    around = None if asked.revision is not None else await _find_around(opened, asked)
    if around is not None:
        return around, None
    pinned = choose_pin(await stand(opened, asked.revision or "HEAD"), asked.full)
    return pinned.resource, None if asked.revision is None else pinned


async def _find_around(opened: CliContext, asked: _BlameArgs) -> Resource | None:
    for resource in await opened.tree.resources.list_around(str(asked.full)):
        if await opened.tree.blame.has_history(resource):
            return resource
    return None
