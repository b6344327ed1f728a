"""Opening the ledger for one command.

Knows settings and how a current session is chosen when nobody chose one. A turn that has just ended
comes in first, so that ``HEAD`` is where its agent left it. Must never print data.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from turntree.adapters.worlds.system import SystemWorld
from turntree.boot import (
    Answering,
    Settings,
    connect,
    engine_on,
    imports_on,
    run_on,
    tree_on,
    workplace_in,
)
from turntree.cli.hook_entry import SPOOL
from turntree.cli.settings import merged_environment
from turntree.cli.verb import Terminal
from turntree.domain.ids import Instant
from turntree.domain.session import Session
from turntree.domain.value import value
from turntree.ports.sight import sight_of
from turntree.runtime.tree import Tree

if TYPE_CHECKING:
    from turntree.ports.imports import Imports
    from turntree.running import Running
    from turntree.store.database import Database

T = TypeVar("T")
SESSION_DEFAULT: Final = "main"


@value
class Opened:
    """The ledger, open for one command."""

    tree: Tree
    answering: Answering
    database: "Database"
    settings: Settings
    now: Instant

    @property
    def running(self) -> "Running":
        """What takes turns, loaded when it is first asked for."""
        return self.answering.running

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
        async with open_ledger(terminal, waits=waits, is_brief=True) as found:
            return await act(found)

    return asyncio.run(opened())


@asynccontextmanager
async def open_ledger(
    terminal: Terminal,
    *,
    tools: Sequence[object] = (),
    waits: bool = False,
    lent: Path | None = None,
    is_brief: bool = False,
) -> AsyncGenerator[Opened, None]:
    """Open the ledger, with tools that models may call; nobody answers yet.

    Whoever ``waits`` finds a turn in it that has just ended. Programs work in the folder that is
    ``lent`` to those of others too, else in the one where the command runs. Whoever ``is_brief``
    gets a single connection and no pool.
    """
    settings, world = load_settings(), SystemWorld()
    async with connect(settings, world, report=terminal.note, is_brief=is_brief) as database:
        if waits and _has_unread(settings.home / SPOOL):
            from turntree.adapters.hooks.spool import Spool
            from turntree.cli.unread import wait_for_hooks

            await wait_for_hooks(Spool(settings.home / SPOOL), terminal)
        here = workplace_in(lent or Path(), settings.home, terminal.note, is_lent=lent is not None)
        engine = engine_on(database)

        def run() -> "Running":
            plain = tree_on(database, settings, world, workplace=here, engine=engine)
            return run_on(database, plain, settings, world, engine, tools)

        answering = Answering(run)

        def open_tree() -> Tree:
            return tree_on(
                database, settings, world, workplace=here, engine=engine, answering=answering
            )

        tree = open_tree()
        seen = database.seen_by(sight_of(tree.sessions.by))
        if settings.session is None:
            imports = imports_on(seen)
            settings = replace(settings, session=await _likely_session(tree, imports, Path.cwd()))
            tree = open_tree()
        try:
            yield Opened(tree, answering, seen, settings, world.now())
        finally:
            await answering.aclose()
            await engine.close()


def _has_unread(spool: Path) -> bool:
    """Say whether hooks have told anything that was not read yet, without loading what reads it."""
    try:
        return any(path.suffix in {".said", ".sighting"} for path in spool.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return False


async def _likely_session(tree: Tree, imports: "Imports", here: Path) -> str | None:
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
