"""Opening the ledger for one command.

Knows settings and how a current session is chosen when nobody chose one. A turn that has just ended
comes in first, so that ``HEAD`` is where its agent left it. Must never print data.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

import anyio

from turntree.adapters.hooks.spool import FOLDER, Spool
from turntree.adapters.worlds.system import SystemWorld
from turntree.boot import Settings, connect, engine_on, imports_on, run_on, tree_on, workplace_in
from turntree.cli.settings import merged_environment
from turntree.cli.unread import wait_for_hooks
from turntree.cli.verb import Terminal
from turntree.domain.ids import Instant
from turntree.domain.session import Session
from turntree.domain.value import value
from turntree.ports.imports import Imports
from turntree.ports.sight import sight_of
from turntree.running import Running
from turntree.runtime.tree import Tree
from turntree.store.database import Database

T = TypeVar("T")
SESSION_DEFAULT: Final = "main"


@value
class Opened:
    """The ledger, open for one command."""

    running: Running
    database: Database
    settings: Settings
    now: Instant

    @property
    def tree(self) -> Tree:
        """What the command works on."""
        return self.running.tree

    @property
    def current(self) -> str | None:
        """The session that ``HEAD`` stands for; it may not exist."""
        return self.settings.session

    async def find_current(self) -> Session | None:
        """Return the current session, or None if there is none."""
        name = self.settings.session
        return None if name is None else await self.tree.sessions.ledger.find(name)


def load_settings() -> Settings:
    """Return the settings that the environment, the file and ``.turntree`` add up to."""
    return Settings.from_environment(merged_environment())


def with_ledger(
    terminal: Terminal, act: Callable[[Opened], Awaitable[T]], *, waits: bool = True
) -> T:
    """Open the ledger, do one thing with it and return what it gave.

    What reads no session need not wait for a turn that is on its way in.
    """

    async def opened() -> T:
        async with open_ledger(terminal, waits=waits) as found:
            return await act(found)

    return anyio.run(opened)


@asynccontextmanager
async def open_ledger(
    terminal: Terminal,
    *,
    tools: Sequence[object] = (),
    waits: bool = False,
    lent: Path | None = None,
) -> AsyncGenerator[Opened, None]:
    """Open the ledger, with tools that models may call; nobody answers yet.

    Whoever ``waits`` finds a turn in it that has just ended. Programs work in the folder that is
    ``lent`` to those of others too, else in the one where the command runs.
    """
    settings, world = load_settings(), SystemWorld()
    async with connect(settings, world, report=terminal.note) as database:
        if waits:
            await wait_for_hooks(Spool(settings.home / FOLDER), terminal)
        here = workplace_in(lent or Path(), settings.home, terminal.note, is_lent=lent is not None)
        engine = engine_on(database)
        tree = tree_on(database, settings, world, workplace=here, engine=engine)
        seen = database.seen_by(sight_of(tree.sessions.by))
        if settings.session is None:
            imports = imports_on(seen)
            settings = replace(settings, session=await _likely_session(tree, imports, Path.cwd()))
            tree = tree_on(database, settings, world, workplace=here, engine=engine)
        running = run_on(database, tree, settings, world, engine, tools)
        try:
            yield Opened(running, seen, settings, world.now())
        finally:
            await running.aclose()


async def _likely_session(tree: Tree, imports: Imports, here: Path) -> str | None:
    """Return the session nobody has to choose: the last that worked here, main, or the only one."""
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
