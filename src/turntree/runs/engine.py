"""The engine: it wakes sessions up, durably, and knows nothing of what they do then.

The journal is the ledger's. An engine promises one thing only: a wake-up that was committed is
handled at least once, by one of the workers that serve. Whoever handles it must bear being called
twice, and takes order from the inbox, never from here.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from turntree.core.ids import SessionId, Timestamp

Handle = Callable[[SessionId], Awaitable[None]]
"""What is done for a session that was woken up."""

Wake = tuple[SessionId, int]
"""A session and the number of its wake-up."""


class Transaction(Protocol):
    """A transaction that the store writes in and the engine too."""

    @property
    def driver(self) -> object:
        """The driver's own connection, for the store; it belongs to nobody afterwards."""
        ...

    async def wake(self, session: SessionId, number: int, *, delay_s: float = 0.0) -> None:
        """Have a session handled once this is committed; the same number again changes nothing."""
        ...


class Engine(Protocol):
    """Wake-ups that survive the process that asked for them."""

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Begin a transaction; it is committed at the end of the block, or undone by an error."""
        ...

    async def serve(
        self, worker: str, handle: Handle, *, at_once: int, ready: Callable[[], None]
    ) -> None:
        """Handle wake-ups under a name until canceled; ``ready`` is called once they are taken.

        What is being handled when it is canceled is canceled too, and handled again elsewhere.
        """
        ...

    async def stop_taking(self) -> None:
        """Take no more wake-ups and return when what was taken has been handled."""
        ...

    async def recover(self, dead: Sequence[str]) -> int:
        """Give back what workers took that are dead; returns how many wake-ups that were."""
        ...

    async def list_live(self, wakes: Sequence[Wake]) -> set[Wake]:
        """Return those of these wake-ups that still have to be handled, or are being handled."""
        ...

    async def prune(self, *, before: Timestamp) -> int:
        """Forget wake-ups that were handled before a moment; returns how many."""
        ...
