"""Carry out a revert, a pick, or the undo of one: show the changes, ask, apply, report.

Gathers and asks; ``cli.common.merge_preview`` prints. Nothing is changed before the user has seen
the changes, unless there is no terminal to show them on.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import click

from turntree.cli.command import Terminal
from turntree.cli.common.merge_preview import (
    ShownMerge,
    draw_conflict,
    draw_lines,
    draw_merge,
    merge_document,
)
from turntree.cli.common.turn_files import holds
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.hints import command_hint
from turntree.cli.output.changes import draw_diffs, shown_path
from turntree.cli.output.progress import spinner
from turntree.core.errors import InvalidOperation
from turntree.core.value import value
from turntree.resources.file_diff import FileDiff
from turntree.resources.file_merge import Choice
from turntree.resources.plans.merge import (
    EVERYTHING,
    MergeChoices,
    MergeItem,
    MergeKind,
    MergePlan,
)
from turntree.resources.plans.merge_log import MergeOperation, sort_merges
from turntree.resources.resource import Resource
from turntree.system.shell_words import quoted

Propose = Callable[[CliContext, MergeChoices], Awaitable[MergePlan]]
CONFLICT_KEYS: Mapping[str, Choice] = {"k": "keep", "e": "exact", "m": "mark"}

VERBS: Mapping[tuple[MergeKind, bool], tuple[str, str]] = {
    ("revert", False): ("take back", "took back"),
    ("revert", True): ("bring back", "brought back"),
    ("pick", False): ("apply", "applied"),
    ("pick", True): ("take out", "took out"),
}
"""What an operation and its undo do to a turn, and did."""


@value
class HowToMerge:
    """The user's choices besides the turn."""

    default: Choice | None = None
    dry_run: bool = False
    yes: bool = False
    by_hunk: bool = False


@value
class MergeCommand:
    """The command that the user typed, and how its operation is called."""

    text: str
    """What to type again, with an option that decides about conflicts."""
    is_undo: bool = False
    is_offline: bool = True
    """Whether it does without the database while that is stopped."""

    @property
    def undo(self) -> str:
        """The command that takes it back."""
        return "turntree redo" if self.is_undo else "turntree undo"

    def asks(self, kind: MergeKind) -> str:
        """Return what it would do to a turn."""
        return VERBS[kind, self.is_undo][0]

    def did(self, kind: MergeKind) -> str:
        """Return what it did to a turn."""
        return VERBS[kind, self.is_undo][1]


def merge_files(
    terminal: Terminal,
    propose: Propose,
    command: MergeCommand,
    how: HowToMerge,
    choices: MergeChoices = EVERYTHING,
) -> None:
    """Propose, show, ask, carry out and report.

    Raises:
        InvalidOperation: There are conflicts, and neither an option nor an answer decides.
    """
    choices = replace(choices, default=how.default)
    shown = with_ledger(
        terminal, partial(_show, propose=propose, choices=choices), offline=command.is_offline
    )
    if how.by_hunk:
        hunks = _ask_hunks(terminal, shown, command)
        choices = replace(choices, hunks=hunks)
        shown = with_ledger(
            terminal, partial(_show, propose=propose, choices=choices), offline=command.is_offline
        )
    if shown.plan.undecided and not how.dry_run:
        # --yes answers whether to go on, not which side of a conflict to take.
        if not _has_person(terminal) or how.yes:
            raise _conflict(shown, command)
        decided = _ask_conflicts(terminal, shown)
        choices = replace(choices, conflicts=decided)
        shown = with_ledger(
            terminal, partial(_show, propose=propose, choices=choices), offline=command.is_offline
        )
    if how.dry_run or not shown.plan.acts:
        _tell_nothing_done(terminal, shown, command)
        return
    asks = not how.yes and _has_person(terminal)
    if asks and not _agrees(terminal, shown, command):
        terminal.note("nothing was changed")
        return

    async def act(opened: CliContext) -> tuple[str, ...]:
        outcome = await opened.tree.plans.carry_out(shown.plan)
        outcome.check()
        if opened.is_online:
            from turntree.boot.offline import recorder_on

            recorder = recorder_on(opened.tree, opened.settings)
            for item in shown.plan.items:
                await recorder.remember(item.resource)
        return outcome.left

    with spinner(terminal, "changing files"):
        left = with_ledger(terminal, act, offline=command.is_offline)
    _tell(terminal, shown, command, left, was_previewed=asks)


async def find_merged(opened: CliContext) -> tuple[Resource, list[MergeOperation]] | None:
    """Return the innermost resource around this folder that has reverts or picks, and these."""
    for resource in await opened.tree.resources.list_around(str(Path.cwd())):
        merges = await opened.tree.plans.list_merges(resource.id)
        if merges:
            return resource, merges
    return None


async def find_undoable(opened: CliContext) -> Resource | None:
    """Return the resource here whose last revert or pick is what an undo without a name means.

    A rewind, reset or undo of the current session that came later is undone first. A move that only
    followed a tool is not: the user did not make it.
    """
    found = await find_merged(opened)
    if found is None:
        return None
    resource, merges = found
    done, _ = sort_merges(merges)
    if not done:
        return None
    current = await opened.find_current()
    if current is None:
        return resource
    (last, *_) = await opened.tree.sessions.list_moves(current.label, limit=1)
    is_own = last.kind in ("rewind", "reset", "undo")
    return None if is_own and last.at > merges[-1].at else resource


async def _show(opened: CliContext, *, propose: Propose, choices: MergeChoices) -> ShownMerge:
    plan = await propose(opened, choices)
    turns = [*plan.turns, *(turn for one in plan.items for c in one.conflicts for turn in c.turns)]
    placed = {turn: await opened.tree.turns.get(turn) for turn in dict.fromkeys(turns)}
    diffs = [
        (
            item,
            tuple(await opened.tree.files.diff(item.resource, item.present, item.target.external)),
        )
        for item in plan.items
    ]
    return ShownMerge(plan, placed, tuple(diffs))


def _has_person(terminal: Terminal) -> bool:
    return terminal.is_live and sys.stdin.isatty() and sys.stdout.isatty()


def _agrees(terminal: Terminal, shown: ShownMerge, command: MergeCommand) -> bool:
    """Show what would change, and ask. Without a terminal, running the command is consent."""
    for line in draw_lines(shown, terminal, lines_max=max(20, terminal.height - 20)):
        terminal.say(line)
    for line in draw_merge(shown, command.asks(shown.plan.kind), terminal):
        terminal.say(line)
    return click.confirm("do it?", default=True, err=True)


def _ask_conflicts(terminal: Terminal, shown: ShownMerge) -> dict[str, Choice]:
    decided: dict[str, Choice] = {}
    for conflict in shown.plan.undecided:
        terminal.note(draw_conflict(conflict, shown.turns))
        key = click.prompt(
            "  k keep it as it is now, e exactly as wanted, m mark both in the file, q stop",
            type=click.Choice([*CONFLICT_KEYS, "q"]),
            err=True,
        )
        if key == "q":
            raise InvalidOperation("nothing was changed")
        decided[conflict.path] = CONFLICT_KEYS[key]
    return decided


def _ask_hunks(
    terminal: Terminal, shown: ShownMerge, command: MergeCommand
) -> dict[str, frozenset[int]]:
    """Show each hunk of the turn and ask whether it is meant."""
    chosen: dict[str, frozenset[int]] = {}
    for item in shown.plan.items:
        diffs = with_ledger(terminal, partial(_list_asked, item=item), offline=command.is_offline)
        for diff in diffs:
            numbers, goes_on = _ask_file(terminal, diff, command.asks(shown.plan.kind))
            chosen[diff.path] = numbers
            if diff.renamed_from is not None:
                chosen[diff.renamed_from] = numbers
            if not goes_on:
                return chosen
    return chosen


async def _list_asked(opened: CliContext, *, item: MergeItem) -> list[FileDiff]:
    return await opened.tree.files.diff(item.resource, item.base, item.wanted, only=item.asked)


def _ask_file(terminal: Terminal, diff: FileDiff, verb: str) -> tuple[frozenset[int], bool]:
    """Return the hunks that the user wants, and whether to ask about further files."""
    parts = [replace(diff, hunks=(hunk,)) for hunk in diff.hunks] or [diff]
    chosen: set[int] = set()
    for number, part in enumerate(parts):
        for line in draw_diffs([part], terminal):
            terminal.note(line)
        asked = f"{verb} this? {shown_path(diff.path)} {number + 1}/{len(parts)}"
        keys = click.Choice(["y", "n", "a", "d", "q"])
        key = click.prompt(asked, type=keys, err=True)
        if key in ("y", "a"):
            chosen.add(number)
        if key == "a":
            chosen.update(range(number, len(parts)))
        if key in ("a", "d", "q"):
            return frozenset(chosen), key != "q"
    return frozenset(chosen), True


def _conflict(shown: ShownMerge, command: MergeCommand) -> InvalidOperation:
    listed = [f"  {draw_conflict(one, shown.turns)}" for one in shown.plan.undecided]
    said = (
        "nothing was changed: some of it is in the way",
        *listed,
        "--keep leaves these as they are, --exact decides for the turn, --mark shows both",
    )
    return InvalidOperation("\n".join(said), hint=command_hint(f"{command.text} --keep"))


def _tell_nothing_done(terminal: Terminal, shown: ShownMerge, command: MergeCommand) -> None:
    if terminal.as_json:
        terminal.document({**merge_document(shown), "done": False, "undo": None})
        return
    conflicts = [draw_conflict(one, shown.turns) for one in shown.plan.undecided]
    terminal.page(
        [*draw_merge(shown, command.asks(shown.plan.kind), terminal), *draw_lines(shown, terminal)]
    )
    for line in conflicts:
        terminal.note(f"in the way: {line}")
    terminal.note("nothing was changed")


def _tell(
    terminal: Terminal,
    shown: ShownMerge,
    command: MergeCommand,
    left: tuple[str, ...],
    *,
    was_previewed: bool,
) -> None:
    undo = command.undo
    places = [item.resource for item in shown.plan.items if item.changes]
    if not any(holds(place, Path.cwd()) for place in places):
        undo = f"cd {quoted(places[0].place)} && {undo}"
    if terminal.as_json:
        document = merge_document(shown, with_lines=False)
        terminal.document({**document, "done": True, "left": list(left), "undo": undo})
        return
    lines = draw_merge(shown, command.did(shown.plan.kind), terminal)
    # The user has just read the table of paths; the turns come first.
    for line in islice(lines, len(shown.plan.turns) if was_previewed else None):
        terminal.say(line)
    if left:
        terminal.note("changed meanwhile, and left as they are:")
        terminal.note("\n".join(f"  {shown_path(path)}" for path in left))
    terminal.note(f"undo with: {undo}")
