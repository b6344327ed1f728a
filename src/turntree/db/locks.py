"""Protocols for advisory locks, transactions and asynchronous commit."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class AdvisoryLock(Protocol):
    """Locks a key of the workspace for the duration of a block."""

    def __call__(self, key: str) -> AbstractAsyncContextManager[bool]:
        """Yield whether this process got the lock; False if another process holds it.

        A process that ends, for whatever reason, releases its locks.
        """
        ...


class Transaction(Protocol):
    """Runs a block in one transaction."""

    def __call__(self) -> AbstractAsyncContextManager[None]:
        """Commit everything the block writes at its end, or nothing."""
        ...


class AsyncCommit(Protocol):
    """Commits without waiting for the disk."""

    def __call__(self) -> AbstractAsyncContextManager[None]:
        """Commit asynchronously: after a crash, the writes of the block may be missing.

        Use only for idempotent work whose completion a later durable write records. If that record
        is missing, the work is repeated.
        """
        ...
