"""``session``: commands for sessions and their labels."""

import os
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Final

import click

from turntree.cli.command import Terminal, verb
from turntree.cli.context import CliContext, with_ledger
from turntree.cli.output.annotations import list_sessions
from turntree.cli.output.session import session_row_document, stand, visibility_of
from turntree.cli.output.text import age, clean, table
from turntree.cli.param_types import PROGRAM, SESSION
from turntree.cli.sessions.overview import SessionRow, describe_sessions, draw_rows, fill_rows
from turntree.cli.sessions.picker import can_pick, pick_session
from turntree.core.ids import Timestamp, short_id
from turntree.core.program import Program, Visibility
from turntree.core.session import Session, SessionStatus
from turntree.core.value import value
from turntree.ledger.revisions import parse_time


class SessionGroup(click.Group):
    """Imports the heavier subcommands only when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every command's name."""
        return sorted({*super().list_commands(ctx), *_ELSEWHERE})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported if need be."""
        if cmd_name not in _ELSEWHERE:
            return super().get_command(ctx, cmd_name)
        module, name = _ELSEWHERE[cmd_name]
        command: click.Command = getattr(import_module(f"turntree.cli.{module}"), name)
        return command


_ELSEWHERE: Final = {
    "attach": ("sessions.session_folder", "attach"),
    "detach": ("sessions.session_folder", "detach"),
    "configure": ("sessions.session_config", "configure"),
    "identify": ("sessions.route", "identify"),
    "reset": ("sessions.move", "session_reset"),
}


@click.group(cls=SessionGroup)
def session() -> None:
    """Create, list, rename, merge and archive sessions."""


def _act(terminal: Terminal, act: Callable[[CliContext], Awaitable[Session]]) -> Session:
    return with_ledger(terminal, act)


@verb("list")
@click.option("--all", "-a", "everything", is_flag=True, help="Archived sessions too.")
@click.option("--here", "is_here", is_flag=True, help="Sessions that worked in this folder.")
@click.option("--from", "source", metavar="SOURCE",
              help="Folder or tool that the sessions are from.")  # fmt: skip
@click.option("--tool", metavar="TOOL", help="Tool that the sessions are from: claude-code, codex.")
@click.option("--since", metavar="WHEN", help="Time of the last turn: yesterday, '3 days ago'.")
@click.option("--pick", "picks", is_flag=True, help="Choice of the current session from the list.")
def list_(
    terminal: Terminal,
    everything: bool,
    is_here: bool,
    source: str | None,
    tool: str | None,
    since: str | None,
    picks: bool,
) -> None:
    """List sessions, newest first; a star marks the current one.

    A long label is shown by its end, which is enough to name the session.
    """
    folder = Path.cwd() if is_here else None
    if source is not None and (source.startswith((".", "~")) or "/" in source):
        folder = Path(os.path.abspath(Path(source).expanduser()))  # noqa: PTH100  (keeps symlinks)
    elif source is not None:
        tool = source
    is_filtered = folder is not None or tool is not None or since is not None

    async def act(opened: CliContext) -> SessionListing:
        oldest = None if since is None else parse_time(since, opened.now)
        found = await list_sessions(opened, with_archived=everything)
        archived = 0 if found else len(await list_sessions(opened, with_archived=True))
        rows = [
            row
            for row in await describe_sessions(opened, found)
            if (folder is None or row.worked_in(folder))
            and (tool is None or row.tool == tool)
            and (oldest is None or row.session.worked_at >= oldest)
        ]
        rows = await fill_rows(opened, rows)
        return SessionListing(rows, archived, await opened.find_current(), opened.now)

    listed = with_ledger(terminal, act)
    rows, current = listed.rows, listed.current
    if picks and rows and can_pick(terminal):
        label = pick_session(rows, current, listed.now, terminal)
        if label is not None:
            click.get_current_context().invoke(switch_command(), session=label, removes=False)
    elif terminal.as_json:
        terminal.documents(row.document(current) for row in rows)
    elif not rows and listed.archived:
        terminal.note(f"all sessions are archived: there are {listed.archived} of them.")
        terminal.note("next: turntree session list --all")
        terminal.note("      turntree session unarchive LABEL")
    elif not rows and is_filtered:
        terminal.note("no session matches.")
        terminal.note("next: turntree session list")
    elif not rows:
        terminal.note("there are no sessions yet.")
        terminal.note("next: turntree on                    import what your agents have stored")
        terminal.note("      turntree session create main   an empty session of your own")
        terminal.note("      turntree demo                  a small tree to look around in")
    else:
        terminal.page(draw_rows(rows, current, listed.now, terminal, with_folders=folder is None))


@value
class SessionListing:
    """Sessions to list or to choose from."""

    rows: list[SessionRow]
    archived: int
    current: Session | None
    now: Timestamp


def switch_command() -> click.Command:
    """Return ``switch``, whose module needs more than a list does."""
    command: click.Command = import_module("turntree.cli.sessions.move").switch
    return command


@verb()
@click.argument("label", metavar="[LABEL]", required=False)
@click.option("--model", type=PROGRAM, help="Model that replies in it.")
@click.option("--owner", type=PROGRAM, help="Owner: an agent or a human.")
@click.option("--prompt", help="System prompt, which its forks inherit.")
@click.option("--private", is_flag=True, help="Private visibility: the owner and grantees only.")
def create(
    terminal: Terminal,
    label: str | None,
    model: str | None,
    owner: str | None,
    prompt: str | None,
    private: bool,
) -> None:
    """Create an empty session; without a label it gets a generated one."""
    from turntree.cli.sessions.session_config import session_config

    config = session_config(model, owner, prompt=prompt)

    async def act(opened: CliContext) -> Session:
        tree = opened.tree
        named = label or f"session-{short_id(tree.sessions.world.new_id())[-8:]}"
        if not config and not private:
            return await tree.sessions.create(named)
        visibility: Visibility = "private" if private else "public"
        await tree.programs.create("session", named, config, visibility=visibility)
        return await tree.sessions.get(named)

    made = _act(terminal, act)
    invites = (f"share it with: turntree program invite {made.label} NAME",) * private
    terminal.tell(
        f"{made.label} begins, {'private, ' if private else ''}with no turns yet",
        session_row_document(made),
        undo=f"turntree session archive {made.label}",
        then=(f"work there with: turntree switch {made.label}", *invites),
    )


@verb()
@click.argument("name", metavar="[SESSION]", default="HEAD", type=SESSION)
def show(terminal: Terminal, name: str) -> None:
    """Show a session: its head, its other names, its origin."""

    async def act(opened: CliContext) -> tuple[Session, Program | None, Session | None, CliContext]:
        found = await opened.tree.sessions.get(name)
        program = await opened.tree.programs.find(found.id)
        return found, program, await opened.find_current(), opened

    found, program, current, opened = with_ledger(terminal, act)
    if terminal.as_json:
        said = session_row_document(found, current=current)
        terminal.document({**said, "visibility": visibility_of(program)})
        return
    rows = [
        ("session", f"{clean(found.label)}{'  (current)' if found == current else ''}"),
        ("id", found.id),
        ("stands", stand(found)),
        ("status", f"{found.status}, moved {found.version} times"),
        ("seen", _seen(program)),
        ("worked", f"{found.worked_at}  ({age(found.worked_at, opened.now)})"),
        ("created", f"{found.created_at}  ({age(found.created_at, opened.now)})"),
        ("updated", f"{found.updated_at}  ({age(found.updated_at, opened.now)})"),
    ]
    if found.aliases:
        rows.append(("aliases", ", ".join(map(clean, found.aliases))))
    if found.origin is not None:
        rows.append(("origin", clean(f"{found.origin.tool} {found.origin.session_id}")))
    if found.spawn is not None:
        spawn = found.spawn
        rows.append(("spawned", clean(f"by call {spawn.call_id} of turn {spawn.parent_turn}")))
    terminal.page(table(rows))


def _seen(program: Program | None) -> str:
    if program is None or program.visibility == "public":
        return "by the whole workspace"
    return f"by {clean(program.owner)}, who owns it, and its grantees"


@verb()
@click.argument("name", metavar="SESSION", type=SESSION)
@click.argument("label", metavar="LABEL")
def rename(terminal: Terminal, name: str, label: str) -> None:
    """Rename a session; the old label stays as an alias."""
    _rename(terminal, name, label, promote=False)


@verb()
@click.argument("name", metavar="SESSION", type=SESSION)
@click.argument("label", metavar="LABEL")
def promote(terminal: Terminal, name: str, label: str) -> None:
    """Rename a session once its owner is known."""
    _rename(terminal, name, label, promote=True)


def _rename(terminal: Terminal, name: str, label: str, *, promote: bool) -> None:
    async def act(opened: CliContext) -> tuple[Session, Session]:
        sessions = opened.tree.sessions
        before = await sessions.get(name)
        change = sessions.promote if promote else sessions.rename
        return before, await change(name, label)

    before, after = with_ledger(terminal, act)
    terminal.tell(
        f"{before.label} is called {after.label} now   ({before.label} still leads to it)",
        session_row_document(after),
        undo=f"turntree session rename {after.label} {before.label}",
    )


@verb()
@click.argument("name", metavar="SESSION", type=SESSION)
@click.argument("other", metavar="ALIAS")
def alias(terminal: Terminal, name: str, other: str) -> None:
    """Add an alias to a session."""
    found = _act(terminal, lambda opened: opened.tree.sessions.alias(name, other))
    if terminal.as_json:
        terminal.document({**session_row_document(found), "undo": None})
        return
    terminal.say(f"{clean(other)} leads to {found.label} now")
    terminal.note("an alias cannot be removed: it may be in use elsewhere")


@verb()
@click.argument("name", metavar="SESSION", type=SESSION)
@click.argument("other", metavar="OTHER", type=SESSION)
def merge(terminal: Terminal, name: str, other: str) -> None:
    """Merge two sessions: every name of OTHER leads to SESSION.

    No turn moves: SESSION keeps its head, and OTHER keeps its own under another label, archived.
    """

    async def act(opened: CliContext) -> tuple[Session, Session, Session]:
        gone = await opened.tree.sessions.get(other)
        into = await opened.tree.sessions.merge(name, other)
        return into, gone, await opened.tree.sessions.ledger.get(gone.id)

    into, gone, kept = with_ledger(terminal, act)
    terminal.tell(
        f"{gone.label} leads to {into.label} now   (its turns are kept as {kept.label})",
        session_row_document(into),
        undo=f"turntree session unarchive {kept.label}",
        then=(f"(the names stay with {into.label})",),
    )


def _set_status(terminal: Terminal, names: tuple[str, ...], status: SessionStatus) -> None:
    async def act(opened: CliContext) -> list[Session]:
        for name in names:  # Look all of them up first, so that a wrong name changes nothing.
            await opened.tree.sessions.get(name)
        return [await opened.tree.sessions.set_status(name, status) for name in names]

    changed = with_ledger(terminal, act)
    labels = " ".join(one.label for one in changed)
    back = "archive" if status == "active" else "unarchive"
    said = "active again" if status == "active" else f"{status}; the turns stay"
    terminal.tell(
        f"{labels} {'is' if len(changed) == 1 else 'are'} {said}",
        {"sessions": [one.label for one in changed], "status": status},
        undo=f"turntree session {back} {labels}",
    )


@verb()
@click.argument("names", metavar="SESSION...", nargs=-1, required=True, type=SESSION)
def archive(terminal: Terminal, names: tuple[str, ...]) -> None:
    """Remove sessions from the lists; their turns stay."""
    _set_status(terminal, names, "archived")


@verb()
@click.argument("names", metavar="SESSION...", nargs=-1, required=True, type=SESSION)
def unarchive(terminal: Terminal, names: tuple[str, ...]) -> None:
    """Make archived sessions active again."""
    _set_status(terminal, names, "active")


for command in (list_, create, show, rename, alias, promote, merge, archive, unarchive):
    session.add_command(command)
