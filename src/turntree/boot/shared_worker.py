"""Wire one worker for several workspaces of a database.

Each workspace gets its own tree and runtime, made when it has work. Connections, tools and the
engine's queue are shared.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from turntree.boot.open import Settings, tree_on
from turntree.boot.worker import (
    AT_ONCE,
    DRAIN_S,
    WorkerRuntime,
    make_worker_name,
    running_on,
    start_serving,
)
from turntree.core.errors import NotFound
from turntree.core.ids import SessionId, WorkspaceId
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database
from turntree.runs.engines.lazy import LazyEngine
from turntree.runs.shared_worker import SharedWorker, WorkspaceLoop
from turntree.runs.worker_store import EVERY_WORKSPACE, WorkerStore

HAND_ON_S: Final = 0.3
"""After this time a wake-up that reached the wrong worker is tried again."""
LIBRARIES_WORKSPACES_MAX: Final = 16
"""Workspaces whose models' libraries are loaded before anything is claimed."""


@value
class SharedService:
    """What a worker serves."""

    worker: str
    workspaces: tuple[str, ...]
    """Their names when it began."""
    is_all: bool
    """Whether it serves every workspace of the database, also those that are created later."""


@asynccontextmanager
async def serve_workspaces(
    own: WorkerRuntime,
    settings: Settings,
    *,
    only: Sequence[str] = (),
    name: str | None = None,
    at_once: int = AT_ONCE,
    drain_s: float = DRAIN_S,
) -> AsyncGenerator[SharedService, None]:
    """Serve the workspaces of a runtime's database while the block lasts: all, or some by name.

    Running turns may finish afterwards. Tasks that no process follows are completed too. An idle
    worker costs about the same for one workspace and for many.

    Raises:
        NotFound: There is no workspace of that name.
        Conflict: A worker of that name is already running.
        InvalidOperation: DBOS is not installed, or the settings of mail are invalid.
    """
    called = name or make_worker_name(own.parts.host)
    served = _Workspaces(own, settings, called)
    known = await served.read_names()
    if missing := [one for one in only if one not in known.values()]:
        there = ", ".join(known.values())
        raise NotFound(f"there is no workspace {missing[0]!r}; there are: {there}")
    if only:
        served.chosen = frozenset(id for id, one in known.items() if one in only)
    registrations = {
        id: WorkerStore(*served.place(id)) for id in served.chosen or (EVERY_WORKSPACE,)
    }
    served.registrations = registrations
    worker = SharedWorker(
        called,
        own.parts.engine,
        [*registrations.values()],
        served.list_ids,
        served.open,
        served.hand_on,
        own.parts.world,
        at_once=at_once,
        grace_s=drain_s,
    )
    names = tuple(one for id, one in known.items() if served.serves(id))
    try:
        await served.load_libraries()
        sends = own.parts.delivering([*served.chosen] if served.chosen else None, served.place)
        task = await start_serving(worker.serve)
        try:
            async with sends:
                yield SharedService(called, names, is_all=served.chosen is None)
        finally:
            worker.drain()
            await task
    finally:
        await served.aclose()


@dataclass(slots=True)
class _Workspaces:
    """The runtimes of the workspaces that this process serves."""

    own: WorkerRuntime
    settings: Settings
    worker: str
    chosen: frozenset[WorkspaceId] | None = None
    """None serves all."""
    registrations: dict[WorkspaceId, WorkerStore] = field(
        default_factory=dict[WorkspaceId, WorkerStore]
    )
    _names: dict[WorkspaceId, str] = field(default_factory=dict[WorkspaceId, str])
    _runtimes: dict[WorkspaceId, WorkerRuntime] = field(
        default_factory=dict[WorkspaceId, WorkerRuntime]
    )

    def serves(self, workspace: WorkspaceId) -> bool:
        """Whether a workspace is one of those that were chosen."""
        return self.chosen is None or workspace in self.chosen

    async def read_names(self) -> dict[WorkspaceId, str]:
        """Return the names of all workspaces there are now."""
        rows, shard = await self.own.parts.database.list_workspaces(), self.settings.shard
        self._names = {
            WorkspaceId(id): name for id, name in rows if shard is None or shard.holds(id, name)
        }
        return self._names

    async def list_ids(self) -> list[WorkspaceId]:
        """Return the workspaces that are served."""
        return [one for one in await self.read_names() if self.serves(one)]

    def place(self, workspace: WorkspaceId) -> tuple[Database, LazyEngine]:
        """Return a workspace's database, with nothing hidden, and its engine."""
        parts = self.own.parts
        database = parts.database.in_workspace(workspace)
        assert parts.engine.outbox is not None, "a worker sends as well"
        outbox = replace(parts.engine.outbox, database=database)
        engine = parts.engine.in_workspace(workspace, database.lend, outbox)
        return database.seen_by(EVERYTHING), engine

    async def open(self, workspace: WorkspaceId) -> WorkspaceLoop | None:
        """Return what the worker needs in a workspace; None if it is not served."""
        runtime = await self._find_runtime(workspace)
        if runtime is None:
            return None
        key = EVERY_WORKSPACE if self.chosen is None else workspace
        return runtime.join(self.worker, self.registrations[key])

    async def hand_on(self, workspace: WorkspaceId, session: SessionId, number: int) -> None:
        """Wake a session of another worker's workspace once more.

        Without such a worker the wake-up is dropped: the next one finds the session awake.
        """
        if self.chosen is None:
            return  # The workspace is gone: there is no other one that this process does not serve.
        store = WorkerStore(*self.place(workspace))
        if await store.list_workers():
            await store.hand_on(session, number, delay_s=HAND_ON_S)

    async def load_libraries(self) -> None:
        """Import the libraries of the models that can be asked, before anything is claimed."""
        for workspace in (await self.list_ids())[:LIBRARIES_WORKSPACES_MAX]:
            if (runtime := await self._find_runtime(workspace)) is not None:
                await runtime.load_libraries()

    async def aclose(self) -> None:
        """Close what was made for the workspaces."""
        for runtime in self._runtimes.values():
            await asyncio.shield(runtime.aclose())

    async def _find_runtime(self, workspace: WorkspaceId) -> WorkerRuntime | None:
        if not self.serves(workspace):
            return None
        if workspace not in self._names and workspace not in await self.read_names():
            return None
        if workspace == str(self.own.parts.database.workspace):
            return self.own
        if workspace not in self._runtimes:
            self._runtimes[workspace] = self._make_runtime(workspace)
        return self._runtimes[workspace]

    def _make_runtime(self, workspace: WorkspaceId) -> WorkerRuntime:
        parts, own = self.own.parts, self.own.tree
        database, engine = self.place(workspace)
        settings = self.settings.in_workspace(self._names[workspace])
        tree = tree_on(
            database, settings, parts.world, workplace=own.programs.workplace, engine=engine,
            find_hub=lambda: own.runs.hub,
        )  # fmt: skip
        return running_on(tree, replace(parts, database=database, engine=engine))
