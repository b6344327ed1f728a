"""Locks and transactions: what one of many does alone, what becomes true together, and how soon."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class AdvisoryLock(Protocol):
    """Holds a key of the workspace while a block lasts."""

    def __call__(self, key: str) -> AbstractAsyncContextManager[bool]:
        """Say whether the key is held here; it is not if somebody else holds it.

        Whoever ends, however that comes about, holds nothing any more.
        """
        ...


class Transaction(Protocol):
    """Makes one transaction of what is done in a block."""

    def __call__(self) -> AbstractAsyncContextManager[None]:
        """Let all that the block writes become true at its end, or nothing of it."""
        ...


class AsyncCommit(Protocol):
    """Waits for no disk while a block lasts."""

    def __call__(self) -> AbstractAsyncContextManager[None]:
        """Let all that the block writes outlast a crash no sooner than what is written after it.

        For whoever notes last that all the rest is done, and does it again if the note is lost.
        """
        ...
