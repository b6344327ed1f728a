"""A worker for several workspaces of a database, under one name.

It holds one registration for all workspaces, or one in each that was named. One loop sends the
heartbeats, one looks after a few workspaces at a time, and the engine has one queue: an idle one
costs about as much as the worker of a single workspace, however many there are. What it needs for a
workspace is made when the first wake-up from there arrives.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import anyio
from anyio.abc import TaskGroup

from turntree.core.clock import Clock
from turntree.core.errors import DatabaseUnavailable, TurntreeError
from turntree.core.ids import SessionId, WorkspaceId, instant, unix_ms
from turntree.core.value import value
from turntree.runs.engine import SharedEngine
from turntree.runs.session_loop import SessionLoop
from turntree.runs.worker import (
    BEAT_S,
    GRACE_S,
    KEPT_MS,
    PRUNE_SWEEPS,
    RETRY_S,
    SESSIONS_AT_ONCE,
    SILENT_S,
    SWEEP_S,
    repeat,
)
from turntree.runs.worker_store import WorkerStore

LOOKS_PER_SWEEP = 4
"""Workspaces that are looked after in one sweep, in turn: the cost does not grow with their number,
only the time until a lost wake-up is found."""
STUCK_S = 5.0
"""Look for sessions without a live worker in a workspace at most this often."""
_LOG = logging.getLogger(__name__)


@value
class WorkspaceLoop:
    """What a worker needs in one workspace."""

    actor: SessionLoop
    workers: WorkerStore
    take_tasks: Callable[[TaskGroup], Awaitable[None]]
    """Drives started tasks that no process follows, in the background."""


@dataclass(slots=True)
class SharedWorker:
    """Serves the wake-ups of several workspaces until it is drained."""

    name: str
    engine: SharedEngine
    registrations: Sequence[WorkerStore]
    """Where it is registered: once for all workspaces, or in each that it serves."""
    list_workspaces: Callable[[], Awaitable[Sequence[WorkspaceId]]]
    """Returns the workspaces that it serves now; new ones may come."""
    open_workspace: Callable[[WorkspaceId], Awaitable[WorkspaceLoop | None]]
    """Returns what is needed in a workspace; None if it is not served here."""
    hand_on: Callable[[WorkspaceId, SessionId, int], Awaitable[None]]
    """Called for a wake-up of a workspace that is not served here."""
    world: Clock
    at_once: int = SESSIONS_AT_ONCE
    beat_s: float = BEAT_S
    sweep_s: float = SWEEP_S
    silent_s: float = SILENT_S
    grace_s: float = GRACE_S
    _leaving: anyio.Event = field(default_factory=anyio.Event)
    _opening: anyio.Lock = field(default_factory=anyio.Lock)
    _served: dict[WorkspaceId, WorkspaceLoop] = field(
        default_factory=dict[WorkspaceId, WorkspaceLoop]
    )
    _turn: list[WorkspaceId] = field(default_factory=list[WorkspaceId])
    """Workspaces that are still to be looked after in this round."""
    _looked_at: dict[WorkspaceId, float] = field(default_factory=dict[WorkspaceId, float])

    def drain(self) -> None:
        """Claim no more work; finish what is in progress or, after ``grace_s``, hand it over."""
        self._leaving.set()

    async def serve(self, *, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until ``drain`` is called or this is canceled.

        Raises:
            Conflict: A worker of that name is already running.
            DatabaseUnavailable: The database is unreachable at the start.
        """
        await self._register()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(repeat, self._beat, self.beat_s)
                group.start_soon(repeat, partial(self._sweep, group), self.sweep_s)
                group.start_soon(self._serve, ready)
                await self._leaving.wait()
                with anyio.move_on_after(self.grace_s):
                    await self.engine.stop_taking()
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._hand_over()

    async def handle(self, workspace: WorkspaceId, session: SessionId, number: int) -> None:
        """Process a session of any workspace.

        Raises:
            DatabaseUnavailable: The database is unreachable; handle the wake-up again.
        """
        served = await self._find(workspace)
        if served is None:
            await self.hand_on(workspace, session, number)
        else:
            await served.actor.handle(session)

    async def _register(self) -> None:
        registered: list[WorkerStore] = []
        try:
            for registration in self.registrations:
                await registration.lease(self.name)
                registered.append(registration)
        finally:
            if len(registered) < len(self.registrations):
                for registration in registered:
                    await registration.leave(self.name)

    async def _serve(self, ready: Callable[[], None]) -> None:
        while not self._leaving.is_set():
            try:
                await self.engine.serve_all(
                    self.name, self.handle, at_once=self.at_once, ready=ready
                )
            except DatabaseUnavailable as error:
                # As with the worker of one workspace: it waits for the database to come back.
                _LOG.warning("engine unreachable: %s", error)
                await anyio.sleep(RETRY_S)

    async def _find(self, workspace: WorkspaceId) -> WorkspaceLoop | None:
        if workspace not in self._served:
            async with self._opening:
                if workspace not in self._served:
                    opened = await self.open_workspace(workspace)
                    if opened is None:
                        return None
                    self._served[workspace] = opened
        return self._served[workspace]

    async def _beat(self, number: int) -> None:
        del number
        for registration in self.registrations:
            await registration.beat(self.name)
        # Only where something runs can something have been canceled.
        for served in [one for one in self._served.values() if one.actor.busy]:
            for run in await served.workers.list_canceled(self.name):
                served.actor.cancel(run)

    async def _sweep(self, group: TaskGroup, number: int) -> None:
        dead = await self._list_dead()
        if dead:
            _LOG.warning("dead workers: %s", ", ".join(dead))
            await self.engine.recover(dead)
            # They may have left sessions in every workspace.
            self._turn, self._looked_at = [*await self.list_workspaces()], {}
        elif not self._turn:
            self._turn = [*await self.list_workspaces()]
        count = len(self._turn) if dead else LOOKS_PER_SWEEP
        due, self._turn = self._turn[:count], self._turn[count:]
        for workspace in due:
            await self._look_after(workspace, group)
        if dead:
            for registration in self.registrations:
                await registration.bury(dead)
        if number % PRUNE_SWEEPS == 0:
            before = instant(unix_ms(self.world.now()) - KEPT_MS)
            for served in [*self._served.values()]:
                await served.workers.engine.prune(before=before)

    async def _list_dead(self) -> list[str]:
        dead: set[str] = set()
        for registration in self.registrations:
            dead.update(await registration.list_dead(silent_s=self.silent_s))
        return sorted(dead - {self.name})

    async def _look_after(self, workspace: WorkspaceId, group: TaskGroup) -> None:
        served = await self._find(workspace)
        if served is None:
            return
        now, before = anyio.current_time(), self._looked_at.get(workspace)
        if before is None or now - before >= STUCK_S:
            self._looked_at[workspace] = now
            # A worker of this workspace alone is registered there only.
            if dead := [
                name
                for name in await served.workers.list_dead(silent_s=self.silent_s)
                if name != self.name
            ]:
                await self.engine.recover(dead)
            # At first also sessions that wait since a moment ago: while nothing served the
            # workspace, another worker may have dropped their wake-ups.
            idle_s = 0.0 if before is None else None
            await served.workers.wake_stuck(silent_s=self.silent_s, idle_s=idle_s)
            if dead:
                await served.workers.bury(dead)
        await served.take_tasks(group)

    async def _hand_over(self) -> None:
        """Release the name, and wake unfinished sessions on other workers now."""
        try:
            for registration in self.registrations:
                await registration.leave(self.name)
            await self.engine.recover([self.name])
            for served in [*self._served.values()]:
                await served.workers.wake_stuck(silent_s=self.silent_s)
        except TurntreeError as error:
            # The other workers find its sessions in their next sweeps.
            _LOG.warning("worker left without a handover: %s", error)
