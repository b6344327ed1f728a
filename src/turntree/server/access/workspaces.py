"""The workspaces of one database, each opened when it is first asked for.

All of them share the connections of the database. Each has a tree of its own, from which callers
get theirs: it has the live text of the workspace and the reader of its feed.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from uuid import UUID

import anyio

from turntree.api import Tree
from turntree.boot.open import Settings, engine_on, tree_on
from turntree.core.clock import Clock
from turntree.core.ids import WorkspaceId
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database


@value
class ServedWorkspace:
    """A workspace that callers can act in."""

    id: UUID
    name: str
    tree: Tree
    """As the user of the process sees it; callers act on trees that are made from it."""
    database: Database


@dataclass(slots=True, eq=False)
class Workspaces:
    """The workspaces of one database."""

    own: ServedWorkspace
    """The one that the process was started for."""
    settings: Settings
    clock: Clock
    closing: AsyncExitStack
    """Closes what was opened."""
    _opened: dict[UUID, ServedWorkspace] = field(default_factory=dict[UUID, ServedWorkspace])
    _opening: anyio.Lock = field(default_factory=anyio.Lock)

    async def find(self, id: UUID) -> ServedWorkspace | None:
        """Return a workspace by its id, or None."""
        if id == self.own.id:
            return self.own
        if (known := self._opened.get(id)) is not None:
            return known
        async with self._opening:
            names = dict(await self._list_names())
            if id in names and id not in self._opened:
                self._opened[id] = self._open(id, names[id])
        return self._opened.get(id)

    async def find_named(self, name: str) -> ServedWorkspace | None:
        """Return a workspace by its name, or None."""
        for known in (self.own, *self._opened.values()):
            if known.name == name:
                return known
        for id, called in await self._list_names():
            if called == name:
                return await self.find(id)
        return None

    async def _list_names(self) -> list[tuple[UUID, str]]:
        everything = self.own.database.seen_by(EVERYTHING)
        return [(UUID(id), name) for id, name in await everything.list_workspaces()]

    def _open(self, id: UUID, name: str) -> ServedWorkspace:
        database = self.own.database.in_workspace(WorkspaceId(str(id)))
        engine = engine_on(database)
        self.closing.push_async_callback(engine.close)
        settings = replace(self.settings, workspace=name, session=None)
        tree = tree_on(
            database, settings, self.clock, engine=engine, find_hub=lambda: self.own.tree.runs.hub
        )
        return ServedWorkspace(id, name, tree, database)
