"""The engine protocol: durable wake-ups of sessions, independent of what the sessions do.

The journal belongs to the ledger. An engine guarantees one thing: a committed wake-up is handled at
least once, by one of the serving workers. The handler must therefore be idempotent, and takes the
order of messages from the inbox, never from the engine.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from turntree.core.ids import SessionId, Timestamp, WorkspaceId

Handle = Callable[[SessionId], Awaitable[None]]
"""Called for each session that is woken up."""

HandleAnywhere = Callable[[WorkspaceId, SessionId, int], Awaitable[None]]
"""Called for each wake-up of any workspace, with its number."""

Wake = tuple[SessionId, int]
"""A session and the number of one of its wake-ups."""


class SharedTransaction(Protocol):
    """A database transaction that the store and the engine share."""

    @property
    def driver(self) -> object:
        """The driver's own connection, for the store; not valid after the transaction."""
        ...

    async def wake(self, session: SessionId, number: int, *, delay_s: float = 0.0) -> None:
        """Schedule a wake-up that takes effect on commit; repeating a number has no effect."""
        ...


class Engine(Protocol):
    """Schedules wake-ups and hands them to workers."""

    def transaction(self) -> AbstractAsyncContextManager[SharedTransaction]:
        """Open a transaction: committed at the end of the block, rolled back on an error."""
        ...

    async def serve(
        self, worker: str, handle: Handle, *, at_once: int, ready: Callable[[], None]
    ) -> None:
        """Handle wake-ups as ``worker`` until canceled; call ``ready`` once they are being claimed.

        A cancellation also cancels the handlers that are running; another worker handles those
        wake-ups again.
        """
        ...

    async def stop_taking(self) -> None:
        """Claim no more wake-ups, and return when those already claimed have been handled."""
        ...

    async def recover(self, dead: Sequence[str]) -> int:
        """Requeue the wake-ups that dead workers had claimed; return how many."""
        ...

    async def list_live(self, wakes: Sequence[Wake]) -> set[Wake]:
        """Return those of these wake-ups that are queued or being handled."""
        ...

    async def prune(self, *, before: Timestamp) -> int:
        """Delete wake-ups that were handled before a timestamp; return how many."""
        ...


class SharedEngine(Engine, Protocol):
    """An engine whose wake-ups of all workspaces reach one worker."""

    async def serve_all(
        self, worker: str, handle: HandleAnywhere, *, at_once: int, ready: Callable[[], None]
    ) -> None:
        """Handle the wake-ups of all workspaces as ``worker`` until canceled, like ``serve``."""
        ...
