"""``handoff``: write a thread as a session that another tool can continue.

Knows folders of this machine and how to start a program. The exporters know what a session looks
like. Files that a tool wrote itself are never touched.
"""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from turntree.boot.open import checkouts_on, load_exporters
from turntree.cli.command import Terminal, verb
from turntree.cli.common.thread_objects import WholeThread, read_whole
from turntree.cli.common.turn_files import note_standing
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.files.worktree import NewWorktree, make_worktree
from turntree.cli.hints import command_hint
from turntree.cli.output.text import counted, cut, digits, title
from turntree.cli.param_types import REVISION
from turntree.core.errors import InvalidOperation, PathExists, TurntreeError
from turntree.core.message import ToolUse
from turntree.core.value import value
from turntree.hooks.launcher import launcher_path
from turntree.hooks.spool import FOLDER as SPOOL
from turntree.hooks.spool import Spool
from turntree.models.portable_thread import flatten, without_system
from turntree.system.clock import SystemClock
from turntree.system.shell_words import joined, quoted
from turntree.transcripts.exporter import Exporter, HandoffFiles, HandoffRequest
from turntree.transcripts.exporters.shared import write_new
from turntree.transcripts.importer import ToolPaths
from turntree.transcripts.incoming import Handoff

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
    """A session that was written, and its source."""

    exporter: Exporter
    thread: WholeThread
    order: HandoffRequest
    plan: HandoffFiles
    messages: int
    tool_calls: int
    worktree: str | None = None
    """The folder that was created for it, with the files as the turn left them."""
    worktree_removal: str | None = None
    """The command that removes the worktree."""
    folders: tuple[Path, ...] = ()
    """Folders that were created for the files, deepest first."""

    @property
    def command(self) -> str:
        """The command that continues it, in this shell."""
        words = [] if Path.cwd() == self.order.folder else [f"cd {quoted(str(self.order.folder))}"]
        if self.plan.prepare is not None:
            words.append(joined(self.plan.prepare))
        return " && ".join([*words, joined(self.plan.resume)])

    def document(self) -> Mapping[str, Any]:
        """Return the JSON document for programs."""
        turn = self.thread.head.turn
        return {
            "tool": self.exporter.tool,
            "session": self.plan.session,
            "turn": turn.id,
            "digest": turn.digest,
            "folder": str(self.order.folder),
            "worktree": self.worktree,
            "files": [str(file.path) for file in self.plan.files],
            "messages": self.messages,
            "tool_calls": self.tool_calls,
            "next": self.command,
        }


def _write_session(terminal: Terminal, asked: _HandoffArgs) -> HandoffResult:
    thread = with_ledger(terminal, partial(read_whole, revision=asked.revision, visible=True))
    exporter = _choose(asked.tool, thread)
    # Checked first: a session that cannot be opened would only be left behind.
    if asked.is_started and shutil.which(exporter.program) is None:
        raise InvalidOperation(
            f"{exporter.program} is not on the PATH; get it with: {exporter.install}",
            hint=command_hint(f"turntree handoff {asked.revision} --to {exporter.tool}"),
        )
    told = thread.told()
    if thread.origin is not None:
        told = without_system(told)
    calls = sum(isinstance(part, ToolUse) for said in told for part in said.parts)
    if asked.flat:
        told, calls = flatten(told), 0
    world, turn = SystemClock(), thread.head.turn
    made_folder = _make_folder(terminal, asked) if asked.with_files else None
    worktree = None if made_folder is None else made_folder.places[0]
    order = HandoffRequest(
        session=world.new_id(),
        at=world.now(),
        folder=Path(worktree or asked.into or ".").resolve(),
        title=f"{cut(title(turn), TITLE_CHARS_MAX)} ({digits(turn.digest)})",
    )
    if not order.folder.is_dir():
        raise click.UsageError(f"there is no folder {order.folder}; --files makes a new one")
    removal = None if made_folder is None else made_folder.removal
    try:
        plan = exporter.plan(told, order, ToolPaths(Path.home(), os.environ))
        made = HandoffResult(exporter, thread, order, plan, len(told), calls, worktree, removal)
        folders = with_ledger(terminal, partial(_write, terminal=terminal, made=made))
    except TurntreeError:
        if made_folder is not None:
            # No session will work there.
            with_ledger(terminal, partial(_take_back, made=made_folder))
        raise
    return replace(made, folders=tuple(folders))


async def _take_back(opened: CliContext, *, made: NewWorktree) -> None:
    for place in made.places:
        await opened.tree.worktrees.remove(place, force=True)
    await opened.tree.sessions.set_status(made.label, "archived")


async def _write(opened: CliContext, *, terminal: Terminal, made: HandoffResult) -> list[Path]:
    """Write the files and record them in one go: an import may be looking."""
    first = made.plan.files[0]
    noted = Handoff(
        origin=made.exporter.tool,
        session=made.plan.session,
        turn=made.thread.head.turn.id,
        file=first.path.name,
        bytes=len(first.text.encode()),
        mark=made.plan.mark,
        last=made.plan.last,
        continues=made.thread.session,
    )
    folders = write_new(made.plan.files)
    if launcher_path(opened.settings.home).is_file():
        # A transcript that we wrote is no sign of a tool whose hooks are silent.
        Spool(opened.settings.home / SPOOL).note_heard(made.exporter.tool)
    try:
        by = f"human:{opened.settings.user}"
        await checkouts_on(opened.database).note(noted, by=by, at=made.order.at)
    except TurntreeError as error:
        terminal.note(f"the session was written, but its origin was not recorded: {error}")
    return folders


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
    files = [str(file.path) for file in made.plan.files]
    terminal.tell(
        f"{digits(made.thread.head.turn.digest)} is a session of {made.exporter.tool} now: "
        f"{counted(made.messages, 'message')}, {counted(made.tool_calls, 'tool call')}",
        made.document(),
        undo=_removal(made, files),
        then=(f"next: {made.command}",),
    )


def _removal(made: HandoffResult, files: list[str]) -> str:
    removal = joined(["rm", *files])
    if made.worktree_removal is not None:
        removal += f" && {made.worktree_removal}"
    if made.folders:
        # Last, and on its own: a folder in which another session was written since stays.
        removal += f"; {joined(['rmdir', *map(str, made.folders)])}"
    return removal


def _start(made: HandoffResult) -> None:
    os.chdir(made.order.folder)
    try:
        if made.plan.prepare is not None:
            subprocess.run(made.plan.prepare, check=True)
        os.execvp(made.plan.resume[0], made.plan.resume)  # noqa: S606  (the tool takes our place)
    except (OSError, subprocess.CalledProcessError) as error:
        raise InvalidOperation(f"{made.exporter.program} did not start: {error}") from error
