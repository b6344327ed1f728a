"""Open the ledger for one command.

Knows the settings and how the current session is found if none was chosen. Waits for a turn that
has just ended, so that ``HEAD`` is where its agent left it. Must never print data.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from turntree.api import Tree
from turntree.boot.open import (
    LazyHub,
    LazyRuntime,
    Settings,
    connect,
    engine_on,
    imports_on,
    run_on,
    tree_on,
    with_token,
    workplace_in,
)
from turntree.cli.command import Terminal
from turntree.cli.hook_process.entry import SPOOL
from turntree.cli.settings import merged_environment
from turntree.core.errors import DatabaseUnavailable
from turntree.core.ids import SessionId, Timestamp
from turntree.core.session import Session
from turntree.core.value import value
from turntree.core.viewer import sight_of
from turntree.system.clock import SystemClock
from turntree.system.head_file import (
    DEMO_WORKSPACE,
    FOLDER,
    find_place,
    list_demo_folders,
    write_head,
    write_own_head,
)

if TYPE_CHECKING:
    from turntree.boot.worker import WorkerRuntime
    from turntree.db.database import Database
    from turntree.runs.attempt import RunObserver

T = TypeVar("T")
SESSION_DEFAULT: Final = "main"
AUDIENCE: Final = "cli"
"""The audience of tokens that commands are run with."""
WORKER_AUDIENCE: Final = "worker"
"""The audience of tokens that workers are run with."""
OPERATIONS: Final = "operations"
"""The folder of the spool with what was done while the database was stopped."""
_OWN_HISTORY: Final = ("on", "import", "hook")
"""Commands that record the user's own history, which never becomes part of the sample data."""


@value
class CliContext:
    """The ledger, open for one command."""

    tree: Tree
    runtime: LazyRuntime
    database: "Database"
    settings: Settings
    now: Timestamp
    chosen: str | None = None
    """The session that the user chose, with ``TURNTREE_SESSION`` or for this folder."""
    is_online: bool = True
    """Whether the database runs; otherwise the tree is what the files of this machine tell."""

    @property
    def running(self) -> "WorkerRuntime":
        """The worker runtime, loaded on first use."""
        return self.runtime.running

    @property
    def current(self) -> str | None:
        """The session that ``HEAD`` names; it may not exist."""
        return self.settings.session

    async def find_current(self) -> Session | None:
        """Return the current session, or None if there is none."""
        name = self.settings.session
        return None if name is None else await self.tree.sessions.ledger.find(name)

    async def choose(self, label: str) -> Path:
        """Make a session the current one in this folder, and return where that is stored.

        That is the nearest ``.turntree`` above, as long as no agent worked in a folder below it:
        there its session would still be the current one.
        """
        here = Path.cwd()
        place = find_place(here)
        worked = await find_worked(self.tree, self.database, below(here, place))
        if place is None or worked is None:
            return write_head(here, label)
        write_own_head(worked[1], label)
        return worked[1] / FOLDER


def load_settings(terminal: Terminal | None = None) -> Settings:
    """Return the settings merged from the options, the environment, the file and ``.turntree``."""
    settings = Settings.from_environment(merged_environment())
    if terminal is not None and terminal.token is not None:
        settings = replace(settings, token=terminal.token)
    place = find_place(Path.cwd())
    if place is None or os.environ.get("TURNTREE_WORKSPACE"):
        return settings
    context = click.get_current_context(silent=True)
    command = None if context is None else context.find_root().invoked_subcommand
    if command in _OWN_HISTORY or place.parent not in list_demo_folders(settings.home):
        return settings
    return settings.in_workspace(DEMO_WORKSPACE, session=settings.session)


def with_ledger(
    terminal: Terminal,
    act: Callable[[CliContext], Awaitable[T]],
    *,
    waits: bool = True,
    offline: bool = False,
) -> T:
    """Run one call on the ledger and return its result.

    The first call of a command opens the ledger, and it stays open until the command ends. A
    command that reads no session need not wait for a turn that is still being imported. With
    ``offline``, a database that is stopped stays stopped if the files of this machine will do.
    """
    context = click.get_current_context(silent=True)
    if context is None:
        with closing(HeldLedger()) as held:
            return held.run(terminal, act, waits=waits, offline=offline)
    root = context.find_root()
    if __name__ not in root.meta:
        root.meta[__name__] = HeldLedger()
        root.call_on_close(root.meta[__name__].close)
    ledger: HeldLedger = root.meta[__name__]
    return ledger.run(terminal, act, waits=waits, offline=offline)


class HeldLedger:
    """A ledger that stays open between the calls of one command."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._database: Database | None = None
        self._is_offline = False
        """Whether a call of this command was answered without the database."""

    def run(
        self,
        terminal: Terminal,
        act: Callable[[CliContext], Awaitable[T]],
        *,
        waits: bool,
        offline: bool,
    ) -> T:
        """Run one call; the current session is resolved again each time."""
        return self._runner.run(self._act(terminal, act, waits=waits, offline=offline))

    def close(self) -> None:
        """Close the ledger, if it was opened."""
        with self._runner:
            self._runner.run(self._stack.aclose())

    async def _act(
        self,
        terminal: Terminal,
        act: Callable[[CliContext], Awaitable[T]],
        *,
        waits: bool,
        offline: bool,
    ) -> T:
        settings, world = load_settings(terminal), SystemClock()
        if self._database is None and offline and settings.token is None:
            try:
                return await self._act_offline(terminal, act, settings, world)
            except _NeedsDatabase:
                # Not all of it is in the files of this machine.
                pass
        if self._database is None:
            opening = connect(settings, world, report=terminal.note, is_brief=True)
            self._database = await self._stack.enter_async_context(opening)
        async with _open_on(self._database, settings, terminal, world, waits=waits) as opened:
            return await act(opened)

    async def _act_offline(
        self,
        terminal: Terminal,
        act: Callable[[CliContext], Awaitable[T]],
        settings: Settings,
        world: SystemClock,
    ) -> T:
        """Run one call without the database, if that is stopped and the call can do without it."""
        if not self._is_offline and not await self._is_stopped(terminal, settings, world):
            raise _NeedsDatabase
        from turntree.boot.offline import open_offline
        from turntree.cli.settings import places_here

        found = open_offline(settings, world, Path.cwd().resolve(), places_here())
        if found is None:
            raise _NeedsDatabase
        tree, database = found
        try:
            result = await act(_offline_context(tree, database, settings, world))
        except DatabaseUnavailable as error:
            # What was shown to the user so far came from files, so the rest has to as well.
            if self._is_offline:
                raise
            raise _NeedsDatabase from error
        self._is_offline = True
        return result

    async def _is_stopped(self, terminal: Terminal, settings: Settings, world: SystemClock) -> bool:
        """Return whether the database is stopped; if it is not, the connection stays open."""
        if settings.database_url is None:
            from turntree.db.embedded.server import EmbeddedServer

            return EmbeddedServer(settings.home).find_ready() is None
        try:
            opening = connect(settings, world, report=terminal.note, is_brief=True)
            self._database = await self._stack.enter_async_context(opening)
        except DatabaseUnavailable:
            return True
        return False


def _offline_context(
    tree: Tree, database: "Database", settings: Settings, world: SystemClock
) -> CliContext:
    runtime = LazyRuntime(lambda: run_on(database, tree, settings, world, engine_on(database)))
    # Which session is the current one is in the ledger.
    settings = replace(settings, session=None)
    return CliContext(tree, runtime, database, settings, world.now(), is_online=False)


class _NeedsDatabase(Exception):
    """A call cannot be answered from the files of this machine."""


@asynccontextmanager
async def open_ledger(
    terminal: Terminal,
    *,
    tools: Sequence[object] = (),
    lent: Path | None = None,
    audience: str = AUDIENCE,
    settings: Settings | None = None,
    observers: "Sequence[RunObserver]" = (),
) -> AsyncGenerator[CliContext, None]:
    """Open the ledger with a connection pool and the tools that models may call.

    Programs work in the folder where the command runs, or in ``lent``, which programs of other
    users may use too. ``observers`` watch the runs that this process drives.
    """
    settings, world = settings or load_settings(terminal), SystemClock()
    async with (
        connect(settings, world, report=terminal.note) as database,
        _open_on(
            database,
            settings,
            terminal,
            world,
            tools=tools,
            lent=lent,
            audience=audience,
            observers=observers,
        ) as opened,
    ):
        yield opened


@asynccontextmanager
async def _open_on(
    database: "Database",
    settings: Settings,
    terminal: Terminal,
    world: SystemClock,
    *,
    tools: Sequence[object] = (),
    waits: bool = False,
    lent: Path | None = None,
    audience: str = AUDIENCE,
    observers: "Sequence[RunObserver]" = (),
) -> AsyncGenerator[CliContext, None]:
    """Yield a command's context; with ``waits``, after importing a turn that has just ended."""
    if waits and _has_unread(settings.home / SPOOL):
        from turntree.cli.hook_wait import wait_for_hooks
        from turntree.hooks.spool import Spool

        await wait_for_hooks(Spool(settings.home / SPOOL), terminal)
    here = workplace_in(lent or Path(), settings.home, terminal.note, is_lent=lent is not None)
    engine = engine_on(database)

    settings = await with_token(settings, database, world, audience)

    def run() -> "WorkerRuntime":
        plain = tree_on(database, settings, world, workplace=here, engine=engine, find_hub=hub.find)
        return run_on(database, plain, settings, world, engine, tools, observers=observers)

    runtime, hub = LazyRuntime(run), LazyHub(settings)

    def open_tree() -> Tree:
        tree = tree_on(
            database, settings, world, workplace=here, engine=engine, runtime=runtime,
            find_hub=hub.find,
        )  # fmt: skip
        # A person may type a part of a label; a program that asks for a name means that name.
        return tree.with_facets(revisions=replace(tree.revisions, abbreviates=True))

    tree = open_tree()
    if _has_operations(settings.home):
        await _record_operations(tree, database, settings)
    seen = database.seen_by(sight_of(tree.sessions.by))
    chosen = await _find_choice(tree, settings)
    session = chosen
    # The variable is the choice of one shell, so nothing that is stored overrides it.
    if not os.environ.get("TURNTREE_SESSION"):
        session = await _find_head(tree, seen, chosen, Path.cwd())
    if session != settings.session:
        settings = replace(settings, session=session)
        tree = open_tree()
    try:
        yield CliContext(tree, runtime, seen, settings, world.now(), chosen)
    finally:
        await runtime.aclose()
        await hub.aclose()
        await engine.close()


def _has_unread(spool: Path) -> bool:
    """Whether the spool has unread events, checked without loading what reads them."""
    try:
        return any(path.suffix in {".raw", ".event"} for path in spool.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False


def _has_operations(home: Path) -> bool:
    """Whether something was done while the database was stopped."""
    try:
        return any(path.suffix == ".jsonl" for path in (home / SPOOL / OPERATIONS).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False


async def _record_operations(tree: Tree, database: "Database", settings: Settings) -> None:
    """Record what was done while the database was stopped, after the turns that it was about."""
    from turntree.boot.offline import recorder_on
    from turntree.cli.hook_process.daemon import take_left
    from turntree.cli.hook_settle import settle_spool
    from turntree.hooks.spool import Spool
    from turntree.hooks.unread_turns import list_unread_ids

    spool = Spool(settings.home / SPOOL)
    await recorder_on(tree, settings).record_all(list_unread_ids(spool))
    if _has_operations(settings.home):
        with spool.reading() as is_mine:
            if is_mine:
                take_left(spool)
                await settle_spool(spool, database, tree, settings)


async def _find_choice(tree: Tree, settings: Settings) -> str | None:
    """Return the session that the user chose, unless it is archived; it may not exist yet."""
    if settings.session is None:
        return None
    status = await tree.sessions.ledger.find_status(settings.session)
    return settings.session if status in (None, "active") else None


async def _find_head(
    tree: Tree, database: "Database", chosen: str | None, here: Path
) -> str | None:
    """Return the session that HEAD names in a folder.

    What was chosen in this folder comes first, then the last session that worked here, then what
    was chosen for a folder above: a choice made in a home directory must not hide the agents that
    work in the projects below it. Without any of these it is main, or the only session.
    """
    worked = await find_worked(
        tree, database, below(here, None if chosen is None else find_place(here))
    )
    if worked is not None:
        return (await tree.sessions.ledger.get(worked[0])).label
    if chosen is not None:
        return chosen
    if await tree.sessions.ledger.find_status(SESSION_DEFAULT) == "active":
        return SESSION_DEFAULT
    first = await tree.sessions.ledger.list_page(limit=2)
    return first[0].label if len(first) == 1 else None


def below(here: Path, place: Path | None) -> list[Path]:
    """Return this folder and those above it, as far as they are below the one with the choice."""
    folders = [here, *here.parents]
    return folders if place is None else folders[: folders.index(place.parent)]


async def find_worked(
    tree: Tree, database: "Database", folders: Sequence[Path]
) -> tuple[SessionId, Path] | None:
    """Return the session that last worked in the first of some folders with any, and the folder."""
    if not folders:
        return None
    holder = await tree.resources.find_last_holder("directory", [str(one) for one in folders])
    if holder is not None:
        return holder[0], Path(holder[1])
    # Imported transcripts name the folder that they come from, and only that one counts: an agent
    # that once ran in a home directory did not work in the projects below it.
    imported = await imports_on(database).find_last_in(str(folders[0]))
    return None if imported is None else (imported, folders[0])
