"""The command ``turntree`` itself: which commands there are, and how errors become exit codes.

A command's module is imported when the command is called and not before. It must never know
what a command does.

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
"""The entry points under which kinds of program are installed."""
_NEXT: Final = re.compile(
    r"(?P<what>.*?)(?:[:;,] [^`:;,]*)?`(?P<next>(?:[A-Z_]+=[^`]+ )?turntree [^`]+)`\.?", re.DOTALL
)


class CommandEntry(NamedTuple):
    """A command that has not been imported yet."""

    section: str
    module: str
    help: str
    """The same words as the command's own first sentence; a test compares them."""


COMMANDS: Final[Mapping[str, CommandEntry]] = {
    "chat": CommandEntry("Talk", "talk.chat", "Talk with a session, here in the terminal."),
    "send": CommandEntry("Talk", "talk.send", "Send a message to a session and print the answer."),
    "tail": CommandEntry(
        "Talk",
        "talk.send",
        "Show the last turns of a session, or follow what is being answered there.",
    ),
    "cancel": CommandEntry(
        "Talk", "talk.send", "End what is being answered in a session, or one run and no other."
    ),
    "rerun": CommandEntry(
        "Talk",
        "talk.replay",
        "Ask again what a turn was asked, from where it was taken, and show what differs.",
    ),
    "worker": CommandEntry("Talk", "talk.worker", "Answer what is sent, until it is told to stop."),
    "log": CommandEntry("Read", "history.log", "List turns, or draw their tree."),
    "show": CommandEntry(
        "Read", "history.show", "Show a turn: who, what was said, which tools, what follows."
    ),
    "search": CommandEntry("Read", "history.search", "Find turns by what was said in them."),
    "blame": CommandEntry(
        "Read", "history.blame", "Say which turns read or wrote a file, or which turn wrote a line."
    ),
    "files": CommandEntry(
        "Read", "files.files", "Show the files a turn left, and which of them it changed."
    ),
    "similar": CommandEntry(
        "Read", "maintenance.index", "Find what means something like a turn, a program or a text."
    ),
    "route": CommandEntry(
        "Read", "sessions.route", "Say where a message would go; nothing is sent."
    ),
    "diff": CommandEntry(
        "Read",
        "history.diff",
        "Compare what was said in two turns or two threads, or the files they left.",
    ),
    "compare": CommandEntry(
        "Read", "history.diff", "Show where two threads part, and what each holds alone."
    ),
    "why": CommandEntry("Read", "history.why", "Tell what led to a turn, step by step."),
    "context": CommandEntry(
        "Read", "history.context", "Show what the model saw for a turn, call by call."
    ),
    "reflog": CommandEntry(
        "Read", "sessions.move", "List where a session has stood, newest first."
    ),
    "sql": CommandEntry(
        "Read", "maintenance.sql", "Ask the ledger in SQL; nothing can be changed."
    ),
    "stats": CommandEntry(
        "Read", "maintenance.stats", "Show tokens and cost over time, each model call once."
    ),
    "fork": CommandEntry(
        "Move", "sessions.move", "Begin a session at any turn; nothing is copied."
    ),
    "worktree": CommandEntry(
        "Move",
        "files.worktree",
        "Make a folder with the files as a turn left them; the present ones stay as they are.",
    ),
    "switch": CommandEntry("Move", "sessions.move", "Make a session the current one, here."),
    "rewind": CommandEntry(
        "Move", "sessions.move", "Move a session back to an earlier turn; nothing is deleted."
    ),
    "undo": CommandEntry("Move", "sessions.move", "Take back the last move of a session."),
    "pin": CommandEntry(
        "Move",
        "files.snapshot",
        "Keep the files as they are now, for the newest turn of the current session.",
    ),
    "tag": CommandEntry(
        "Move", "sessions.tag", "Put words on turns and programs, take them off, or list them."
    ),
    "session": CommandEntry(
        "Move",
        "sessions.session",
        "Create, list, rename, merge and archive sessions, and talk in them.",
    ),
    "identify": CommandEntry("Move", "sessions.route", "Say who writes through a channel."),
    "program": CommandEntry(
        "Programs",
        "programs.program",
        "Create, list, configure, share and invoke programs of any kind.",
    ),
    "provider": CommandEntry("Programs", "programs.kind_group", "Services that answer for models."),
    "model": CommandEntry("Programs", "programs.kind_group", "Named ways of asking a provider."),
    "agent": CommandEntry("Programs", "programs.kind_group", "Programs that act in sessions."),
    "task": CommandEntry(
        "Programs", "programs.kind_group", "Work that is asked for, with criteria of success."
    ),
    "information": CommandEntry(
        "Programs", "programs.kind_group", "What is known, of shapes that can be checked."
    ),
    "human": CommandEntry(
        "Programs", "programs.kind_group", "People, who can be told things and asked for approval."
    ),
    "code": CommandEntry(
        "Programs", "programs.kind_group", "Programs in a language: one JSON document in, one out."
    ),
    "nodes": CommandEntry(
        "Programs", "programs.nodes", "List programs, and the turns that have words on them."
    ),
    "verify": CommandEntry(
        "Check", "maintenance.check", "Prove a thread, turn by turn, back to its root."
    ),
    "replay": CommandEntry(
        "Check",
        "talk.replay",
        "Take a turn again from its journal, and say whether the same one comes out.",
    ),
    "fsck": CommandEntry(
        "Check", "maintenance.check", "Check the whole store against its invariants."
    ),
    "audit": CommandEntry(
        "Check", "maintenance.audit", "List rights that were granted, used, denied or never used."
    ),
    "token": CommandEntry(
        "Check", "maintenance.token", "Issue, list and revoke tokens that carry rights elsewhere."
    ),
    "doctor": CommandEntry("Check", "setup.doctor", "Check this installation and say what to do."),
    "plans": CommandEntry(
        "Check", "files.plan", "List forks and moves with files that were left unfinished."
    ),
    "import": CommandEntry("Carry", "transcripts.import_", "Bring other tools' transcripts home."),
    "watch": CommandEntry(
        "Carry", "transcripts.import_", "Follow other tools' transcripts while they work."
    ),
    "hook": CommandEntry(
        "Carry", "setup.hook", "Let coding agents record themselves while they work."
    ),
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
    "demo": CommandEntry(
        "Carry", "setup.demo", "Plant a small tree of sample data to look around in."
    ),
    "init": CommandEntry(
        "Set up", "setup.server", "Make this folder a place with a current session."
    ),
    "up": CommandEntry(
        "Set up", "setup.up", "Start the database and bring home what your agents have kept."
    ),
    "down": CommandEntry("Set up", "setup.server", "Stop the embedded database server."),
    "status": CommandEntry(
        "Set up",
        "setup.server",
        "Show the server, the workspace, the current session and what is being answered.",
    ),
    "index": CommandEntry("Set up", "history.search", "Bring the search indexes up to date."),
    "gc": CommandEntry(
        "Set up", "files.gc", "Remove kept states of files that no turn pins any more."
    ),
    "embed": CommandEntry(
        "Set up",
        "maintenance.index",
        "Embed a turn or a program, or everything that has no vector yet.",
    ),
    "embed-stats": CommandEntry(
        "Set up", "maintenance.index", "Say how many vectors there are, by embedder and kind."
    ),
    "config": CommandEntry(
        "Set up", "setup.config", "Read and write the settings, and say where each is from."
    ),
    "completion": CommandEntry(
        "Set up", "completion", "Print the script that completes words in a shell."
    ),
    "version": CommandEntry("Set up", "completion", "Print the version."),
}


class Root(click.Group):
    """Finds commands by name and imports them when they are called."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        """Take the options that every command has before its name too."""
        super().__init__(*args, **settings)
        self.params.extend(shared_options())

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every command's name, and those of kinds that other packages brought."""
        del ctx
        return [*COMMANDS, *_foreign_kinds()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        del ctx
        if cmd_name not in COMMANDS:
            return _kind_group(cmd_name)
        module = import_module(f"turntree.cli.{COMMANDS[cmd_name].module}")
        # "import" is a word of Python's, so its function has an underscore behind it.
        plain = cmd_name.replace("-", "_")
        attribute = f"{plain}_" if keyword.iskeyword(plain) else plain
        command: click.Command = getattr(module, attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is called; an unknown one is answered with the nearest."""
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
            sections["Programs"].append((name, f"Programs of the kind {name}."))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows, col_max=12)

    def main(self, args: Sequence[str] | None = None, *others: Any, **extra: Any) -> Any:
        """Run a command; every error that was raised on purpose becomes an exit code."""
        try:
            code = self._run(args, *others, **{**extra, "standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as error:
            # Nothing was asked for: that is a question, not a mistake.
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
    """Return the kinds of program that are installed and have no command of their own here."""
    from importlib.metadata import entry_points

    found = {point.name for point in entry_points(group=KINDS_GROUP)}
    return sorted(found - COMMANDS.keys())


def _kind_group(name: str) -> click.Command | None:
    from turntree.cli.programs.kind_group import kind_group

    if name not in _foreign_kinds():
        return None
    return kind_group(name, f"Programs of the kind {name}.")


def exit_code(error: TurntreeError) -> int:
    """Return the exit code an error stands for."""
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
    """Return what a person could try after an error whose message does not say it."""
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
    """Print what went wrong, why, and what to try next, on stderr."""
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
    """Git for agent work: every turn is a permanent address.

    A REV is a session (main), the beginning of a turn's digest (e9177), an ancestor (main~3), a
    place in a session's past (main@{2}, main@{yesterday}), words that were said (:/redirect), or
    HEAD, the current session.
    """
