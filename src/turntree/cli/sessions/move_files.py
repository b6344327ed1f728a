"""Move a session together with its files: show the changes, ask, apply, report.

Gathers and asks; ``cli.output.restore_preview`` prints. Nothing is changed before the user has seen
the changes, unless there is no terminal to show them on.
"""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click

from turntree.cli.command import Function, Terminal
from turntree.cli.common.turn_files import nothing_known, nothing_pinned
from turntree.cli.context import CliContext, find_worked, with_ledger
from turntree.cli.hints import command_hint
from turntree.cli.output.changes import shown_path
from turntree.cli.output.progress import Report, counting, spinner
from turntree.cli.output.restore_preview import (
    Preview,
    ShownItem,
    draw_conflicts,
    draw_preview,
    draw_summary,
    preview_document,
)
from turntree.cli.output.text import digits
from turntree.core.errors import Hint, InvalidOperation, NotFound
from turntree.core.ids import Digest, TurnId
from turntree.core.session import Session
from turntree.core.thread import MoveResult
from turntree.core.value import value
from turntree.resources.plans.restore import RestoreItem, RestoreKind, RestorePlan
from turntree.resources.plans.saga import PlanOutcome
from turntree.system.shell_words import quoted


@value
class HowToMove:
    """The user's choices besides the target turn."""

    exact: bool = False
    keep: bool = False
    dry_run: bool = False
    yes: bool = False

    def __post_init__(self) -> None:
        """Refuse contradicting choices."""
        if self.exact and self.keep:
            raise click.UsageError("--exact leaves nothing as it is, and --keep does: choose one")

    def check_default(self) -> None:
        """Refuse choices about files in a move without files.

        Raises:
            UsageError: There is one.
        """
        if self != HowToMove():
            raise click.UsageError("--exact, --keep, --dry-run and --yes go with --files")


def file_options(function: Function) -> Function:
    """Add the options of a move with files."""
    for add in (
        click.option("--yes", "-y", is_flag=True, help="No confirmation before files change."),
        click.option("--dry-run", is_flag=True,
                     help="Preview of the changes to files; nothing is done."),
        click.option("--keep", is_flag=True,
                     help="Paths changed both by turns and outside them, left as they are."),
        click.option("--exact", is_flag=True,
                     help="Exact restore of every path, whatever changed it."),
    ):  # fmt: skip
        function = add(function)
    return function


@value
class MovedWithFiles:
    """A session that moved with its files."""

    session: Session
    moved: MoveResult
    preview: Preview
    outcome: PlanOutcome
    undo: str | None
    """The command that undoes it."""


def move_with_files(
    terminal: Terminal,
    name: str,
    revision: str | None,
    kind: RestoreKind,
    how: HowToMove,
    *,
    before: bool = False,
) -> MovedWithFiles | None:
    """Move a session with its files, or show the changes; None if nothing was done.

    Raises:
        InvalidOperation: Turns and another process changed the same files, and no option decides.
    """
    with counting(terminal, "comparing") as report:
        preview = with_ledger(
            terminal,
            partial(
                _propose,
                name=name,
                revision=revision,
                kind=kind,
                how=how,
                before=before,
                report=report,
            ),
        )
    if how.dry_run:
        _show(terminal, preview)
        return None
    if preview.plan.undecided:
        raise _conflict(preview, terminal)
    if preview.is_idle:
        _tell_idle(terminal, preview)
        return None
    if not how.yes and not _agrees(terminal, preview):
        terminal.note("nothing was changed")
        return None
    with spinner(terminal, "bringing files back"):
        return with_ledger(terminal, partial(_carry_out, preview=preview))


def tell_moved_files(terminal: Terminal, done: MovedWithFiles | None) -> None:
    """Print what moved and how to undo it; nothing if nothing was done."""
    if done is None:
        return
    session, preview = done.session, done.preview
    if terminal.as_json:
        document = preview_document(preview, with_lines=False)
        document |= {"done": True, "version": done.moved.version, "left": list(done.outcome.left)}
        terminal.document({**document, "undo": done.undo})
        return
    for line in draw_summary(preview, terminal):
        terminal.say(line)
    if done.outcome.left:
        terminal.note("changed meanwhile, and left as they are:")
        terminal.note("\n".join(f"  {shown_path(path)}" for path in done.outcome.left))
    if done.undo is not None:
        terminal.note(f"undo with: {done.undo}")
    if session.origin is not None:
        # The tool's own session is unchanged; continuing from here makes another one.
        terminal.note(f"continue there with: turntree handoff {session.label} --open")


async def find_way_again(opened: CliContext, session: Session, left: Digest | None) -> str | None:
    """Return the command that repeats a move after an undo, if there is one.

    If the move led to no turn at all, only the first turn of the current head can name that point.
    """
    if left is not None:
        return f"turntree session reset {session.label} {digits(left)}"
    if session.head is None:
        return None
    head = await opened.tree.turns.get(session.head)
    first = await opened.tree.turns.get(f"{session.head}~{head.depth - 1}")
    return f"turntree rewind {session.label} {digits(first.turn.digest)} --before"


async def _propose(
    opened: CliContext,
    *,
    name: str,
    revision: str | None,
    kind: RestoreKind,
    how: HowToMove,
    before: bool,
    report: Report,
) -> Preview:
    tree = opened.tree
    try:
        plan = await tree.plans.propose_restore(
            name, revision, exact=how.exact, keep_conflicts=how.keep, kind=kind, before=before
        )
    except NotFound as error:
        if revision is not None and "knows any files" in str(error):
            raise await _explain_nothing(opened, name, revision, before=before) from error
        raise
    items = [await _show_item(opened, item, report) for item in plan.items]
    left, after = await _digest(opened, plan.session.head), await _digest(opened, plan.target)
    titles = None if plan.target is None else (await tree.turns.get(plan.target)).turn
    asked = await _digest(opened, revision) if before else None
    return Preview(plan, tuple(items), left, after, titles, asked)


async def _explain_nothing(
    opened: CliContext, name: str, revision: str, *, before: bool
) -> NotFound:
    """Return the error that says why there are no files to restore."""
    short = digits(await _digest(opened, revision))
    session = await opened.tree.sessions.get(name)
    label = session.label
    if not before or not await opened.tree.resources.pins_of(revision):
        for pinned in await opened.tree.resources.pins_along(revision, 1):
            return NotFound(
                f"turns up to {short} have snapshots of {shown_path(pinned.resource.place)}, and "
                f"{label} no longer works there",
                # A worktree of that turn has nothing to start from, because the session gave it up.
                hint=command_hint(f"turntree snapshot -s {label} {quoted(pinned.resource.place)}"),
            )
        worked = await find_worked(opened.tree, opened.database, [Path.cwd(), *Path.cwd().parents])
        if worked is not None and worked[0] != session.id:
            # The hooks that took these snapshots are installed already: another session is meant.
            other = (await opened.tree.sessions.ledger.get(worked[0])).label
            return NotFound(
                f"{label} has no snapshots of files, and {other} worked in this folder",
                hint=Hint("session.switch_to", {"session": other}),
            )
        return nothing_pinned(short)
    return nothing_known(short, f"turntree rewind {label} {short} --files")


async def _show_item(opened: CliContext, item: RestoreItem, report: Report) -> ShownItem:
    pinned_by = await _digest(opened, item.pinned_by)
    if item.present is None or not item.changes:
        return ShownItem(item, (), pinned_by)
    diffs = await opened.tree.files.diff(
        item.resource, item.present, item.target.external, only=item.changes, report=report
    )
    return ShownItem(item, tuple(diffs), pinned_by)


async def _digest(opened: CliContext, turn: TurnId | str | None) -> Digest | None:
    return None if turn is None else (await opened.tree.turns.get(turn)).turn.digest


def _show(terminal: Terminal, preview: Preview) -> None:
    if terminal.as_json:
        terminal.document({**preview_document(preview), "done": False})
        return
    terminal.page([*draw_summary(preview, terminal), *draw_preview(preview, terminal)])
    terminal.note("nothing was changed")


def _tell_idle(terminal: Terminal, preview: Preview) -> None:
    if terminal.as_json:
        terminal.document({**preview_document(preview), "done": False})
        return
    for line in draw_summary(preview, terminal):
        terminal.say(line)
    terminal.note("nothing was changed; --exact makes everything as it was then")


def _agrees(terminal: Terminal, preview: Preview) -> bool:
    """Ask the user; without a terminal, running the command is consent."""
    if not (terminal.is_live and sys.stdin.isatty() and sys.stdout.isatty()):
        return True
    for line in draw_preview(preview, terminal, lines_max=max(20, terminal.height - 20)):
        terminal.say(line)
    for line in draw_summary(preview, terminal):
        terminal.say(line)
    return click.confirm("go back?", default=True, err=True)


def _conflict(preview: Preview, terminal: Terminal) -> InvalidOperation:
    label, short = preview.plan.session.label, digits(preview.after)
    if preview.found_by is not None:
        short = f"{digits(preview.found_by)} --before"
    command = {
        "rewind": f"turntree rewind {label} {short} --files",
        "reset": f"turntree session reset {label} {short} --files",
        "undo": f"turntree undo {label}",
    }[preview.plan.move]
    listed: Sequence[str] = list(draw_conflicts(preview, terminal))
    said = (
        f"{label} was not moved: these files were changed by a turn and outside it",
        *listed,
        "--keep leaves them alone, --exact makes everything as it was",
    )
    return InvalidOperation("\n".join(said), hint=command_hint(f"{command} --keep"))


async def _carry_out(opened: CliContext, *, preview: Preview) -> MovedWithFiles:
    plan: RestorePlan = preview.plan
    outcome = await opened.tree.plans.carry_out(plan)
    outcome.check()
    session = await opened.tree.sessions.ledger.get(plan.session.id)
    moved = outcome.moved
    assert moved is not None, "what is done has moved the session"
    undo: str | None = f"turntree undo {session.label}"
    if plan.move == "undo":
        again = await find_way_again(opened, session, preview.before)
        undo = None if again is None else f"{again} --files"
    return MovedWithFiles(session, moved, preview, outcome, undo)
