"""Opening the ledger for one command.

Knows settings and how a current session is chosen when nobody chose one. Must never print data.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import anyio

from turntree.adapters.worlds.system import SystemWorld
from turntree.boot import Settings, connect, tree_on
from turntree.cli.settings import merged_environment
from turntree.cli.verb import Terminal
from turntree.domain.ids import Instant
from turntree.domain.session import Session
from turntree.runtime.tree import Tree
from turntree.store.database import Database

T = TypeVar("T")
SESSION_DEFAULT: Final = "main"


@dataclass(frozen=True, slots=True)
class Opened:
    """The ledger, open for one command."""

    tree: Tree
    database: Database
    settings: Settings
    now: Instant

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


def with_ledger(terminal: Terminal, act: Callable[[Opened], Awaitable[T]]) -> T:
    """Open the ledger, do one thing with it and return what it gave."""

    async def opened() -> T:
        settings, world = load_settings(), SystemWorld()
        async with connect(settings, world, report=terminal.note) as database:
            tree = tree_on(database, settings, world)
            if settings.session is None:
                settings = replace(settings, session=await _only_session(tree))
                tree = tree_on(database, settings, world)
            return await act(Opened(tree, database, settings, world.now()))

    return anyio.run(opened)


async def _only_session(tree: Tree) -> str | None:
    """Return the session nobody has to choose: the one called main, or the only one."""
    if await tree.sessions.ledger.find(SESSION_DEFAULT) is not None:
        return SESSION_DEFAULT
    first = await tree.sessions.ledger.list_page(limit=2)
    return first[0].label if len(first) == 1 else None
