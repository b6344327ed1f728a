"""A ledger with a runtime behind it, for commands that talk to models.

The terminal needs the main thread, where Ctrl-C arrives; everything that waits runs in an event
loop on another thread. This module connects the two. It must never print.
"""

import asyncio
import logging
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final, Generic, TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

from turntree.cli.command import Terminal
from turntree.cli.context import CliContext, open_ledger
from turntree.core.ids import RunId
from turntree.core.thread import ThreadTurn
from turntree.runs.follow import Heard

T = TypeVar("T")
Hear = Callable[[Heard], None]
KEEP_SERVED_S: Final = 1.0


@dataclass(slots=True)
class ChatSession:
    """The ledger and the runtime, as seen from the main thread."""

    portal: BlockingPortal
    opened: CliContext
    serves: bool = False
    """Whether this process serves sessions that have no other worker."""

    def call(self, act: Callable[[CliContext], Awaitable[T]]) -> T:
        """Run one call on the ledger and return its result."""
        return self.portal.call(act, self.opened)

    def serve(self) -> None:
        """Serve sessions from now on, where no other worker does."""
        self.serves = True
        self.portal.call(self.opened.running.ensure_served)

    def is_served(self) -> bool:
        """Whether any worker serves the workspace."""
        return bool(self.call(lambda opened: opened.tree.runs.workers.list_workers()))

    def list_unfinished(self, label: str) -> list[RunId]:
        """Return the running and the queued runs of a session, in order."""

        async def read(opened: CliContext) -> list[RunId]:
            found = [run.run for run in await opened.tree.runs.list_open(label)]
            found += [waiting.run for waiting in await opened.tree.runs.list_waiting(label)]
            return list(dict.fromkeys(found))

        return self.call(read)

    def listen(self, run: RunId) -> "ReplyListener[ThreadTurn]":
        """Follow a run."""
        following = self.opened.running.following
        return self.begin(lambda hear: following.follow(run, hear))

    def begin(self, act: "Callable[[Hear], Awaitable[T]]") -> "ReplyListener[T]":
        """Start a call that reports what it hears, and make sure a worker serves it."""
        listening = ReplyListener[T]()

        async def acting() -> T:
            keeping = asyncio.create_task(self._keep_served())
            try:
                return await act(listening.queue.put)
            finally:
                keeping.cancel()

        listening.future = self.portal.start_task_soon(acting)
        listening.future.add_done_callback(lambda _: listening.queue.put(None))
        return listening

    async def _keep_served(self) -> None:
        """Keep the workspace served: the worker that served it may have stopped meanwhile."""
        while self.serves:
            await self.opened.running.ensure_served()
            await asyncio.sleep(KEEP_SERVED_S)


class _Interrupt:
    """The user pressed Ctrl-C."""


@contextmanager
def interruptible() -> Generator[None]:
    """Raise Ctrl-C where it arrives until the block ends: for a question to the person."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@dataclass(slots=True)
class ReplyListener(Generic[T]):
    """Items heard from a run, one at a time; a Ctrl-C is one of them."""

    queue: "SimpleQueue[Heard | _Interrupt | None]" = field(
        default_factory=SimpleQueue["Heard | _Interrupt | None"]
    )
    future: "Future[T] | None" = None

    @contextmanager
    def hearing_interrupts(self) -> Generator[None]:
        """Report Ctrl-C as an item until the block ends.

        Raised wherever it happens to arrive, it could be lost in a callback whose errors are
        dropped.
        """
        if threading.current_thread() is not threading.main_thread():
            # Python delivers Ctrl-C to the main thread only, so only there can it be handled.
            yield
            return

        def hear(number: int, frame: object) -> None:
            del number, frame
            self.queue.put(_Interrupt())

        before = signal.signal(signal.SIGINT, hear)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def next(self, timeout_s: float | None = None) -> Heard | None:
        """Return the next item, or None at the end.

        Raises:
            TimeoutError: Nothing was heard within the timeout.
            KeyboardInterrupt: The user pressed Ctrl-C.
        """
        try:
            heard = self.queue.get(timeout=timeout_s)
        except Empty:
            raise TimeoutError from None
        if isinstance(heard, _Interrupt):
            raise KeyboardInterrupt
        return heard

    @property
    def result(self) -> T:
        """The result of the call.

        Raises:
            TurntreeError: The call failed.
        """
        assert self.future is not None, "it was begun"
        return self.future.result()

    def stop(self) -> None:
        """Stop listening."""
        if self.future is not None:
            self.future.cancel()


@contextmanager
def open_talk(
    terminal: Terminal, *, tools: Sequence[str] = (), serves: bool = True
) -> Generator[ChatSession]:
    """Open the ledger and a runtime; with ``serves``, this process also serves."""
    given = load_tools(tools)
    # A worker's log lines do not belong into a conversation.
    logging.getLogger("turntree").addHandler(logging.NullHandler())
    logging.getLogger("turntree").propagate = False
    with (
        start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(open_ledger(terminal, tools=given)) as opened,
    ):
        talk = ChatSession(portal, opened)
        if serves:
            talk.serve()
        yield talk


def load_tools(names: Sequence[str]) -> Sequence[object]:
    """Return the tools that a command line names; modules of the current folder are found too.

    Raises:
        NotFound: There is no such tool.
        InvalidOperation: The name leads to something that is not a tool.
    """
    if not names:
        return ()
    from turntree.tools.loading import apart_of, load_named

    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return apart_of(load_named(names))
