"""The workspaces of a ledger, each opened when it is first asked for.

All workspaces of a database share its connections. Each has a tree of its own, from which callers
get theirs: it has the live text of the workspace and the reader of its feed.
"""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from uuid import UUID

from turntree.api import Tree
from turntree.boot.open import Settings, engine_on, tree_on
from turntree.boot.shards import ShardDatabases
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
    """The workspaces of a ledger, in one database or several."""

    own: ServedWorkspace
    """The one that the process was started for."""
    settings: Settings
    clock: Clock
    closing: AsyncExitStack
    """Closes what was opened."""
    shards: ShardDatabases
    _opened: dict[UUID, ServedWorkspace] = field(default_factory=dict[UUID, ServedWorkspace])

    async def find(self, id: UUID) -> ServedWorkspace | None:
        """Return a workspace by its id, or None. The id says in which database to look."""
        if id == self.own.id:
            return self.own
        if (known := self._opened.get(id)) is not None:
            return known
        database = await self.shards.find(str(id))
        name = dict(await _list_names(database)).get(id)
        if name is None or not self.shards.holds(str(id), name):
            return None
        # Another request may have opened it meanwhile.
        if id not in self._opened:
            self._opened[id] = self._open(database, id, name)
        return self._opened[id]

    async def find_named(self, name: str) -> ServedWorkspace | None:
        """Return a workspace by its name, or None. The name says in which database to look."""
        for known in (self.own, *self._opened.values()):
            if known.name == name:
                return known
        for id, called in await _list_names(await self.shards.find_named(name)):
            if called == name:
                return await self.find(id)
        return None

    def _open(self, database: Database, id: UUID, name: str) -> ServedWorkspace:
        database = database.in_workspace(WorkspaceId(str(id)))
        engine = engine_on(database)
        self.closing.push_async_callback(engine.close)
        tree = tree_on(
            database, self.settings.in_workspace(name), self.clock, engine=engine,
            find_hub=lambda: self.own.tree.runs.hub,
        )  # fmt: skip
        return ServedWorkspace(id, name, tree, database)


async def _list_names(database: Database) -> list[tuple[UUID, str]]:
    rows = await database.seen_by(EVERYTHING).list_workspaces()
    return [(UUID(id), name) for id, name in rows]
