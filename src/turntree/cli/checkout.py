"""``checkout`` and ``resume``: a thread becomes a session that another tool can continue.

Knows places on this machine and how a program is started. What a session looks like is the
exporters' business; nothing a tool wrote itself is ever touched.
"""

import os
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from turntree.adapters.exporters.writing import write_new
from turntree.adapters.worlds.system import SystemWorld
from turntree.boot import load_exporters
from turntree.cli.names import REVISION
from turntree.cli.opening import with_ledger
from turntree.cli.render import cut, digits, title
from turntree.cli.verb import Function, Terminal, verb
from turntree.cli.whole_thread import WholeThread, read_whole
from turntree.domain.errors import Refused
from turntree.domain.handover import flatten, without_system
from turntree.domain.message import ToolUse
from turntree.ports.exporters import Exporter, Order, Plan
from turntree.ports.importers import Places

TITLE_CHARS_MAX: Final = 60


def _options(function: Function) -> Function:
    """Add what both commands take."""
    for add in (
        click.option("--flatten", "flat", is_flag=True,
                     help="Write tool calls as words, for a tool that refuses them."),
        click.option("--into", metavar="DIR", type=click.Path(file_okay=False, exists=True),
                     help="The folder to work in; by default this one."),
        click.option("--as", "tool", metavar="TOOL",
                     help="claude-code, codex, gemini or opencode; by default where the session "
                          "was imported from."),
        click.argument("revision", metavar="REV", type=REVISION),
    ):  # fmt: skip
        function = add(function)
    return function


@verb()
@_options
def checkout(
    terminal: Terminal, revision: str, tool: str | None, into: str | None, flat: bool
) -> None:
    """Write a session that another tool can continue.

    The session is a new one, in the place where the tool looks for those of the folder. Tool
    calls and their results stay what they are. Nothing that exists is touched.
    """
    _tell(terminal, _check_out(terminal, revision, tool, into, flat=flat))


@verb()
@_options
def resume(
    terminal: Terminal, revision: str, tool: str | None, into: str | None, flat: bool
) -> None:
    """Write a session that another tool can continue, and start the tool.

    With --json nothing is started.
    """
    made = _check_out(terminal, revision, tool, into, flat=flat)
    if shutil.which(made.exporter.program) is None:
        _tell(terminal, made)
        terminal.note(
            f"{made.exporter.program} is not on the PATH; get it with: {made.exporter.install}"
        )
        raise click.exceptions.Exit(1)
    if terminal.as_json:
        _tell(terminal, made)
        return
    terminal.note(made.command)
    _start(made)


@dataclass(frozen=True, slots=True)
class CheckedOut:
    """A session that was written, and what it was written from."""

    exporter: Exporter
    thread: WholeThread
    order: Order
    plan: Plan
    messages: int
    tool_calls: int

    @property
    def command(self) -> str:
        """What to type in order to continue, in this very shell."""
        words = (
            [] if Path.cwd() == self.order.folder else [f"cd {shlex.quote(str(self.order.folder))}"]
        )
        if self.plan.prepare is not None:
            words.append(shlex.join(self.plan.prepare))
        return " && ".join([*words, shlex.join(self.plan.resume)])

    def document(self) -> Mapping[str, Any]:
        """Return what a program is told."""
        turn = self.thread.head.turn
        return {
            "tool": self.exporter.tool,
            "session": self.plan.session,
            "turn": turn.id,
            "digest": turn.digest,
            "folder": str(self.order.folder),
            "files": [str(file.path) for file in self.plan.files],
            "messages": self.messages,
            "tool_calls": self.tool_calls,
            "next": self.command,
        }


def _check_out(
    terminal: Terminal, revision: str, tool: str | None, into: str | None, *, flat: bool
) -> CheckedOut:
    thread = with_ledger(terminal, partial(read_whole, revision=revision, visible=True))
    exporter = _choose(tool, thread)
    told = thread.told()
    if thread.origin is not None:
        told = without_system(told)
    calls = sum(isinstance(part, ToolUse) for said in told for part in said.parts)
    if flat:
        told, calls = flatten(told), 0
    world, turn = SystemWorld(), thread.head.turn
    order = Order(
        session=world.new_id(),
        at=world.now(),
        folder=Path(into or ".").resolve(),
        title=f"{cut(title(turn), TITLE_CHARS_MAX)} ({digits(turn.digest)})",
    )
    plan = exporter.plan(told, order, Places(Path.home(), os.environ))
    write_new(plan.files)
    return CheckedOut(exporter, thread, order, plan, len(told), calls)


def _choose(tool: str | None, thread: WholeThread) -> Exporter:
    exporters = load_exporters()
    name = tool or (thread.origin.tool if thread.origin else None)
    if name in exporters:
        return exporters[name]
    known = ", ".join(sorted(exporters))
    if tool is None:
        raise click.UsageError(f"say which tool is to continue it with --as: {known}")
    raise click.UsageError(f"no exporter for {tool!r} is installed; there are {known}")


def _tell(terminal: Terminal, made: CheckedOut) -> None:
    files = [str(file.path) for file in made.plan.files]
    terminal.tell(
        f"{digits(made.thread.head.turn.digest)} is a session of {made.exporter.tool} now: "
        f"{made.messages} messages, {made.tool_calls} tool calls",
        made.document(),
        undo=shlex.join(["rm", *files]),
        then=(f"next: {made.command}",),
    )


def _start(made: CheckedOut) -> None:
    os.chdir(made.order.folder)
    try:
        if made.plan.prepare is not None:
            subprocess.run(made.plan.prepare, check=True)
        os.execvp(made.plan.resume[0], made.plan.resume)  # noqa: S606  (the tool takes our place)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Refused(f"{made.exporter.program} did not start: {error}") from error
