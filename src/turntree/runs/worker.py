"""A worker: serves the sessions that the engine wakes, and recovers those of dead workers.

It registers before it claims anything, so that its death cannot go unnoticed. Heartbeats run on the
same event loop as the work: a worker that hangs stops sending them and counts as dead. A worker
that drains hands its unfinished work over at once.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from turntree.core.clock import Clock
from turntree.core.errors import DatabaseUnavailable, TurntreeError, first_of
from turntree.core.ids import instant, unix_ms
from turntree.runs.engine import Engine
from turntree.runs.session_loop import SessionLoop
from turntree.runs.worker_store import WorkerStore

# A canceled run stops at the next beat, so a person feels this number.
BEAT_S = 0.5
SWEEP_S = 1.0
# Forty beats. A shorter silence happens on a busy machine, and taking over a run that is alive
# would call its model twice.
SILENT_S = 20.0
GRACE_S = 30.0
RETRY_S = 0.25
SESSIONS_AT_ONCE = 64
STUCK_SWEEPS = 5
"""Look for sessions without a live worker in every fifth sweep, even if no worker died."""
PRUNE_SWEEPS = 600
KEPT_MS = 24 * 60 * 60 * 1000
"""How long handled wake-ups are kept."""
_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Worker:
    """Serves wake-ups under a unique name until it is drained."""

    engine: Engine
    workers: WorkerStore
    actor: SessionLoop
    world: Clock
    at_once: int = SESSIONS_AT_ONCE
    beat_s: float = BEAT_S
    sweep_s: float = SWEEP_S
    silent_s: float = SILENT_S
    grace_s: float = GRACE_S
    _leaving: anyio.Event = field(default_factory=anyio.Event)

    @property
    def name(self) -> str:
        """The name it registers under."""
        return self.actor.worker

    def drain(self) -> None:
        """Claim no more work; finish what is in progress or, after ``grace_s``, hand it over."""
        self._leaving.set()

    async def serve(self, *, ready: Callable[[], None] = lambda: None) -> None:
        """Serve until ``drain`` is called or this is canceled.

        Raises:
            Conflict: A worker of that name is already running.
            DatabaseUnavailable: The database is unreachable at the start.
        """
        await self.workers.lease(self.name)
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(repeat, self._beat, self.beat_s)
                group.start_soon(repeat, self._sweep, self.sweep_s)
                group.start_soon(self._serve, ready)
                await self._leaving.wait()
                with anyio.move_on_after(self.grace_s):
                    await self.engine.stop_taking()
                group.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._hand_over()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        """Serve in the background while the block lasts, and drain at its end.

        Raises:
            Conflict: A worker of that name is already running.
            DatabaseUnavailable: The database is unreachable at the start.
        """
        started = anyio.Event()
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._announced, started)
                await started.wait()
                yield
                self.drain()
        except BaseExceptionGroup as errors:
            raise first_of(errors) from errors

    async def _announced(self, started: anyio.Event) -> None:
        try:
            await self.serve(ready=started.set)
        finally:
            started.set()

    async def _serve(self, ready: Callable[[], None]) -> None:
        while not self._leaving.is_set():
            try:
                await self.engine.serve(
                    self.name, self.actor.handle, at_once=self.at_once, ready=ready
                )
            except DatabaseUnavailable as error:
                # The embedded server may be restarting. Ending the worker would need a person to
                # start it again.
                _LOG.warning("engine unreachable: %s", error)
                await anyio.sleep(RETRY_S)

    async def _beat(self, number: int) -> None:
        del number
        for run in await self.workers.beat(self.name):
            self.actor.cancel(run)

    async def _sweep(self, number: int) -> None:
        dead = [
            name
            for name in await self.workers.list_dead(silent_s=self.silent_s)
            if name != self.name
        ]
        if dead:
            _LOG.warning("dead workers: %s", ", ".join(dead))
            await self.engine.recover(dead)
        if dead or number % STUCK_SWEEPS == 0:
            await self.workers.wake_stuck(silent_s=self.silent_s)
        if dead:
            await self.workers.bury(dead)
        if number % PRUNE_SWEEPS == 0:
            before = unix_ms(self.world.now()) - KEPT_MS
            await self.engine.prune(before=instant(before))

    async def _hand_over(self) -> None:
        """Release the name, and wake unfinished sessions on other workers now."""
        try:
            await self.workers.leave(self.name)
            await self.engine.recover([self.name])
            await self.workers.wake_stuck(silent_s=self.silent_s)
        except TurntreeError as error:
            # The other workers find its sessions in their next sweep.
            _LOG.warning("worker left without a handover: %s", error)


async def repeat(act: Callable[[int], Coroutine[object, object, None]], every_s: float) -> None:
    """Call ``act`` with the number of the round every ``every_s`` seconds; errors are logged."""
    number = 0
    while True:
        number += 1
        try:
            await act(number)
        except TurntreeError as error:
            _LOG.warning("%s: %s", type(error).__name__, error)
        except Exception:
            # A worker without its heartbeat would be taken for dead, and its runs taken over,
            # while it is still working on them.
            _LOG.exception("unexpected error")
        await anyio.sleep(every_s)
