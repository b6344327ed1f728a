"""Workers on PostgreSQL: leases, heartbeats and the recovery of orphaned sessions.

A session-level advisory lock proves that a worker is alive: the server releases it when the
connection ends, for whatever reason. Heartbeats use the same connection, so a worker that sends one
still holds the lock. Must never know what workers do.
"""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from uuid import UUID

import anyio

from turntree.core.errors import Conflict, DatabaseUnavailable
from turntree.core.ids import RunId, SessionId, WorkspaceId
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.arrays import text_array
from turntree.db.database import (
    Connection,
    Database,
    ErrorTranslator,
    as_uuid,
    as_uuids,
    fetch,
    run,
)
from turntree.db.sql import load_statements
from turntree.runs.engine import Engine
from turntree.runs.inbox import FailedRun, OpenRun

SQL = load_statements(__file__)

EVERY_WORKSPACE = WorkspaceId("00000000-0000-0000-0000-000000000000")
"""The store of this workspace, which does not exist, registers workers that serve all of them."""
UNATTENDED_MAX = 1000
"""Sessions checked at a time, oldest first."""


@value
class WorkCounts:
    """What waits and what runs in all workspaces of a database."""

    waiting: int
    """Messages that no run has started with."""
    oldest_s: float
    """How long the oldest of them has waited."""
    open: int
    parked: int


async def count_work(database: Database) -> WorkCounts:
    """Return what waits and what runs in a database, of all workspaces together."""
    ((waiting, oldest_s, open, parked),) = await database.seen_by(EVERYTHING).fetch(
        SQL["count_work"]
    )
    return WorkCounts(waiting, oldest_s or 0.0, open, parked)


@dataclass(slots=True)
class _Lease:
    connection: Connection
    stack: AsyncExitStack


@value
class WorkerStore:
    """Live and dead workers, and sessions that no worker serves."""

    database: Database
    engine: Engine
    _leases: dict[str, _Lease] = field(default_factory=dict[str, _Lease])

    @property
    def is_shared(self) -> bool:
        """Whether the workers that are registered here serve all workspaces."""
        return str(self.database.workspace) == EVERY_WORKSPACE

    async def lease(self, worker: str) -> None:
        """Register a worker; it holds its name until ``leave``, or until this connection ends.

        Raises:
            Conflict: A worker of that name is already running.
        """
        async with AsyncExitStack() as stack:
            connection = await stack.enter_async_context(self.database.acting_as("turntree_app"))
            scope = {"workspace": self.database.workspace, "worker": worker}
            ((is_held,),) = await fetch(connection, SQL["lock_worker"], **scope)
            if not is_held:
                raise Conflict(f"a worker named {worker} is already running")
            statement = "register_shared_worker" if self.is_shared else "register_worker"
            await run(connection, SQL[statement], scope)
            self._leases[worker] = _Lease(connection, stack.pop_all())

    async def beat(self, worker: str) -> list[RunId]:
        """Record a heartbeat; return the worker's runs that were canceled."""
        lease = self._leases.get(worker)
        if lease is None:
            # The connection broke, and the lock went with it. Another worker may have the name now.
            await self.lease(worker)
            lease = self._leases[worker]
        scope = {"workspace": self.database.workspace, "worker": worker}
        statement = "heartbeat_shared_worker" if self.is_shared else "heartbeat_worker"
        try:
            async with ErrorTranslator():
                rows = await fetch(lease.connection, SQL[statement], **scope)
        except (DatabaseUnavailable, asyncio.CancelledError):
            # The connection's state is unknown, so the next heartbeat opens a new one.
            await self._drop(worker)
            raise
        return [RunId(id) for (id,) in rows]

    async def leave(self, worker: str) -> None:
        """Release the name."""
        try:
            await self.bury([worker])
            if (lease := self._leases.get(worker)) is not None and not lease.connection.closed:
                # A server may notice late that a connection has ended, so unlock explicitly.
                scope = {"workspace": self.database.workspace, "worker": worker}
                async with ErrorTranslator():
                    await fetch(lease.connection, SQL["unlock_worker"], **scope)
        finally:
            await self._drop(worker)

    async def list_dead(self, *, silent_s: float) -> list[str]:
        """Return workers whose lease is free, or without a heartbeat for ``silent_s``."""
        rows = await self.database.fetch(SQL["list_expired_workers"], silent_s=silent_s)
        return [name for (name,) in rows]

    async def bury(self, workers: Sequence[str]) -> None:
        """Delete workers whose sessions were woken up again."""
        await self.database.run(SQL["delete_workers"], workers=text_array(workers))

    async def wake_stuck(self, *, silent_s: float, idle_s: float | None = None) -> int:
        """Wake sessions again that are marked awake but have no live worker; return how many.

        A worker without a heartbeat for ``silent_s`` counts as dead. ``idle_s`` is how long a
        session may be awake before a worker claims it; by default the same.
        """
        rows = await self.database.fetch(
            SQL["list_orphaned_queues"],
            silent_s=silent_s,
            idle_s=silent_s if idle_s is None else idle_s,
            mine=text_array([*self._leases]),
            limit=UNATTENDED_MAX,
        )
        # Requeue what dead workers had claimed first: a session with a live wake-up needs no new
        # one.
        await self.engine.recover(sorted({worker for *_, worker, is_orphan in rows if is_orphan}))
        wakes = {(SessionId(session), number): worker for session, number, worker, _ in rows}
        live = await self.engine.list_live([*wakes])
        left = [(wake, worker) for wake, worker in wakes.items() if wake not in live]
        return sum([await self._wake_again(*wake, worker) for wake, worker in left])

    def in_workspace(self, database: Database, engine: Engine) -> "WorkerStore":
        """Return the store of another workspace, for the workers that are registered here."""
        return replace(self, database=database, engine=engine)

    async def hand_on(self, session: SessionId, number: int, *, delay_s: float) -> bool:
        """Wake a session again a little later, unless a worker has claimed it; return whether.

        For a worker that got a wake-up of a session that it does not serve.
        """
        return await self._wake_again(session, number, None, delay_s=delay_s)

    async def list_canceled(self, worker: str) -> list[RunId]:
        """Return the runs of a worker that were canceled and are not finished."""
        rows = await self.database.fetch(SQL["list_canceled_runs"], worker=worker)
        return [RunId(id) for (id,) in rows]

    async def list_workers(self) -> list[str]:
        """Return the names of live workers, those that serve all workspaces included."""
        return [name for (name,) in await self.database.fetch(SQL["list_workers"])]

    async def list_open(
        self,
        session: SessionId | None = None,
        *,
        after: OpenRun | None = None,
        limit: int | None = None,
    ) -> list[OpenRun]:
        """Return runs that are open or parked, oldest first: all, or a page after another run."""
        rows = await self.database.fetch(
            SQL["list_open_runs"],
            session=as_uuid(session),
            after=None if after is None else UUID(after.run),
            after_at=None if after is None else after.started_at,
            limit=limit,
        )
        return [OpenRun(*row) for row in rows]

    async def list_failed(self, session: SessionId | None = None, *, last: int) -> list[FailedRun]:
        """Return which of the last messages to a session could not be answered, oldest first.

        Without one it is which of the last runs failed, in any active session that has not moved
        since.
        """
        if session is None:
            rows = await self.database.fetch(SQL["list_unanswered_runs"], last=last)
        else:
            rows = await self.database.fetch(
                SQL["list_failed_runs"], session=as_uuid(session), last=last
            )
        return [FailedRun(*row) for row in rows]

    async def list_reasons(self, runs: Sequence[RunId]) -> dict[RunId, str]:
        """Return why some runs failed; one whose journal does not say it is absent."""
        if not runs:
            return {}
        rows = await self.database.fetch(SQL["list_failure_reasons"], runs=as_uuids(runs))
        return {RunId(run): reason for run, reason in rows if reason}

    async def _wake_again(
        self, session: SessionId, wakes: int, worker: str | None, *, delay_s: float = 0.0
    ) -> bool:
        async with self.engine.transaction() as transaction:
            async with self.database.borrow(transaction.driver) as connection:
                scope = {"workspace": self.database.workspace, "session": as_uuid(session)}
                found = await fetch(
                    connection, SQL["requeue_wakeup"], **scope, wakes=wakes, worker=worker
                )
            if not found:
                return False
            ((number,),) = found
            await transaction.wake(session, number, delay_s=delay_s)
        return True

    async def _drop(self, worker: str) -> None:
        lease = self._leases.pop(worker, None)
        if lease is not None:
            with anyio.CancelScope(shield=True):
                # Close without a clean goodbye: the connection may be in the middle of a statement.
                await lease.connection.close()
                await lease.stack.aclose()
