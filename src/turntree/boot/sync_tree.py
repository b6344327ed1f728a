"""The synchronous face of a tree; ``sync_tree.pyi`` has its types, generated from ``Tree``."""

from typing import Any

from turntree.boot.open import Settings, open_tree
from turntree.system.blocking import BlockingTree


class SyncTree(BlockingTree):
    """A workspace's turns and sessions, for programs that do not use ``async``."""


def open_sync(settings: Settings | None = None, **options: Any) -> SyncTree:
    """Open the ledger as ``turntree.open`` does, for a program that does not use ``async``."""
    return SyncTree(lambda: open_tree(settings, **options))
