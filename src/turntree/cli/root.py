"""The command ``turntree``: the table of commands, and exit codes for errors.

A command's module is imported when the command is called and not before. It must never know what a
command does.

    0  done                       3  not found, or ambiguous
    1  failed check, difference,  4  denied
       or refused                 5  the database cannot be reached
    2  wrong usage
"""

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
    ServerUnavailable,
    TurntreeError,
)

DENIED_STATE: Final = "42501"
INTERRUPTED_CODE: Final = 130
SHOWS_ALL: Final = "turntree.shows_all"
"""Key in the context of a help page that lists all commands."""
KINDS_GROUP: Final = "turntree.programs"
"""Entry-point group of installed kinds of programs."""


class CommandEntry(NamedTuple):
    """A command that has not been imported yet."""

    section: str
    module: str
    help: str
    """Equal to the first sentence of the command's own help; a test compares them."""


COMMANDS: Final[Mapping[str, CommandEntry]] = {
    "ui": CommandEntry("History", "setup.ui", "Show your history in the browser."),
    "log": CommandEntry("History", "history.log", "List turns, or draw their tree."),
    "show": CommandEntry(
        "History", "history.show", "Show a turn: its author, messages, tool calls and children."
    ),
    "search": CommandEntry("History", "history.search", "Find turns by their words."),
    "diff": CommandEntry(
        "History",
        "history.diff",
        "Compare the messages of two turns or two threads, or the files they left.",
    ),
    "blame": CommandEntry(
        "History",
        "history.blame",
        "Show which turns read or wrote a file, or which turn wrote a line.",
    ),
    "why": CommandEntry("History", "history.why", "Show what led to a turn, step by step."),
    "verify": CommandEntry(
        "History", "maintenance.check", "Verify a thread, turn by turn, back to its root."
    ),
    "ps": CommandEntry(
        "Sessions",
        "sessions.ps",
        "List the agents on this machine: who works, who waits for you, who is done.",
    ),
    "fork": CommandEntry(
        "Sessions", "sessions.move", "Create a session at any turn; nothing is copied."
    ),
    "switch": CommandEntry(
        "Sessions", "sessions.move", "Make a session the current one in this folder."
    ),
    "rewind": CommandEntry(
        "Sessions", "sessions.move", "Move a session back to an earlier turn; nothing is deleted."
    ),
    "undo": CommandEntry(
        "Sessions", "sessions.move", "Undo the last move of a session, or the last revert here."
    ),
    "files": CommandEntry(
        "Files", "files.files", "Show the files a turn left, and which of them it changed."
    ),
    "revert": CommandEntry(
        "Files",
        "files.revert",
        "Take back what one turn did to files, and keep everything later.",
    ),
    "pick": CommandEntry("Files", "files.revert", "Apply what a turn did to files in this folder."),
    "redo": CommandEntry(
        "Files", "files.revert", "Redo the revert or pick in this folder that was undone last."
    ),
    "worktree": CommandEntry(
        "Files",
        "files.worktree",
        "Create a folder with the files as a turn left them; your current files stay as they are.",
    ),
    "snapshot": CommandEntry(
        "Files",
        "files.snapshot",
        "Snapshot the files as they are now, for the newest turn of the current session.",
    ),
    "chat": CommandEntry("Talk", "talk.chat", "Chat with a session in the terminal."),
    "send": CommandEntry("Talk", "talk.send", "Send a message and print the reply."),
    "tail": CommandEntry(
        "Talk",
        "talk.send",
        "Show the last turns of a session, or follow the running one.",
    ),
    "cancel": CommandEntry(
        "Talk", "talk.send", "Cancel the running turn of a session, or a single run."
    ),
    "inbox": CommandEntry("Talk", "talk.inbox", "Show what you were told, and mark it as read."),
    "approve": CommandEntry(
        "Talk", "deciding.approvals", "Allow a waiting tool call, once, with exactly its arguments."
    ),
    "reject": CommandEntry(
        "Talk", "deciding.approvals", "Refuse a waiting tool call or question; the model reads why."
    ),
    "edit": CommandEntry(
        "Talk", "deciding.approvals", "Allow a waiting tool call, once, with other arguments."
    ),
    "answer": CommandEntry("Talk", "deciding.approvals", "Answer a waiting question of a tool."),
    "compact": CommandEntry(
        "Talk", "talk.compact", "Summarize a session, so that later prompts are shorter."
    ),
    "conversation": CommandEntry(
        "Talk",
        "talk.conversation",
        "Talk with people and agents in one place; each answer is a turn.",
    ),
    "import": CommandEntry(
        "Import and export", "transcripts.import_", "Import sessions from other coding agents."
    ),
    "handoff": CommandEntry(
        "Import and export",
        "transcripts.handoff",
        "Write a session that another tool can continue.",
    ),
    "export": CommandEntry(
        "Import and export", "transcripts.export", "Write a thread, or everything, as text."
    ),
    "share": CommandEntry(
        "Import and export",
        "transcripts.share",
        "Write a thread as one page that others can read and continue.",
    ),
    "pr": CommandEntry(
        "Import and export",
        "history.pr",
        "Write the turns behind a branch as Markdown for a pull request.",
    ),
    "push": CommandEntry(
        "Import and export",
        "transcripts.remote",
        "Copy a session to a remote: only the turns that it lacks, without secrets.",
    ),
    "pull": CommandEntry(
        "Import and export",
        "transcripts.remote",
        "Copy sessions from a remote: only the turns that are not here, all of them verified.",
    ),
    "remote": CommandEntry(
        "Import and export",
        "transcripts.remote",
        "Add, list and remove remotes: folders and databases to push to and pull from.",
    ),
    "hook": CommandEntry(
        "Import and export", "setup.hook", "Record coding agents while they work."
    ),
    "mcp": CommandEntry(
        "Import and export", "setup.mcp", "Let agents search, read and fork your history."
    ),
    "on": CommandEntry(
        "Setup",
        "setup.on",
        "Record your coding agents from now on, and import the sessions they have stored.",
    ),
    "off": CommandEntry(
        "Setup", "setup.on", "Stop recording: remove the hooks from all your coding agents."
    ),
    "status": CommandEntry(
        "Setup",
        "setup.server",
        "Show the server, the workspace, the current session and the running turns.",
    ),
    "doctor": CommandEntry(
        "Setup", "setup.doctor", "Check this installation and print how to repair it."
    ),
    "config": CommandEntry(
        "Setup", "setup.config", "Show and change the settings, with the source of each."
    ),
    "session": CommandEntry(
        "Manage", "sessions.session", "Create, list, rename, merge and archive sessions."
    ),
    "tag": CommandEntry(
        "Manage", "sessions.tag", "Add, remove and list tags of turns and programs."
    ),
    "archive": CommandEntry(
        "Manage", "sessions.archive", "Hide turns, and what follows them, from lists and searches."
    ),
    "unarchive": CommandEntry(
        "Manage", "sessions.archive", "Show archived turns again, and what follows them."
    ),
    "index": CommandEntry("Manage", "maintenance.index", "Update and inspect the search indexes."),
    "backup": CommandEntry(
        "Manage", "maintenance.backup", "Back up the whole server, and restore it."
    ),
    "plan": CommandEntry(
        "Manage", "files.plan", "List and resume forks and moves with files that did not finish."
    ),
    "policy": CommandEntry(
        "Manage",
        "maintenance.policy",
        "Decide which tool calls are made, denied, or put to a person.",
    ),
    "member": CommandEntry(
        "Manage",
        "maintenance.member",
        "List, add and remove members of the workspace, and set their roles.",
    ),
    "invitation": CommandEntry(
        "Manage",
        "maintenance.invitation",
        "Invite people to the workspace, and accept invitations.",
    ),
    "webhook": CommandEntry(
        "Manage",
        "maintenance.webhook",
        "Send events, or your notices, to addresses of other systems, signed.",
    ),
    "trigger": CommandEntry(
        "Manage",
        "maintenance.trigger",
        "Let signed messages of other systems come in, which agents and sessions answer.",
    ),
    "key": CommandEntry(
        "Manage",
        "maintenance.key",
        "Create, list and revoke API keys, with which programs act for you.",
    ),
    "token": CommandEntry(
        "Manage", "maintenance.token", "Issue, list and revoke tokens that delegate permissions."
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
    "connector": CommandEntry(
        "Programs", "programs.kind_group", "Manage MCP servers whose tools your agents may call."
    ),
    "code": CommandEntry(
        "Programs", "programs.kind_group", "Manage scripts that take and return one JSON document."
    ),
    "reflog": CommandEntry(
        "Inspect", "sessions.move", "List the moves of a session's head, newest first."
    ),
    "rerun": CommandEntry(
        "Inspect",
        "talk.replay",
        "Ask a turn's query again, from the same parent, and show the difference.",
    ),
    "replay": CommandEntry(
        "Inspect",
        "talk.replay",
        "Replay a turn from its recorded events, and check that the result is the same.",
    ),
    "stats": CommandEntry(
        "Inspect",
        "maintenance.stats",
        "Show tokens and cost over time, counting each model call once.",
    ),
    "sql": CommandEntry("Inspect", "maintenance.sql", "Query the ledger in SQL, read-only."),
    "fsck": CommandEntry(
        "Inspect", "maintenance.check", "Check the whole store against its invariants."
    ),
    "audit": CommandEntry(
        "Inspect",
        "maintenance.audit",
        "List permissions that were granted, used, denied or never used.",
    ),
    "erase": CommandEntry(
        "Maintain",
        "maintenance.erase",
        "Erase a message for good; a receipt and the message's digest stay.",
    ),
    "gc": CommandEntry("Maintain", "files.gc", "Remove file snapshots that no turn refers to."),
    "worker": CommandEntry(
        "Maintain", "talk.worker", "Serve the sessions of all workspaces until stopped."
    ),
    "serve": CommandEntry(
        "Maintain",
        "setup.serve",
        "Put the ledger on the network, for the members of its workspaces.",
    ),
    "init": CommandEntry(
        "Maintain", "setup.server", "Give this folder a current session of its own."
    ),
    "down": CommandEntry(
        "Maintain", "setup.server", "Stop the embedded database server and the hook daemon."
    ),
    "uninstall": CommandEntry(
        "Maintain", "setup.uninstall", "Remove the hooks, the hook daemon and, if asked, all data."
    ),
    "demo": CommandEntry(
        "Maintain", "setup.demo", "Create sample data to explore: a month of work on five projects."
    ),
    "completion": CommandEntry(
        "Maintain", "completion", "Print the completion script for a shell."
    ),
}
MAIN_SECTIONS: Final = ("History", "Sessions", "Files", "Talk", "Import and export", "Setup")
"""The sections that ``--help`` shows; ``help --all`` shows the others too."""
MEANT: Final[Mapping[str, str]] = {
    "branch": "fork REV LABEL",
    "delete": "session archive SESSION",
    "history": "log",
    "install": "on",
    "label": "session rename SESSION LABEL",
    "list": "session list",
    "ls": "session list",
    "rename": "session rename SESSION LABEL",
    "reset": "session reset SESSION REV",
    "sessions": "session list",
}
"""Words that people try, each with the command that does it; none is spelled like it."""
HIDDEN: Final[Mapping[str, str]] = {"help": "completion", "version": "completion"}
"""Commands that no list shows, each with its module."""


class UnknownCommand(click.UsageError):
    """There is no command of this name."""

    def __init__(self, name: str, nearest: str, context: click.Context) -> None:
        """Take the name, and the command that was probably meant."""
        super().__init__(f"there is no command {name!r}", context)
        self.nearest = nearest


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
        if cmd_name in HIDDEN:
            place = HIDDEN[cmd_name]
        elif cmd_name in COMMANDS:
            place = COMMANDS[cmd_name].module
        else:
            return _kind_group(cmd_name)
        module = import_module(f"turntree.cli.{place}")
        # Python uses these two words itself, so their functions have a trailing underscore.
        attribute = f"{cmd_name}_" if cmd_name in ("import", "help") else cmd_name
        command: click.Command = getattr(module, attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called, under its new name if it was renamed.

        The error for an unknown one suggests the nearest.
        """
        from turntree.cli.aliases import rewrite

        # While a shell completes `index`, its command is still missing, not left out.
        is_incomplete = ctx.resilient_parsing and args[0] == "index"
        args, renamed = (args, []) if is_incomplete else rewrite(args)
        terminal = ctx.ensure_object(Terminal)
        is_quiet = terminal.as_json or "--json" in args or ctx.resilient_parsing
        if not is_quiet:
            for old, new in renamed:
                terminal.note(f"{old} is called {new} now")
        if args[0] == "--version":
            args[0] = "version"
        name = args[0]
        is_known = name in COMMANDS or name in HIDDEN or name.startswith("-")
        if not is_known and name not in _foreign_kinds():
            import difflib

            near = [MEANT[name]] if name in MEANT else difflib.get_close_matches(name, COMMANDS, 1)
            raise UnknownCommand(name, f"turntree {near[0]}" if near else "turntree --help", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands without importing any of them."""
        shows_all = bool(ctx.meta.get(SHOWS_ALL))
        sections: dict[str, list[tuple[str, str]]] = {}
        for name, entry in COMMANDS.items():
            if shows_all or entry.section in MAIN_SECTIONS:
                sections.setdefault(entry.section, []).append((name, entry.help))
        for name in _foreign_kinds() if shows_all else ():
            sections["Programs"].append((name, f"Manage programs of the kind {name}."))
        for section, rows in sections.items():
            with formatter.section(section):
                formatter.write_dl(rows, col_max=12)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write where the other commands are listed."""
        if not ctx.meta.get(SHOWS_ALL):
            formatter.write_paragraph()
            formatter.write_text("More commands: turntree help --all")

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
            hint = error.nearest if isinstance(error, UnknownCommand) else f"{path} --help"
            _report(error.format_message(), hint)
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
        case DatabaseUnavailable() | ServerError() | ServerUnavailable():
            return 5
        case _:
            return 1


def next_command(error: TurntreeError) -> str | None:
    """Return a command to try after an error: what its hint says, or what its type suggests."""
    if error.hint is not None:
        from turntree.cli.hints import command_for

        return command_for(error.hint)
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
    what, *why = message.strip().split("\n")
    terminal = Terminal.current()
    terminal.note(f"{terminal.paint_err('error:', 'bad')} {what}")
    for line in why:
        terminal.note(line)
    if hint is not None:
        from turntree.cli.hints import hint_line

        terminal.note(hint_line(hint))


@click.command(
    cls=Root,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
)
@click.version_option(turntree.__version__, message="turntree %(version)s")
@click.pass_context
def root(context: click.Context) -> None:
    """Undo what your coding agent did to your files, and keep what you did.

    Turntree records every turn of Claude Code, Codex, Gemini CLI and opencode together with the
    files it found and the files it left. Go back to any turn, ask which turn wrote a line, and
    continue any turn in another agent.

    A REV is a session (main), the beginning of a turn's digest (e9177), an ancestor (main~3), an
    earlier head of a session (main@{2}, main@{yesterday}), words of a message (:/redirect), or
    HEAD, the current session.

    Without a command, the newest sessions of this folder are listed.
    """
    if context.invoked_subcommand is None:
        terminal = context.ensure_object(Terminal)
        if terminal.find_server():
            import_module("turntree.cli.client.dispatch").run_home(terminal)
            return
        from turntree.cli.sessions.home import show_home

        show_home(terminal)
