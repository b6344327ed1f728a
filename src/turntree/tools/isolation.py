"""Calls third-party code so that it can neither end nor block the worker.

The code may raise anything, call ``sys.exit``, block or never return. Each of these becomes an
outcome. This module must never know which tool it calls, or its timeout.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Final

from turntree.core.errors import InvalidOperation

THREADS_MAX: Final = 512
"""Limit of concurrent threads. One that hangs counts until it returns."""
PING_S: Final = 0.5
"""A loop that does not respond within this time counts as blocked."""

_places = threading.BoundedSemaphore(THREADS_MAX)


@dataclass(slots=True)
class CallOutcome:
    """The outcome of a call: its value, or what it raised."""

    value: Any = None
    error: BaseException | None = None

    @property
    def said(self) -> str:
        """The error's type and message."""
        return f"{type(self.error).__name__}: {self.error}".removesuffix(": ")


async def call_in_thread(function: Callable[[], Any]) -> CallOutcome:
    """Call a synchronous function in a new thread.

    Python cannot kill a thread. After a timeout the thread is abandoned; as a daemon it blocks
    neither other calls nor the exit of the process.

    Raises:
        InvalidOperation: Too many threads are stuck.
    """
    loop, context = asyncio.get_running_loop(), copy_context()
    arrived: asyncio.Future[CallOutcome] = loop.create_future()

    def settle(ended: CallOutcome) -> None:
        if not arrived.done():
            arrived.set_result(ended)

    def work() -> None:
        try:
            ended = CallOutcome(context.run(function))
        except BaseException as error:
            # In a thread, even ``sys.exit`` ends only the thread, and the caller would wait for
            # ever.
            ended = CallOutcome(error=error)
        # If the loop was closed meanwhile, no caller is waiting.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, ended)

    _begin_thread(work)
    return await arrived


async def call_here(function: Callable[[], Awaitable[Any]]) -> CallOutcome:
    """Call an async function on the caller's loop."""
    try:
        return CallOutcome(await function())
    except asyncio.CancelledError:
        # On the caller's loop a cancellation is the caller's. In a thread it is the function's own.
        raise
    except BaseException as error:
        # A tool that calls ``sys.exit`` must not end the worker.
        return CallOutcome(error=error)


@dataclass(slots=True)
class IsolatedLoop:
    """An event loop in its own thread: a function that blocks it does not block the worker.

    All functions share it, so that they can share connections. Once it is blocked it is abandoned,
    and the next call starts another one.
    """

    _loop: asyncio.AbstractEventLoop | None = None
    _choosing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def call(self, function: Callable[[], Awaitable[Any]]) -> CallOutcome:
        """Call an async function on this loop.

        Raises:
            InvalidOperation: Too many threads are stuck.
        """
        async with self._choosing:
            if self._loop is None or not await _answers(self._loop):
                loop = asyncio.new_event_loop()
                _begin_thread(loop.run_forever)
                self._loop = loop
        work = asyncio.run_coroutine_threadsafe(call_here(function), self._loop)
        return await asyncio.wrap_future(work)


async def _answers(loop: asyncio.AbstractEventLoop) -> bool:
    answer = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop))
    done, _ = await asyncio.wait({answer}, timeout=PING_S)
    return bool(done)


def _begin_thread(work: Callable[[], None]) -> None:
    if not _places.acquire(blocking=False):
        raise InvalidOperation(f"{THREADS_MAX} tool calls are stuck; restart the worker")

    def run() -> None:
        try:
            work()
        finally:
            _places.release()

    # A non-daemon thread would keep the process from exiting.
    threading.Thread(target=run, name="turntree tool", daemon=True).start()
