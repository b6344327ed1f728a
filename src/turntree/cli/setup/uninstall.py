"""``uninstall``: remove what Turntree has put on this machine, and its data only if asked twice.

Shows what it will remove before it asks. Files in the home that Turntree did not write stay, and so
do sessions that were handed off to other tools.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from turntree.boot.open import Settings
from turntree.cli.command import Terminal, is_asked, verb
from turntree.cli.context import load_settings
from turntree.cli.hook_process.daemon import find_daemon, stop_daemon
from turntree.cli.maintenance.backup import FOLDER as BACKUPS
from turntree.cli.settings import config_path, hide_password
from turntree.cli.setup.hook import make_installer, remove_hooks
from turntree.core.errors import InvalidOperation
from turntree.core.value import value
from turntree.db.embedded.server import EmbeddedServer
from turntree.hooks.coding_agents import Tool
from turntree.hooks.mcp_clients import McpClient
from turntree.hooks.spool import FOLDER as SPOOL
from turntree.hooks.spool import Spool
from turntree.policy.local import FOLDER as JUDGE
from turntree.resources.offline.replica import FOLDER as REPLICA
from turntree.server.following import LOCK
from turntree.server.launch import FOLDER as LAUNCHES

OURS: Final = (
    *("data", "run", "passwords*", "turntree.conf", "pg_hba.conf", "postgresql.conf"),
    *("server.uid", "server.log", "server.lock", "postgresql-*", "unfinished-*", "initial-*"),
    *("shadow*", SPOOL, "hooks", "turntree-hook*", "token.key*", "chat.history*", "demo-folders"),
    *("demo", REPLICA, LAUNCHES, LOCK, JUDGE),
)
"""Patterns of the names that Turntree writes in its home. The home may be a folder of the user's,
so nothing else in it is removed.
"""
WORD: Final = "delete"
"""What a person types before data is deleted."""
LAST_STEP: Final = "pip uninstall turntree"
_MB: Final = 1e6


@value
class Removal:
    """What an uninstallation removes."""

    hooks: dict[Path, Tool]
    clients: tuple[McpClient, ...]
    """The agents that start our MCP server."""
    daemon: int | None
    server: int | None
    data: tuple[Path, ...]
    """What is deleted of the home, and the settings file; empty if data stays."""
    size: int
    """Bytes of the data."""
    foreign: tuple[Path, ...]
    """What in the home is not ours."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to remove."""
        return not (self.hooks or self.clients or self.daemon or self.server or self.data)

    def lines(self) -> Iterator[str]:
        """Yield what is removed, for people."""
        for path, tool in self.hooks.items():
            yield f"hooks   {tool.title}, in {path}"
        for client in self.clients:
            yield f"mcp     {client.title}"
        if self.daemon is not None:
            yield f"daemon  process {self.daemon}"
        if self.server is not None:
            yield f"server  process {self.server}"
        for folder in dict.fromkeys(path.parent for path in self.data):
            names = ", ".join(path.name for path in self.data if path.parent == folder)
            yield f"data    {folder}: {names}"


@verb()
@click.option("--data", "with_data", is_flag=True,
              help="All recorded turns, file snapshots and settings too.")  # fmt: skip
@click.option(
    "--yes", "-y", is_flag=True, help="No questions; together with --data, all data goes."
)
@click.option("--dry-run", is_flag=True, help="Preview of what would be removed.")
def uninstall(terminal: Terminal, with_data: bool, yes: bool, dry_run: bool) -> None:
    """Remove the hooks, the hook daemon and, if asked, all data.

    Takes the hooks out of the settings of your agents, in all projects, and stops the daemon and
    the server. Then it asks whether to delete what was recorded, and a second time before it does;
    without a terminal, recorded turns stay unless --data is given. Shows first what it will remove.
    The last step is yours: pip uninstall turntree.
    """
    settings = load_settings()
    plan = _plan(settings, with_data=with_data)
    home = settings.home.expanduser().resolve()
    stays = list(_list_what_stays(settings, home, plan, with_data=with_data))
    if not terminal.as_json:
        for line in plan.lines():
            terminal.say(line)
        if with_data and plan.data:
            terminal.note(
                f"{plan.size / _MB:,.1f} MB of data; a copy: turntree export --all -o FILE"
            )
        for line in stays:
            terminal.note(line)
    if plan.is_empty or dry_run or not (yes or _agrees(terminal, plan)):
        is_refused = not (plan.is_empty or dry_run)
        _tell(terminal, plan, stays, removed=False)
        raise click.exceptions.Exit(1 if is_refused else 0)
    if not (yes or with_data) and _asks_for_data(home):
        plan, stays = _plan(settings, with_data=True), list[str]()
        if not _confirms_deletion():
            _tell(terminal, plan, stays, removed=False)
            raise click.exceptions.Exit(1)
    _remove(terminal, settings, plan, home)
    _tell(terminal, plan, stays, removed=True)


def _plan(settings: Settings, *, with_data: bool) -> Removal:
    home = settings.home.expanduser().resolve()
    if with_data and _is_shared(home):
        raise InvalidOperation(f"{home} holds more than Turntree's data; delete it by hand")
    ours, foreign = _list_entries(home)
    files = (
        inside
        for path in (ours if with_data else [])
        for inside in (path.rglob("*") if path.is_dir() and not path.is_symlink() else [path])
    )
    installer = make_installer()
    return Removal(
        installer.list_files(),
        tuple(installer.list_servers()),
        find_daemon(Spool(home / SPOOL)),
        None if settings.database_url else EmbeddedServer(home).state().pid,
        tuple(ours) if with_data else (),
        sum(path.lstat().st_size for path in files),
        tuple(foreign),
    )


def _is_shared(home: Path) -> bool:
    """Whether a folder ``data`` or ``run`` in there may well be the user's own."""
    person = Path.home().resolve()
    return home == person or home in person.parents


def _list_entries(home: Path) -> tuple[list[Path], list[Path]]:
    """Return what is Turntree's in its home, with the settings file, and what is not."""
    entries = sorted(home.iterdir()) if home.is_dir() else []
    ours = [path for path in entries if any(path.match(pattern) for pattern in OURS)]
    foreign = [path for path in entries if path not in ours]
    return ours + [path for path in [config_path()] if path.is_file()], foreign


def _list_what_stays(
    settings: Settings, home: Path, plan: Removal, *, with_data: bool
) -> Iterator[str]:
    if settings.database_url:
        yield f"stays: the database {hide_password(settings.database_url)}"
    if not with_data and home.is_dir():
        yield f"stays: what was recorded, in {home}; --data deletes it too"
    for path in plan.foreign if with_data else ():
        whose = "your backups" if path.name == BACKUPS else "which is not Turntree's"
        yield f"stays: {path}, {whose}"


def _agrees(terminal: Terminal, plan: Removal) -> bool:
    """Ask once, and a second time before data is deleted."""
    if not is_asked(terminal):
        if not terminal.as_json:
            options = "--yes --data" if plan.data else "--yes"
            terminal.note("nothing was removed: there is no terminal to ask on")
            terminal.note(f"next: turntree uninstall {options}")
        return False
    if not click.confirm("remove this?", default=False, err=True):
        return False
    return not plan.data or _confirms_deletion()


def _asks_for_data(home: Path) -> bool:
    """Ask whether what was recorded goes too, where there is something and it can be told apart."""
    if _is_shared(home) or not _list_entries(home)[0]:
        return False
    return click.confirm("delete what was recorded too?", default=False, err=True)


def _confirms_deletion() -> bool:
    question = f"deleted data cannot be brought back; type {WORD} to delete it"
    return str(click.prompt(question, default="", show_default=False, err=True)) == WORD


def _remove(terminal: Terminal, settings: Settings, plan: Removal, home: Path) -> None:
    # Copies of the old settings are part of the data, so it stays unless they are restored.
    remove_hooks(terminal, plan.hooks)
    installer = make_installer()
    for client in plan.clients:
        installer.uninstall_server(client)
    stop_daemon(Spool(home / SPOOL))
    if settings.database_url is None:
        EmbeddedServer(home).stop()
    # Listed again: the daemon may have finished a snapshot in the meantime.
    for path in _list_entries(home)[0] if plan.data else ():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for folder in (home, config_path().parent) if plan.data else ():
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def _tell(terminal: Terminal, plan: Removal, stays: list[str], *, removed: bool) -> None:
    if terminal.as_json:
        document: dict[str, Any] = {
            "removed": removed,
            "hooks": [{"tool": tool.name, "path": str(at)} for at, tool in plan.hooks.items()],
            "mcp": [client.name for client in plan.clients],
            "daemon": plan.daemon,
            "server": plan.server,
            "data": [str(path) for path in plan.data],
            "bytes": plan.size,
            "stays": [line.removeprefix("stays: ") for line in stays],
            "last_step": LAST_STEP,
        }
        terminal.document({**document, "undo": _undo(plan) if removed else None})
        return
    if not removed:
        terminal.say("there is nothing to remove" if plan.is_empty else "nothing was removed")
    else:
        terminal.say("removed")
        if (undo := _undo(plan)) is not None:
            terminal.note(f"undo with: {undo}")
    if removed or plan.is_empty:
        terminal.note(f"last step: {LAST_STEP}")


def _undo(plan: Removal) -> str | None:
    if plan.data:
        return None
    hooks = ["turntree on"] if plan.hooks else []
    servers = [f"turntree mcp install {client.name}" for client in plan.clients]
    return " && ".join([*hooks, *servers]) or None
