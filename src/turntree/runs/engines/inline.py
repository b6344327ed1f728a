"""Wake-ups in memory, for tests and for a process that handles its own messages.

They are lost when the process ends. The next worker finds the affected sessions when it looks for
sessions that are marked awake but have no live worker. Must never know SQL.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

import anyio

from turntree.core.ids import SessionId, Timestamp, unix_ms
from turntree.core.value import value
from turntree.runs.engine import Handle, Wake
from turntree.runs.engines.retry import handle_until_done

Lend = Callable[[], AbstractAsyncContextManager[object]]
"""Opens a transaction of the store and yields the driver's connection."""


@value
class _Transaction:
    driver: object
    owed: list[tuple[Wake, float]] = field(default_factory=list[tuple[Wake, float]])

    async def wake(self, session: SessionId, number: int, *, delay_s: float = 0.0) -> None:
        """Schedule a wake-up that takes effect on commit."""
        self.owed.append(((session, number), delay_s))


@dataclass(slots=True)
class InlineEngine:
    """Wake-ups that last as long as this process. Implements ``Engine``."""

    lend: Lend
    _due: dict[Wake, float] = field(default_factory=dict[Wake, float])
    """Wake-ups that are not claimed yet, and when each is due."""
    _held: dict[Wake, "asyncio.Task[None]"] = field(
        default_factory=dict[Wake, "asyncio.Task[None]"]
    )
    """Wake-ups that are being handled."""
    _handled: dict[Wake, float] = field(default_factory=dict[Wake, float])
    """Wake-ups that were handled, and when: scheduling one again has no effect."""
    _tasks: dict["asyncio.Task[None]", tuple[Wake, str]] = field(
        default_factory=dict["asyncio.Task[None]", tuple[Wake, str]]
    )
    _stirred: asyncio.Event = field(default_factory=asyncio.Event)
    _is_taking: bool = True

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[_Transaction, None]:
        """Open a transaction: committed at the end of the block, rolled back on an error."""
        async with self.lend() as driver:
            transaction = _Transaction(driver)
            yield transaction
        for wake, delay_s in transaction.owed:
            if wake not in self._due and wake not in self._held and wake not in self._handled:
                self._put(wake, delay_s)

    async def serve(
        self, worker: str, handle: Handle, *, at_once: int, ready: Callable[[], None]
    ) -> None:
        """Handle wake-ups as ``worker`` until canceled; call ``ready`` once they are claimed."""
        self._is_taking = True
        ready()
        try:
            while True:
                self._stirred.clear()
                while self._is_taking and self._count(worker) < at_once and (wake := self._take()):
                    self._begin(worker, handle, wake)
                await self._stirred.wait()
        finally:
            mine = [task for task, (_, name) in self._tasks.items() if name == worker]
            for task in mine:
                task.cancel()
            if mine:
                with anyio.CancelScope(shield=True):
                    await asyncio.wait(mine)

    async def stop_taking(self) -> None:
        """Claim no more wake-ups, and return when those already claimed have been handled."""
        self._is_taking = False
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    async def recover(self, dead: Sequence[str]) -> int:
        """Requeue the wake-ups that dead workers had claimed; return how many."""
        lost = [wake for wake, task in self._held.items() if self._tasks[task][1] in dead]
        for wake in lost:
            del self._held[wake]
            self._put(wake, 0.0)
        return len(lost)

    async def list_live(self, wakes: Sequence[Wake]) -> set[Wake]:
        """Return those of these wake-ups that are queued or being handled."""
        return {wake for wake in wakes if wake in self._due or wake in self._held}

    async def prune(self, *, before: Timestamp) -> int:
        """Delete wake-ups that were handled before a timestamp; return how many."""
        end_s = unix_ms(before) / 1000
        old = [wake for wake, at in self._handled.items() if at < end_s]
        for wake in old:
            del self._handled[wake]
        return len(old)

    def _put(self, wake: Wake, delay_s: float) -> None:
        self._due[wake] = time.monotonic() + delay_s
        if delay_s > 0:
            asyncio.get_running_loop().call_later(delay_s, self._stirred.set)
        else:
            self._stirred.set()

    def _take(self) -> Wake | None:
        now = time.monotonic()
        # ``call_later`` may fire slightly before our clock reaches the due time. Without the 5 ms
        # of tolerance the wake-up would be skipped and wait for the next one to arrive.
        wake = next((wake for wake, due in self._due.items() if due <= now + 0.005), None)
        if wake is not None:
            del self._due[wake]
        return wake

    def _count(self, worker: str) -> int:
        return sum(1 for _, name in self._tasks.values() if name == worker)

    def _begin(self, worker: str, handle: Handle, wake: Wake) -> None:
        task = asyncio.create_task(handle_until_done(handle, wake[0]))
        self._held[wake] = task
        self._tasks[task] = wake, worker
        task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Task[None]") -> None:
        wake, _ = self._tasks.pop(task)
        self._stirred.set()
        if self._held.get(wake) is not task:
            return  # ``recover`` requeued it meanwhile.
        del self._held[wake]
        if task.cancelled():
            self._put(wake, 0.0)
        else:
            self._handled[wake] = time.time()
