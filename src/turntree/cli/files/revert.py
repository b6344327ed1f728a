"""``revert``, ``pick`` and ``redo``: take back one turn's file changes, or apply them elsewhere.

Gathers and asks; ``cli.common.merge_preview`` prints.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from turntree.cli.command import Terminal, is_asked, verb
from turntree.cli.common.merge_options import merge_options
from turntree.cli.common.turn_list import TURNS_READ_MAX, draw_turns, list_turns, turn_document
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.hints import command_hint
from turntree.cli.output.text import digits
from turntree.cli.param_types import REVISION
from turntree.core.errors import InvalidOperation, NotFound
from turntree.system.shell_words import quoted

if TYPE_CHECKING:
    from turntree.resources.file_merge import Choice
    from turntree.resources.plans.merge import MergeChoices, MergePlan

TURNS_DEFAULT: Final = 10


@verb()
@click.argument("turn", metavar="[TURN]", required=False, type=REVISION)
@click.argument("paths", metavar="[-- FILE...]", nargs=-1, type=click.Path())
@click.option("--patch", "-p", "by_hunk", is_flag=True, help="Question about every single hunk.")
@click.option("-n", "limit", metavar="N", type=click.IntRange(1, TURNS_READ_MAX),
              default=TURNS_DEFAULT, show_default=True,
              help="Maximum number of turns to list.")  # fmt: skip
@merge_options
def revert(
    terminal: Terminal,
    turn: str | None,
    paths: tuple[str, ...],
    by_hunk: bool,
    limit: int,
    default: Choice | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Take back what one turn did to files, and keep everything later.

    Any turn can be taken back, also one in the middle, by any agent: all of it, single files, or
    with -p single hunks. Files it changed are merged by line, so that later turns and your own
    edits stay. Where they changed the same lines, you choose. `undo` brings back what it took.

    Without a TURN, lists the last turns of all agents in this folder and asks for one. While the
    database is stopped, it works from the files that hooks left, and is recorded later.
    """
    if turn is None:
        turn = _choose_turn(terminal, limit)
        if turn is None:
            return
    from turntree.cli.common.merge_files import HowToMerge, MergeCommand, merge_files
    from turntree.cli.common.turn_files import relative
    from turntree.resources.plans.merge import MergeChoices

    how = HowToMerge(default, dry_run, yes, by_hunk)

    async def propose(opened: CliContext, choices: MergeChoices) -> MergePlan:
        pinned = await opened.tree.resources.pins_of(turn)
        if not any(one.before is not None for one in pinned):
            raise await _nothing_known(opened, turn)
        asked = {relative(one.resource, path) for one in pinned for path in paths}
        chosen = MergeChoices(
            asked if paths else None, choices.hunks, choices.conflicts, choices.default
        )
        found = await opened.tree.plans.propose_revert(turn, chosen)
        if paths and not any(item.asked for item in found.items):
            short = digits((await opened.tree.turns.get(turn)).turn.digest)
            raise NotFound(
                f"{short} did not change {', '.join(paths)}",
                hint=command_hint(f"turntree files {short}"),
            )
        return found

    named = " ".join(quoted(path) for path in paths)
    command = f"turntree revert {quoted(turn)}{f' -- {named}' if named else ''}"
    merge_files(terminal, propose, MergeCommand(command), how)


@verb()
@click.argument("revision", metavar="TURN|SESSION", type=REVISION)
@click.option("--to", "folder", metavar="DIR", type=click.Path(file_okay=False, exists=True),
              default=".", help="Folder to apply it in; by default this one.")  # fmt: skip
@merge_options
def pick(
    terminal: Terminal,
    revision: str,
    folder: str,
    default: Choice | None,
    dry_run: bool,
    yes: bool,
) -> None:
    """Apply what a turn did to files in this folder.

    The changes are merged by line with what is here. A conflict names the turns that made it, and
    you choose. `pick SESSION` applies all turns of the session since it was forked: what was done
    in a worktree comes back in one step. `undo` takes it back.
    """
    from turntree.cli.common.merge_files import HowToMerge, MergeCommand, merge_files

    how, full = HowToMerge(default, dry_run, yes), Path(folder).resolve()

    async def propose(opened: CliContext, choices: MergeChoices) -> MergePlan:
        turns = await _list_picked(opened, revision)
        place = await _find_place(opened, full)
        return await opened.tree.plans.propose_pick(turns, place, choices)

    command = MergeCommand(f"turntree pick {quoted(revision)}", is_offline=False)
    merge_files(terminal, propose, command, how)


@verb()
@merge_options
def redo(terminal: Terminal, default: Choice | None, dry_run: bool, yes: bool) -> None:
    """Redo the revert or pick in this folder that was undone last."""
    from turntree.cli.common.merge_files import HowToMerge, MergeCommand, find_merged, merge_files
    from turntree.resources.plans.merge_log import sort_merges

    async def propose(opened: CliContext, choices: MergeChoices) -> MergePlan:
        found = await find_merged(opened)
        if found is None or not sort_merges(found[1])[1]:
            raise InvalidOperation(
                "there is nothing to redo in this folder", hint=command_hint("turntree reflog")
            )
        return await opened.tree.plans.propose_redo(found[0].id, choices)

    how = HowToMerge(default, dry_run, yes)
    merge_files(terminal, propose, MergeCommand("turntree redo"), how)


def _choose_turn(terminal: Terminal, limit: int) -> str | None:
    """List the last turns in this folder and return the one that the user names."""
    shown, now = with_ledger(
        terminal,
        partial(list_turns, limit=limit, with_lines=terminal.as_json),
        offline=True,
    )
    if terminal.as_json:
        terminal.documents(turn_document(one) for one in shown)
        return None
    for line in draw_turns(shown, now, terminal):
        terminal.say(line)
    if not is_asked(terminal):
        terminal.note(f"next: turntree revert {digits(shown[0].placed.turn.digest)} --dry-run")
        return None
    number: int = click.prompt(
        "take back which one? (0 for none)", type=click.IntRange(0, len(shown)), err=True
    )
    return str(shown[number - 1].placed.turn.id) if number else None


async def _nothing_known(opened: CliContext, revision: str) -> NotFound:
    from turntree.cli.common.turn_files import nothing_pinned

    short = digits((await opened.tree.turns.get(revision)).turn.digest)
    return nothing_pinned(short)


async def _list_picked(opened: CliContext, revision: str) -> list[str]:
    """Return the turns that a pick applies, oldest first."""
    tree = opened.tree
    session = await tree.sessions.ledger.find(revision)
    if session is None or session.head is None:
        await tree.turns.get(revision)
        return [revision]
    # A worktree's session begins as a fork; the turns above that are its source's.
    moves = await tree.sessions.list_moves(session.label, limit=10_000)
    start = next((one.after for one in moves if one.kind == "fork"), None)
    depth = 0 if start is None else (await tree.turns.get(start)).depth
    below = await tree.resources.pins.list_below(session.head, depth)
    pins = await tree.resources.pins.list_pins([turn for turn, _ in below])
    known = {one.pin.turn for one in pins if one.before is not None}
    turns = [str(turn) for turn, _ in below if turn in known]
    if not turns:
        raise NotFound(
            f"no turn of {session.label} has snapshots of the files before and after it",
            hint=command_hint(f"turntree log {session.label}"),
        )
    return turns


async def _find_place(opened: CliContext, full: Path) -> str:
    """Return the known folder around a path, or the path itself."""
    for resource in await opened.tree.resources.list_around(str(full)):
        if resource.kind == "directory":
            return resource.place
    return str(full)
