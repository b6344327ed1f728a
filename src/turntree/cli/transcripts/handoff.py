"""``handoff``: write a thread as a session that another tool can continue.

Knows how to start a program; ``boot.handoffs`` writes the session.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from turntree.boot.handoffs import SessionCopy, plan_copy, write_copy
from turntree.boot.open import load_exporters
from turntree.boot.thread_objects import WholeThread, read_whole
from turntree.cli.command import Terminal, verb
from turntree.cli.common.turn_files import note_standing
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.files.worktree import NewWorktree, make_worktree
from turntree.cli.hints import command_hint
from turntree.cli.output.text import counted, cut, digits, title
from turntree.cli.param_types import REVISION
from turntree.core.errors import InvalidOperation, PathExists, TurntreeError
from turntree.core.value import value
from turntree.system.clock import SystemClock
from turntree.system.shell_words import joined
from turntree.transcripts.exporter import Exporter

TITLE_CHARS_MAX: Final = 60


@verb()
@click.argument("revision", metavar="REV", type=REVISION)
@click.option(
    "--to",
    "tool",
    metavar="TOOL",
    help="Tool to continue in: claude-code, codex, gemini or opencode; by default the "
    "session's origin.",
)
@click.option("--open", "opens", is_flag=True, help="Start of the tool, in the new session.")
@click.option(
    "--into",
    metavar="DIR",
    type=click.Path(file_okay=False),
    help="Folder to work in; by default this one, or a new one beside it.",
)
@click.option(
    "--files",
    "-f",
    "with_files",
    is_flag=True,
    help="New folder to work in, with the files as the turn left them.",
)
@click.option("--flatten", "flat", is_flag=True,
              help="Tool calls as text, for a tool that refuses them.")  # fmt: skip
def handoff(terminal: Terminal, opens: bool, **asked: Any) -> None:
    """Write a session that another tool can continue.

    The session is a new one, where the tool looks for sessions of the folder. Tool calls and their
    results are preserved, and no existing file is changed. With --files the folder is a new
    worktree, with the files as the turn left them. --open starts the tool; with --json nothing is
    started.
    """
    is_started = opens and not terminal.as_json
    made = _write_session(terminal, _HandoffArgs(**asked, is_started=is_started))
    if not is_started:
        _tell(terminal, made)
        return
    terminal.note(made.command)
    _start(made)


@value
class _HandoffArgs:
    """The arguments of the command line."""

    revision: str
    tool: str | None
    into: str | None
    flat: bool
    with_files: bool
    is_started: bool
    """Whether the tool is started at once."""


@value
class HandoffResult:
    """A session that was written, and the folder that was made for it."""

    copy: SessionCopy
    worktree: NewWorktree | None = None
    """The folder that was created for it, with the files as the turn left them."""

    @property
    def command(self) -> str:
        """The command that continues it, in this shell."""
        return self.copy.command_from(Path.cwd())

    def document(self) -> Mapping[str, Any]:
        """Return the JSON document for programs."""
        copy, turn = self.copy, self.copy.thread.head.turn
        return {
            "tool": copy.exporter.tool,
            "session": copy.plan.session,
            "turn": turn.id,
            "digest": turn.digest,
            "folder": str(copy.order.folder),
            "worktree": None if self.worktree is None else self.worktree.places[0],
            "files": [str(file.path) for file in copy.plan.files],
            "messages": copy.messages,
            "tool_calls": copy.tool_calls,
            "next": self.command,
        }


def _write_session(terminal: Terminal, asked: _HandoffArgs) -> HandoffResult:
    thread = with_ledger(
        terminal, lambda opened: read_whole(opened.tree, asked.revision, visible=True)
    )
    exporter = _choose(asked.tool, thread)
    # Checked first: a session that cannot be opened would only be left behind.
    if asked.is_started and shutil.which(exporter.program) is None:
        raise InvalidOperation(
            f"{exporter.program} is not on the PATH; get it with: {exporter.install}",
            hint=command_hint(f"turntree handoff {asked.revision} --to {exporter.tool}"),
        )
    turn = thread.head.turn
    worktree = _make_folder(terminal, asked) if asked.with_files else None
    folder = Path((worktree.places[0] if worktree else asked.into) or ".").resolve()
    if not folder.is_dir():
        raise click.UsageError(f"there is no folder {folder}; --files makes a new one")
    named = f"{cut(title(turn), TITLE_CHARS_MAX)} ({digits(turn.digest)})"
    try:
        plan = plan_copy(exporter, thread, folder, named, SystemClock(), flat=asked.flat)
        done = with_ledger(terminal, partial(_write, plan=plan))
    except TurntreeError:
        if worktree is not None:
            # No session will work there.
            with_ledger(terminal, partial(_take_back, made=worktree))
        raise
    if done.complaint is not None:
        terminal.note(f"the session was written, but its origin was not recorded: {done.complaint}")
    return HandoffResult(done, worktree)


async def _take_back(opened: CliContext, *, made: NewWorktree) -> None:
    for place in made.places:
        await opened.tree.worktrees.remove(place, force=True)
    await opened.tree.sessions.set_status(made.label, "archived")


async def _write(opened: CliContext, *, plan: SessionCopy) -> SessionCopy:
    by = f"human:{opened.settings.user}"
    return await write_copy(plan, opened.database, opened.settings.home, by)


def _make_folder(terminal: Terminal, asked: _HandoffArgs) -> NewWorktree:
    """Create a worktree of one folder, in which the tool is to work."""
    try:
        made = make_worktree(terminal, asked.revision, asked.into)
    except PathExists as error:
        words = ["turntree", "handoff", asked.revision, "--files", *["--flatten"] * asked.flat]
        words += [] if asked.tool is None else ["--to", asked.tool]
        hint = command_hint(joined([*words, "--into", error.free]))
        raise InvalidOperation(str(error), hint=hint) from error
    note_standing(terminal, [made.standing])
    if len(made.places) != 1:
        with_ledger(terminal, partial(_take_back, made=made))
        raise InvalidOperation(f"the turn left {len(made.places)} places, and a tool works in one")
    return made


def _choose(tool: str | None, thread: WholeThread) -> Exporter:
    exporters = load_exporters()
    name = tool or (thread.origin.tool if thread.origin else None)
    if name in exporters:
        return exporters[name]
    known = ", ".join(sorted(exporters))
    if tool is None:
        raise click.UsageError(f"name the tool that is to continue it, with --to: {known}")
    raise click.UsageError(f"no exporter for {tool!r} is installed; there are {known}")


def _tell(terminal: Terminal, made: HandoffResult) -> None:
    copy = made.copy
    terminal.tell(
        f"{digits(copy.thread.head.turn.digest)} is a session of {copy.exporter.tool} now: "
        f"{counted(copy.messages, 'message')}, {counted(copy.tool_calls, 'tool call')}",
        made.document(),
        undo=copy.removal(None if made.worktree is None else made.worktree.removal),
        then=(f"next: {made.command}",),
    )


def _start(made: HandoffResult) -> None:
    copy = made.copy
    os.chdir(copy.order.folder)
    try:
        if copy.plan.prepare is not None:
            subprocess.run(copy.plan.prepare, check=True)
        os.execvp(copy.plan.resume[0], copy.plan.resume)  # noqa: S606  (the tool takes our place)
    except (OSError, subprocess.CalledProcessError) as error:
        raise InvalidOperation(f"{copy.exporter.program} did not start: {error}") from error
