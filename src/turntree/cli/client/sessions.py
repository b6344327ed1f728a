"""Sessions over a server: list, show, create, name, archive, fork and move them."""

import click

from turntree.cli.client.opened import OpenServer, on_server, session_of, session_row
from turntree.cli.command import Terminal
from turntree.cli.common.session_move import Move
from turntree.cli.output.session import stand
from turntree.cli.output.text import age, clean, digits, table
from turntree.cli.sessions.move import tell_move
from turntree.cli.sessions.overview import SessionRow, draw_rows, short_name
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Digest, Label, SessionId, Timestamp, TurnId, short_id
from turntree.core.session import Origin, Session, SessionStatus
from turntree.ledger.revisions import parse_time
from turntree.system.clock import SystemClock
from turntree.wire.sessions import SessionDocument, SessionSummary


def list_sessions(
    terminal: Terminal,
    *,
    everything: bool = False,
    tool: str | None = None,
    since: str | None = None,
) -> None:
    """List sessions, newest first."""

    async def act(opened: OpenServer) -> tuple[list[SessionSummary], OpenServer]:
        oldest = None if since is None else parse_time(since, opened.now)
        status: SessionStatus | None = None if everything else "active"
        found = [
            one
            async for one in opened.client.sessions.list_all(status=status)
            if (tool is None or one.tool == tool) and (oldest is None or one.last_at >= oldest)
        ]
        return found, opened

    found, opened = on_server(terminal, act)
    labels = [one.label for one in found]
    rows = [_row(one, labels) for one in found]
    if terminal.as_json:
        terminal.documents(
            {
                "id": one.id, "label": one.label, "head": one.head, "depth": one.turns,
                "status": "archived" if one.archived else "active", "worked_at": one.last_at,
                "current": one.label == opened.current, "title": one.title, "folder": one.folder,
                "tool": one.tool, "spawned_by": one.spawned_by,
            }
            for one in found
        )  # fmt: skip
    elif rows:
        current = next((r.session for r in rows if r.session.label == opened.current), None)
        terminal.page(draw_rows(rows, current, opened.now, terminal, with_folders=True))
    elif tool is not None or since is not None:
        terminal.note("no session matches.")
        terminal.note("next: turntree session list")
    else:
        terminal.note("there are no sessions yet.")
        terminal.note("next: turntree session create main")


def _row(one: SessionSummary, labels: list[str]) -> SessionRow:
    session = Session(
        SessionId(one.id), Label(one.label), None if one.head is None else TurnId(one.head),
        None, 0, "archived" if one.archived else "active", Timestamp(one.began_at),
        Timestamp(one.last_at), one.turns,
        origin=None if one.tool is None else Origin(one.tool, ""),
        head_sealed_at=Timestamp(one.last_at),
    )  # fmt: skip
    folders = () if one.folder is None else (one.folder,)
    return SessionRow(session, short_name(one.label, labels), clean(one.title), folders, 0)


def show_session(terminal: Terminal, *, name: str) -> None:
    """Show a session: its head and its other names."""

    async def act(opened: OpenServer) -> tuple[SessionDocument, OpenServer]:
        return await opened.client.sessions.get(opened.name(name)), opened

    document, opened = on_server(terminal, act)
    if terminal.as_json:
        terminal.document(session_row(document, current=opened.current))
        return
    found, is_current = session_of(document), document.label == opened.current
    rows = [
        ("session", f"{clean(found.label)}{'  (current)' if is_current else ''}"),
        ("id", found.id),
        ("stands", stand(found)),
        ("status", f"{found.status}, moved {found.version} times"),
        ("worked", f"{found.worked_at}  ({age(found.worked_at, opened.now)})"),
        ("created", f"{found.created_at}  ({age(found.created_at, opened.now)})"),
    ]
    if found.aliases:
        rows.append(("aliases", ", ".join(map(clean, found.aliases))))
    terminal.page(table(rows))


def create_session(terminal: Terminal, *, label: str | None) -> None:
    """Create an empty session; without a label it gets a generated one."""
    named = label or f"session-{short_id(SystemClock().new_id())[-8:]}"
    made = on_server(terminal, lambda opened: opened.client.sessions.create(named))
    terminal.tell(
        f"{clean(made.label)} begins, with no turns yet",
        session_row(made),
        undo=f"turntree session archive {made.label}",
        then=(f"begin there with: turntree send {made.label} MESSAGE",),
    )


def rename_session(terminal: Terminal, *, name: str, label: str) -> None:
    """Rename a session; the old label stays as an alias."""

    async def act(opened: OpenServer) -> tuple[SessionDocument, SessionDocument]:
        before = await opened.client.sessions.get(opened.name(name))
        await opened.client.sessions.rename(before.label, label)
        return before, await opened.client.sessions.get(before.label)

    before, after = on_server(terminal, act)
    old, new = clean(before.label), clean(after.label)
    terminal.tell(
        f"{old} is called {new} now   ({old} still leads to it)",
        session_row(after),
        undo=f"turntree session rename {after.label} {before.label}",
    )


def archive_sessions(terminal: Terminal, *, names: tuple[str, ...]) -> None:
    """Remove sessions from the lists; their turns stay."""
    _set_status(terminal, names, archives=True)


def unarchive_sessions(terminal: Terminal, *, names: tuple[str, ...]) -> None:
    """Make archived sessions active again."""
    _set_status(terminal, names, archives=False)


def _set_status(terminal: Terminal, names: tuple[str, ...], *, archives: bool) -> None:
    status: SessionStatus = "archived" if archives else "active"

    async def act(opened: OpenServer) -> list[str]:
        # Look all of them up first, so that a wrong name changes nothing.
        found = [await opened.client.sessions.get(opened.name(name)) for name in names]
        for one in found:
            await opened.client.sessions.set_status(one.label, status)
        return [one.label for one in found]

    labels = on_server(terminal, act)
    shown = " ".join(map(clean, labels))
    told = "archived; the turns stay" if archives else "active again"
    back = "unarchive" if archives else "archive"
    terminal.tell(
        f"{shown} {'is' if len(labels) == 1 else 'are'} {told}",
        {"sessions": labels, "status": status},
        undo=f"turntree session {back} {' '.join(labels)}",
    )


def fork(terminal: Terminal, *, names: tuple[str, ...]) -> None:
    """Create a session at any turn; nothing is copied."""
    if len(names) != 2:  # noqa: PLR2004  (a revision and a label)
        raise click.UsageError("name a turn and a label")
    revision, label = names
    made = on_server(
        terminal, lambda opened: opened.client.sessions.fork(opened.name(revision), label)
    )
    digest = None if made.digest is None else Digest(made.digest)
    terminal.tell(
        f"{clean(made.label)} begins at {digits(digest)}   (nothing was copied)",
        session_row(made),
        undo=f"turntree session archive {made.label}",
        then=(f"continue it with: turntree send {made.label} MESSAGE",),
    )


def rewind(terminal: Terminal, *, words: tuple[str, ...], before: bool) -> None:
    """Move a session back to an earlier turn; nothing is deleted."""
    if len(words) > 2:  # noqa: PLR2004  (a session and a revision)
        raise click.UsageError("a rewind takes a session and a revision, or only a revision")

    async def act(opened: OpenServer) -> tuple[SessionDocument, SessionDocument]:
        *named, revision = map(opened.name, words)
        # `main~2` also names the session to move. A bare label names a turn like any other.
        base = revision.partition("~")[0].partition("^")[0].partition("@{")[0]
        name = named[0] if named else opened.current
        if not named and base != revision and await opened.find_session(base) is not None:
            name = base
        session = await opened.client.sessions.get(name)
        turn = await opened.client.turns.get(revision)
        if session.head == turn.id and not before:
            raise InvalidOperation(
                f"{clean(session.label)} is at {digits(Digest(turn.digest))} already"
            )
        moved = await opened.client.sessions.rewind(
            session.label, turn.id, before=before, expected_head=session.head
        )
        return session, moved

    left, moved = on_server(terminal, act)
    _tell(terminal, left, moved)


def undo(terminal: Terminal, *, session: str | None) -> None:
    """Undo the last move of a session."""

    async def act(opened: OpenServer) -> tuple[SessionDocument, SessionDocument]:
        before = await opened.client.sessions.get(opened.name(session or "HEAD"))
        return before, await opened.client.sessions.undo(before.label, expected_head=before.head)

    _tell(terminal, *on_server(terminal, act))


def _tell(terminal: Terminal, before: SessionDocument, after: SessionDocument) -> None:
    digests = [None if one.digest is None else Digest(one.digest) for one in (before, after)]
    tell_move(terminal, session_of(after), Move(after.version, *digests))
