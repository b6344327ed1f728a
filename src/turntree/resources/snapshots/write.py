"""Write files and links from the object store, and sync many of them to disk at a time.

Syncing each file would wait for the disk every time, and a sync of the whole machine would wait for
the writes of every other process. Knows the store and open folders.
"""

import os
from typing import Final, Self

from turntree.resources.snapshots.dir_fd import NO_FOLLOW, NO_INHERIT
from turntree.resources.snapshots.store import ObjectStore
from turntree.resources.snapshots.trees import LINK, TreeEntry

CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_FOLLOW | NO_INHERIT
_OPEN_MAX: Final = 128
"""How many files are synced together."""


class NodeWriter:
    """Writes files and links; after ``finish`` their bytes survive a power cut."""

    def __init__(self, store: ObjectStore) -> None:
        """Write objects of a store."""
        self._store = store
        self._open: list[int] = []

    def __enter__(self) -> Self:
        """Start."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close files that were not finished."""
        for fd in self._open:
            os.close(fd)

    def write(self, folder: int, name: bytes, node: TreeEntry) -> None:
        """Write a file or link into an open folder.

        Raises:
            NotFound: Its bytes are not stored.
        """
        if node.kind == LINK:
            os.symlink(self._store.get(node.digest), name, dir_fd=folder)
            return
        fd = os.open(name, CREATE, 0o600, dir_fd=folder)
        self._open.append(fd)
        for piece in self._store.stream(node.digest):
            left = memoryview(piece)
            while left:
                left = left[os.write(fd, left) :]
        os.fchmod(fd, node.mode)
        # Start writeback now, so that waiting for many files takes about as long as for
        # one.
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if len(self._open) >= _OPEN_MAX:
            self.finish()

    def finish(self) -> None:
        """Sync everything that was written."""
        while self._open:
            fd = self._open.pop()
            try:
                os.fsync(fd)
            finally:
                os.close(fd)
