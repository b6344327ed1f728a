"""The home screen: the newest sessions of this folder, and what to do next."""

from pathlib import Path
from typing import Final

from turntree.cli.command import Terminal
from turntree.cli.context import CliContext, load_settings, with_ledger
from turntree.cli.output.annotations import list_sessions
from turntree.cli.output.changes import shown_path
from turntree.cli.output.text import counted
from turntree.cli.sessions.overview import SessionRow, describe_sessions, draw_rows, fill_rows
from turntree.core.ids import Timestamp
from turntree.core.session import Session
from turntree.core.value import value
from turntree.db.embedded.server import EmbeddedServer
from turntree.system.head_file import DEMO_WORKSPACE

ROWS_MAX: Final = 8


@value
class HomeScreen:
    """The newest sessions of this folder or, if there are none, of all folders."""

    rows: list[SessionRow]
    is_here: bool
    can_rewind: bool
    """Whether the files before the newest turn of the current session are known."""
    total: int
    unread: int
    """Notices of the user."""
    current: Session | None
    now: Timestamp


def show_home(terminal: Terminal) -> None:
    """Print the newest sessions of this folder; starts no server that was never started."""
    settings = load_settings()
    is_new = not settings.database_url and EmbeddedServer(settings.home).state().name == "absent"
    screen = None if is_new else with_ledger(terminal, _read)
    if terminal.as_json:
        rows = [] if screen is None else screen.rows
        terminal.documents(row.document(None if screen is None else screen.current) for row in rows)
        return
    if screen is not None and screen.unread:
        terminal.note(f"{counted(screen.unread, 'unread notice')}: turntree inbox")
    if screen is None or not screen.total:
        terminal.note("nothing is recorded yet.")
        terminal.note("next: turntree on        import what your coding agents have stored")
        terminal.note("      turntree demo      sample data to look around in")
        terminal.note("      turntree --help    all commands")
        return
    if settings.workspace == DEMO_WORKSPACE:
        terminal.note("this folder shows sample data; remove it with: turntree demo --remove")
    elif screen.is_here:
        terminal.say(shown_path(str(Path.cwd())))
    else:
        terminal.note("no session has worked in this folder yet; the newest of others:")
    lines = draw_rows(
        screen.rows, screen.current, screen.now, terminal, with_folders=not screen.is_here
    )
    terminal.say("\n".join(lines))
    steps = [(f"turntree log {screen.rows[0].name}", "what was said in it")]
    if screen.can_rewind:
        back = "turntree rewind HEAD --before --files"
        steps.append((back, "undo the last turn and its files"))
    steps.append(("turntree session list --pick", "choose the current session"))
    if screen.total > len(screen.rows):
        steps.append(("turntree session list", f"all {screen.total} sessions"))
    else:
        steps.append(("turntree --help", "all commands"))
    width = max(len(command) for command, _ in steps)
    for number, (command, purpose) in enumerate(steps):
        start = "      " if number else "next: "
        terminal.note(f"{start}{command:<{width}}   {purpose}")


async def _read(opened: CliContext) -> HomeScreen:
    found = await list_sessions(opened, with_archived=False)
    described = await describe_sessions(opened, found)
    # A subagent's session is part of the one that spawned it.
    rows = [row for row in described if row.session.spawn is None]
    current = await opened.find_current()
    chosen = None if current is None or opened.chosen is None else current.id
    here = [row for row in rows if row.worked_in(Path.cwd()) or row.session.id == chosen]
    if opened.settings.workspace == DEMO_WORKSPACE:
        here = rows
    shown = await fill_rows(opened, (here or rows)[:ROWS_MAX])
    can_rewind = False
    if here and current is not None and current.head is not None:
        pinned = await opened.tree.resources.pins.list_pinned_along(current.head, limit=1)
        can_rewind = any(depth == current.depth for _, depth in pinned)
    unread = await opened.tree.inbox.count_unread() if opened.is_online else 0
    return HomeScreen(shown, bool(here), can_rewind, len(found), unread, current, opened.now)
