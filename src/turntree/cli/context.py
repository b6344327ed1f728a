"""Open the ledger for one command.

Knows the settings and how the current session is found if none was chosen. Waits for a turn that
has just ended, so that ``HEAD`` is where its agent left it. Must never print data.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from turntree.api import Tree
from turntree.boot.open import (
    LazyRuntime,
    Settings,
    connect,
    engine_on,
    imports_on,
    run_on,
    tree_on,
    workplace_in,
)
from turntree.cli.command import Terminal
from turntree.cli.hook_process.entry import SPOOL
from turntree.cli.settings import merged_environment
from turntree.core.ids import Timestamp
from turntree.core.session import Session
from turntree.core.value import value
from turntree.core.viewer import sight_of
from turntree.system.clock import SystemClock

if TYPE_CHECKING:
    from turntree.boot.worker import WorkerRuntime
    from turntree.db.database import Database
    from turntree.transcripts.store import ImportStore

T = TypeVar("T")
SESSION_DEFAULT: Final = "main"


@value
class CliContext:
    """The ledger, open for one command."""

    tree: Tree
    runtime: LazyRuntime
    database: "Database"
    settings: Settings
    now: Timestamp

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


def load_settings() -> Settings:
    """Return the settings merged from the environment, the file and ``.turntree``."""
    return Settings.from_environment(merged_environment())


def with_ledger(
    terminal: Terminal, act: Callable[[CliContext], Awaitable[T]], *, waits: bool = True
) -> T:
    """Run one call on the ledger and return its result.

    The first call of a command opens the ledger, and it stays open until the command ends. A
    command that reads no session need not wait for a turn that is still being imported.
    """
    context = click.get_current_context(silent=True)
    if context is None:
        with closing(HeldLedger()) as held:
            return held.run(terminal, act, waits=waits)
    root = context.find_root()
    if __name__ not in root.meta:
        root.meta[__name__] = HeldLedger()
        root.call_on_close(root.meta[__name__].close)
    ledger: HeldLedger = root.meta[__name__]
    return ledger.run(terminal, act, waits=waits)


class HeldLedger:
    """A ledger that stays open between the calls of one command."""

    def __init__(self) -> None:
        """Open nothing yet."""
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._database: Database | None = None

    def run(
        self, terminal: Terminal, act: Callable[[CliContext], Awaitable[T]], *, waits: bool
    ) -> T:
        """Run one call; the current session is resolved again each time."""
        return self._runner.run(self._act(terminal, act, waits=waits))

    def close(self) -> None:
        """Close the ledger, if it was opened."""
        with self._runner:
            self._runner.run(self._stack.aclose())

    async def _act(
        self, terminal: Terminal, act: Callable[[CliContext], Awaitable[T]], *, waits: bool
    ) -> T:
        settings, world = load_settings(), SystemClock()
        if self._database is None:
            opening = connect(settings, world, report=terminal.note, is_brief=True)
            self._database = await self._stack.enter_async_context(opening)
        async with _open_on(self._database, settings, terminal, world, waits=waits) as opened:
            return await act(opened)


@asynccontextmanager
async def open_ledger(
    terminal: Terminal,
    *,
    tools: Sequence[object] = (),
    lent: Path | None = None,
) -> AsyncGenerator[CliContext, None]:
    """Open the ledger with a connection pool and the tools that models may call.

    Programs work in the folder where the command runs, or in ``lent``, which programs of other
    users may use too.
    """
    settings, world = load_settings(), SystemClock()
    async with (
        connect(settings, world, report=terminal.note) as database,
        _open_on(database, settings, terminal, world, tools=tools, lent=lent) as opened,
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
) -> AsyncGenerator[CliContext, None]:
    """Yield a command's context; with ``waits``, after importing a turn that has just ended."""
    if waits and _has_unread(settings.home / SPOOL):
        from turntree.cli.hook_wait import wait_for_hooks
        from turntree.hooks.spool import Spool

        await wait_for_hooks(Spool(settings.home / SPOOL), terminal)
    here = workplace_in(lent or Path(), settings.home, terminal.note, is_lent=lent is not None)
    engine = engine_on(database)

    def run() -> "WorkerRuntime":
        plain = tree_on(database, settings, world, workplace=here, engine=engine)
        return run_on(database, plain, settings, world, engine, tools)

    runtime = LazyRuntime(run)

    def open_tree() -> Tree:
        return tree_on(database, settings, world, workplace=here, engine=engine, runtime=runtime)

    tree = open_tree()
    seen = database.seen_by(sight_of(tree.sessions.by))
    if settings.session is None:
        imports = imports_on(seen)
        settings = replace(settings, session=await _likely_session(tree, imports, Path.cwd()))
        tree = open_tree()
    try:
        yield CliContext(tree, runtime, seen, settings, world.now())
    finally:
        await runtime.aclose()
        await engine.close()


def _has_unread(spool: Path) -> bool:
    """Whether the spool has unread events, checked without loading what reads them."""
    try:
        return any(path.suffix in {".raw", ".event"} for path in spool.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False


async def _likely_session(tree: Tree, imports: "ImportStore", here: Path) -> str | None:
    """Return the default session: the last that worked here, main, or the only one."""
    if (found := await _last_session_in(tree, here)) is not None:
        return found
    if (id := await imports.find_last_in(str(here))) is not None:
        return (await tree.sessions.ledger.get(id)).label
    if await tree.sessions.ledger.find(SESSION_DEFAULT) is not None:
        return SESSION_DEFAULT
    first = await tree.sessions.ledger.list_page(limit=2)
    return first[0].label if len(first) == 1 else None


async def _last_session_in(tree: Tree, here: Path) -> str | None:
    folders = [str(folder) for folder in (here, *here.parents)]
    found = await tree.resources.find_last_holder("directory", folders)
    return None if found is None else (await tree.sessions.ledger.get(found)).label
