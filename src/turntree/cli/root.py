"""The command ``turntree``: the table of commands, and exit codes for errors.

A command's module is imported when the command is called and not before. It must never know what a
command does.

    0  done                       3  not found, or ambiguous
    1  failed check, difference,  4  denied
       or refused                 5  the database cannot be reached
    2  wrong usage
"""

import keyword
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Final, NamedTuple

import click

import turntree
from turntree.cli.command import Terminal, shared_options
from turntree.core.errors import (
    Conflict,
    DatabaseUnavailable,
    DataMissing,
    InvalidQuery,
    InvalidRevision,
    NotFound,
    PermissionDenied,
    TurntreeError,
)

DENIED_STATE: Final = "42501"
INTERRUPTED_CODE: Final = 130
KINDS_GROUP: Final = "turntree.programs"
"""Entry-point group of installed kinds of programs."""
_NEXT: Final = re.compile(
    r"(?P<what>.*?)(?:[:;,] [^`:;,]*)?`(?P<next>(?:[A-Z_]+=[^`]+ )?turntree [^`]+)`\.?", re.DOTALL
)


class CommandEntry(NamedTuple):
    """A command that has not been imported yet."""

    section: str
    module: str
    help: str
    """Equal to the first sentence of the command's own help; a test compares them."""


COMMANDS: Final[Mapping[str, CommandEntry]] = {
    "chat": CommandEntry("Talk", "talk.chat", "Chat with a session in the terminal."),
    "send": CommandEntry("Talk", "talk.send", "Send a message to a session and print the reply."),
    "tail": CommandEntry(
        "Talk",
        "talk.send",
        "Show the last turns of a session, or follow the running one.",
    ),
    "cancel": CommandEntry(
        "Talk", "talk.send", "Cancel the running turn of a session, or a single run."
    ),
    "rerun": CommandEntry(
        "Talk",
        "talk.replay",
        "Ask a turn's query again, from the same parent, and show the difference.",
    ),
    "worker": CommandEntry(
        "Talk", "talk.worker", "Serve the sessions of a workspace until stopped."
    ),
    "log": CommandEntry("Read", "history.log", "List turns, or draw their tree."),
    "show": CommandEntry(
        "Read", "history.show", "Show a turn: its author, messages, tool calls and children."
    ),
    "search": CommandEntry("Read", "history.search", "Find turns by their words."),
    "blame": CommandEntry(
        "Read",
        "history.blame",
        "Show which turns read or wrote a file, or which turn wrote a line.",
    ),
    "files": CommandEntry(
        "Read", "files.files", "Show the files a turn left, and which of them it changed."
    ),
    "similar": CommandEntry(
        "Read", "maintenance.index", "Find what is similar to a turn, a program or a text."
    ),
    "route": CommandEntry(
        "Read", "sessions.route", "Show where a message would go, without sending it."
    ),
    "diff": CommandEntry(
        "Read",
        "history.diff",
        "Compare the messages of two turns or two threads, or the files they left.",
    ),
    "compare": CommandEntry(
        "Read", "history.diff", "Show where two threads diverge, and what only one of them holds."
    ),
    "why": CommandEntry("Read", "history.why", "Show what led to a turn, step by step."),
    "context": CommandEntry(
        "Read", "history.context", "Show what the model saw for a turn, call by call."
    ),
    "reflog": CommandEntry(
        "Read", "sessions.move", "List the moves of a session's head, newest first."
    ),
    "sql": CommandEntry("Read", "maintenance.sql", "Query the ledger in SQL, read-only."),
    "stats": CommandEntry(
        "Read",
        "maintenance.stats",
        "Show tokens and cost over time, counting each model call once.",
    ),
    "fork": CommandEntry(
        "Move", "sessions.move", "Create a session at any turn; nothing is copied."
    ),
    "worktree": CommandEntry(
        "Move",
        "files.worktree",
        "Create a folder with the files as a turn left them; your current files stay as they are.",
    ),
    "switch": CommandEntry(
        "Move", "sessions.move", "Make a session the current one in this folder."
    ),
    "rewind": CommandEntry(
        "Move", "sessions.move", "Move a session back to an earlier turn; nothing is deleted."
    ),
    "undo": CommandEntry("Move", "sessions.move", "Undo the last move of a session."),
    "pin": CommandEntry(
        "Move",
        "files.snapshot",
        "Snapshot the files as they are now, for the newest turn of the current session.",
    ),
    "tag": CommandEntry("Move", "sessions.tag", "Add, remove and list tags of turns and programs."),
    "session": CommandEntry(
        "Move",
        "sessions.session",
        "Create, list, rename, merge and archive sessions, and send messages to them.",
    ),
    "identify": CommandEntry(
        "Move", "sessions.route", "Link a channel to the entity that writes through it."
    ),
    "program": CommandEntry(
        "Programs",
        "programs.program",
        "Create, list, configure, share and invoke programs of any kind.",
    ),
    "provider": CommandEntry(
        "Programs", "programs.kind_group", "Manage providers, the services that run models."
    ),
    "model": CommandEntry(
        "Programs", "programs.kind_group", "Manage models, the named ways to ask a provider."
    ),
    "agent": CommandEntry(
        "Programs", "programs.kind_group", "Manage agents, the programs that act in sessions."
    ),
    "task": CommandEntry(
        "Programs", "programs.kind_group", "Manage tasks and their success criteria."
    ),
    "information": CommandEntry(
        "Programs", "programs.kind_group", "Manage facts, validated against a JSON Schema."
    ),
    "human": CommandEntry(
        "Programs", "programs.kind_group", "Manage people to notify or to ask for approval."
    ),
    "code": CommandEntry(
        "Programs", "programs.kind_group", "Manage scripts that take and return one JSON document."
    ),
    "nodes": CommandEntry(
        "Programs", "programs.nodes", "List programs, and the turns that have tags."
    ),
    "verify": CommandEntry(
        "Check", "maintenance.check", "Verify a thread, turn by turn, back to its root."
    ),
    "replay": CommandEntry(
        "Check",
        "talk.replay",
        "Replay a turn from its recorded events, and check that the result is the same.",
    ),
    "fsck": CommandEntry(
        "Check", "maintenance.check", "Check the whole store against its invariants."
    ),
    "audit": CommandEntry(
        "Check",
        "maintenance.audit",
        "List permissions that were granted, used, denied or never used.",
    ),
    "token": CommandEntry(
        "Check", "maintenance.token", "Issue, list and revoke tokens that delegate permissions."
    ),
    "doctor": CommandEntry(
        "Check", "setup.doctor", "Check this installation and print how to repair it."
    ),
    "plans": CommandEntry("Check", "files.plan", "List unfinished forks and moves with files."),
    "import": CommandEntry(
        "Carry", "transcripts.import_", "Import sessions from other coding agents."
    ),
    "watch": CommandEntry(
        "Carry", "transcripts.import_", "Import sessions of other coding agents while they work."
    ),
    "hook": CommandEntry("Carry", "setup.hook", "Record coding agents while they work."),
    "checkout": CommandEntry(
        "Carry", "transcripts.handoff", "Write a session that another tool can continue."
    ),
    "resume": CommandEntry(
        "Carry",
        "transcripts.handoff",
        "Write a session that another tool can continue, and start the tool.",
    ),
    "export": CommandEntry(
        "Carry", "transcripts.export", "Write a thread, or everything, as text."
    ),
    "demo": CommandEntry("Carry", "setup.demo", "Create a small tree of sample data to explore."),
    "init": CommandEntry(
        "Set up", "setup.server", "Give this folder a current session of its own."
    ),
    "up": CommandEntry(
        "Set up", "setup.up", "Start the database and import the sessions of your coding agents."
    ),
    "down": CommandEntry("Set up", "setup.server", "Stop the embedded database server."),
    "status": CommandEntry(
        "Set up",
        "setup.server",
        "Show the server, the workspace, the current session and the running turns.",
    ),
    "index": CommandEntry("Set up", "history.search", "Update the search indexes."),
    "gc": CommandEntry("Set up", "files.gc", "Remove file snapshots that no turn refers to."),
    "embed": CommandEntry(
        "Set up",
        "maintenance.index",
        "Embed a turn or a program, or everything that has no embedding yet.",
    ),
    "embed-stats": CommandEntry(
        "Set up", "maintenance.index", "Show the number of embeddings by embedder and kind."
    ),
    "config": CommandEntry(
        "Set up", "setup.config", "Show and change the settings, with the source of each."
    ),
    "completion": CommandEntry("Set up", "completion", "Print the completion script for a shell."),
    "version": CommandEntry("Set up", "completion", "Print the version."),
}


class Root(click.Group):
    """Finds commands by name and imports them when they are called."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        """Accept the shared options before the command's name too."""
        super().__init__(*args, **settings)
        self.params.extend(shared_options())

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every command's name, including kinds from other packages."""
        del ctx
        return [*COMMANDS, *_foreign_kinds()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        del ctx
        if cmd_name not in COMMANDS:
            return _kind_group(cmd_name)
        module = import_module(f"turntree.cli.{COMMANDS[cmd_name].module}")
        # "import" is a Python keyword, so its function has a trailing underscore.
        plain = cmd_name.replace("-", "_")
        attribute = f"{plain}_" if keyword.iskeyword(plain) else plain
        command: click.Command = getattr(module, attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called; an error for an unknown one suggests the nearest."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and name not in _foreign_kinds():
            import difflib

            near = difflib.get_close_matches(name, COMMANDS, 1)
            hint = f"turntree {near[0]}" if near else "turntree --help"
            raise click.UsageError(f"there is no command {name!r}: try `{hint}`", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands without importing any of them."""
        del ctx
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in COMMANDS.items():
            sections.setdefault(entry.section, []).append((name, entry.help))
        for name in _foreign_kinds():
            sections["Programs"].append((name, f"Manage programs of the kind {name}."))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows, col_max=12)

    def main(self, args: Sequence[str] | None = None, *others: Any, **extra: Any) -> Any:
        """Run a command; every error that was raised on purpose becomes an exit code."""
        try:
            code = self._run(args, *others, **{**extra, "standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as error:
            # Without arguments the user wants the help, so this is not an error.
            click.echo(error.format_message())
            code = 0
        except click.UsageError as error:
            path = error.ctx.command_path if error.ctx else "turntree"
            _report(error.format_message(), f"{path} --help")
            code = error.exit_code
        except click.ClickException as error:
            _report(error.format_message(), None)
            code = error.exit_code
        except click.Abort:
            click.echo("stopped", err=True)
            code = INTERRUPTED_CODE
        except TurntreeError as error:
            _report(str(error), next_command(error))
            code = exit_code(error)
        sys.exit(code if isinstance(code, int) else 0)

    def _run(self, *args: Any, **extra: Any) -> object:
        return super().main(*args, **extra)


def _foreign_kinds() -> list[str]:
    """Return the installed kinds of programs that have no entry in the table."""
    from importlib.metadata import entry_points

    found = {point.name for point in entry_points(group=KINDS_GROUP)}
    return sorted(found - COMMANDS.keys())


def _kind_group(name: str) -> click.Command | None:
    from turntree.cli.programs.kind_group import kind_group

    if name not in _foreign_kinds():
        return None
    return kind_group(name, f"Manage programs of the kind {name}.")


def exit_code(error: TurntreeError) -> int:
    """Return the exit code of an error."""
    from turntree.db.embedded.account import ServerError

    if getattr(error.__cause__, "sqlstate", None) == DENIED_STATE:
        return 4
    match error:
        case PermissionDenied():
            return 4
        case NotFound():
            return 3
        case InvalidRevision() | InvalidQuery():
            return 2
        case PermissionDenied():
            return 4
        case DatabaseUnavailable() | ServerError():
            return 5
        case _:
            return 1


def next_command(error: TurntreeError) -> str | None:
    """Return a command to try after an error whose message does not suggest one."""
    match error:
        case DataMissing():
            return "turntree fsck"
        case NotFound():
            return "turntree log --all"
        case DatabaseUnavailable():
            return "turntree doctor"
        case Conflict():
            return "turntree session list"
        case _:
            return None


def _report(message: str, hint: str | None) -> None:
    """Print what went wrong, why, and what to try next, to stderr."""
    said = _NEXT.fullmatch(message)
    if said is not None:
        message, hint = said["what"], said["next"]
    what, *why = message.strip().split("\n")
    terminal = Terminal.current()
    terminal.note(f"{terminal.paint_err('error:', 'bad')} {what}")
    for line in why:
        terminal.note(line)
    if hint is not None:
        terminal.note(f"next: {hint}")


@click.command(cls=Root, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(turntree.__version__, message="turntree %(version)s")
def root() -> None:
    """Undo what your coding agent did to your files, and keep what you did.

    Turntree records every turn of Claude Code, Codex, Gemini CLI and opencode together with the
    files it found and the files it left. Go back to any turn, ask which turn wrote a line, and
    continue any turn in another agent.

    A REV is a session (main), the beginning of a turn's digest (e9177), an ancestor (main~3), an
    earlier head of a session (main@{2}, main@{yesterday}), words of a message (:/redirect), or
    HEAD, the current session.
    """
