"""Somebody's code, called where it can end nothing but itself.

It may raise anything, leave the process, block, or never come back. Whatever it does becomes a
result here. It must never know which tool it is, or how long it may take.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from turntree.core.errors import InvalidOperation

THREADS_MAX: Final = 512
"""Threads that are at work at once. One that hangs counts until it comes back."""
PING_S: Final = 0.5
"""A loop that has not answered for so long is blocked by what runs on it."""

_places = threading.BoundedSemaphore(THREADS_MAX)


@dataclass(slots=True)
class CallOutcome:
    """How a call ended: with a value, or with what it raised."""

    value: Any = None
    error: BaseException | None = None

    def __enter__(self) -> Self:
        """Watch a call."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> bool:
        """Keep whatever was raised."""
        del kind, at
        self.error = error
        return True

    @property
    def said(self) -> str:
        """What went wrong, in the error's own words."""
        return f"{type(self.error).__name__}: {self.error}".removesuffix(": ")


async def call_in_thread(function: Callable[[], Any]) -> CallOutcome:
    """Call a function that cannot wait, in a thread of its own.

    A thread cannot be ended. Whoever waits no longer leaves it to itself, and it holds up nobody:
    neither other calls nor the end of the process.

    Raises:
        InvalidOperation: Too many threads hang already.
    """
    loop, context = asyncio.get_running_loop(), copy_context()
    arrived: asyncio.Future[CallOutcome] = loop.create_future()

    def settle(ended: CallOutcome) -> None:
        if not arrived.done():
            arrived.set_result(ended)

    def work() -> None:
        with CallOutcome() as ended:
            ended.value = context.run(function)
        # A loop that was closed meanwhile has nobody left who waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, ended)

    _begin_thread(work)
    return await arrived


async def call_here(function: Callable[[], Awaitable[Any]]) -> CallOutcome:
    """Call a function that waits, on the loop of whoever asks."""
    with CallOutcome() as ended:
        ended.value = await function()
    if isinstance(ended.error, asyncio.CancelledError):
        # Here it is the end of whoever waits. In a thread it is the function's own.
        raise ended.error
    return ended


@dataclass(slots=True)
class IsolatedLoop:
    """A loop in a thread of its own: what blocks it holds up no worker.

    All functions share it, so that they may share connections. Once it is blocked it is left to
    itself, and the next call begins another one.
    """

    _loop: asyncio.AbstractEventLoop | None = None
    _choosing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def call(self, function: Callable[[], Awaitable[Any]]) -> CallOutcome:
        """Call a function that waits, on this loop.

        Raises:
            InvalidOperation: Too many threads hang already.
        """
        async with self._choosing:
            if self._loop is None or not await _answers(self._loop):
                self._loop = _begin_loop()
        work = asyncio.run_coroutine_threadsafe(call_here(function), self._loop)
        return await asyncio.wrap_future(work)


async def _answers(loop: asyncio.AbstractEventLoop) -> bool:
    answer = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop))
    done, _ = await asyncio.wait({answer}, timeout=PING_S)
    return bool(done)


def _begin_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    _begin_thread(loop.run_forever)
    return loop


def _begin_thread(work: Callable[[], None]) -> None:
    if not _places.acquire(blocking=False):
        raise InvalidOperation(f"{THREADS_MAX} calls of tools hang; start the worker again")

    def run() -> None:
        try:
            work()
        finally:
            _places.release()

    # A thread that is no daemon would keep the process from ending.
    threading.Thread(target=run, name="turntree tool", daemon=True).start()
