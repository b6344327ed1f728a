"""A ledger with a runtime behind it, for commands that talk: the loop runs beside the terminal.

Whoever types sits in the main thread, where Ctrl-C arrives, and everything that waits lives in a
loop of its own. This module knows how the two meet. It must never print.
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
    """Whether this process answers where nobody else does."""

    def call(self, act: Callable[[CliContext], Awaitable[T]]) -> T:
        """Do one thing with the ledger and return what it gave."""
        return self.portal.call(act, self.opened)

    def serve(self) -> None:
        """Answer from now on where nobody else does."""
        self.serves = True
        self.portal.call(self.opened.running.ensure_served)

    def is_served(self) -> bool:
        """Say whether anybody answers."""
        return bool(self.call(lambda opened: opened.tree.runs.workers.list_workers()))

    def list_unfinished(self, label: str) -> list[RunId]:
        """Return what is being answered in a session, and what waits there, in order."""

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
        """Begin something that tells what it hears; somebody answers meanwhile."""
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
        """See to it that somebody answers: whoever did may have gone meanwhile."""
        while self.serves:
            await self.opened.running.ensure_served()
            await asyncio.sleep(KEEP_SERVED_S)


class _Interrupt:
    """Somebody pressed Ctrl-C."""


@dataclass(slots=True)
class ReplyListener(Generic[T]):
    """What is heard, one thing at a time; a Ctrl-C is heard like everything else."""

    queue: "SimpleQueue[Heard | _Interrupt | None]" = field(
        default_factory=SimpleQueue["Heard | _Interrupt | None"]
    )
    future: "Future[T] | None" = None

    @contextmanager
    def hearing_interrupts(self) -> Generator[None]:
        """Hear Ctrl-C until the block ends.

        Raised where it happens to arrive, it could be lost: in a callback whose errors nobody sees.
        """
        if threading.current_thread() is not threading.main_thread():
            # Ctrl-C arrives in the main thread, and so does whoever wants to hear it.
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
        """Wait for the next thing; None if there is no more.

        Raises:
            TimeoutError: Nothing was heard for so long.
            KeyboardInterrupt: Somebody pressed Ctrl-C.
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
        """What it came to.

        Raises:
            TurntreeError: Something went wrong.
        """
        assert self.future is not None, "it was begun"
        return self.future.result()

    def stop(self) -> None:
        """Listen no longer."""
        if self.future is not None:
            self.future.cancel()


@contextmanager
def open_talk(
    terminal: Terminal, *, tools: Sequence[str] = (), serves: bool = True
) -> Generator[ChatSession]:
    """Open the ledger and a runtime; with ``serves`` somebody answers while it is open."""
    given = load_tools(tools)
    # What a worker tells its keeper is no part of a talk.
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
    """Return the tools that a command line names; modules of the present folder are found too.

    Raises:
        NotFound: There is no such tool.
        Refused: Something is no tool.
    """
    if not names:
        return ()
    from turntree.tools.loading import apart_of, load_named

    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return apart_of(load_named(names))
