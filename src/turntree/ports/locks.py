"""Locks and transactions: what one of many processes does alone, and what becomes true together."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol


class Holding(Protocol):
    """Holds a key of the workspace while a block lasts."""

    def __call__(self, key: str) -> AbstractAsyncContextManager[bool]:
        """Say whether the key is held here; it is not if somebody else holds it.

        Whoever ends, however that comes about, holds nothing any more.
        """
        ...


class Together(Protocol):
    """Makes one transaction of what is done in a block."""

    def __call__(self) -> AbstractAsyncContextManager[None]:
        """Let all that the block writes become true at its end, or nothing of it."""
        ...
