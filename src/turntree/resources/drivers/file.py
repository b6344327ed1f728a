"""The driver of single files and symbolic links; a link is stored as a link.

It takes, restores and forks snapshots of one file. It never looks at what else is in its folder.
"""

import os
from collections.abc import Collection

from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.ref import ExtRef
from turntree.resources.driver import SnapshotCost, TakenSnapshot
from turntree.resources.drivers.snapshot_driver import SnapshotDriver, as_change, look_for
from turntree.resources.resource import FileChange, Liveness
from turntree.resources.snapshots.capture import keep_file
from turntree.resources.snapshots.restore import bring_back
from turntree.resources.snapshots.trees import PLACE_NAME, TreeDiff, TreeEntry, read_state
from turntree.resources.snapshots.write import NodeWriter


class FileDriver(SnapshotDriver):
    """Takes, restores and forks snapshots of single files."""

    kind = "file"
    external_kind = "shadow-file"

    def probe(self, place: str) -> Liveness:
        """Return whether the file exists."""
        return look_for(os.path.lexists(place) and not _is_folder(place))

    def measure(self, place: str) -> SnapshotCost:
        """Return what a snapshot would cost.

        Raises:
            NotFound: There is no file.
        """
        if self.probe(place) == "dead":
            raise NotFound(f"there is no file at {place}")
        size = os.lstat(place).st_size
        return SnapshotCost(size, 1, size)

    def snapshot(self, place: str) -> TakenSnapshot:
        """Store the present state.

        Raises:
            NotFound: There is no file.
        """
        return self._taken(keep_file(self.store, os.fsencode(place)))

    def restore(
        self, external: ExtRef, place: str, *, only: Collection[str] | None = None
    ) -> list[FileChange]:
        """Make the file equal to a snapshot and return what had to change.

        Raises:
            NotFound: The snapshot is not stored here.
            InvalidOperation: A directory is at that path.
        """
        wanted = self._top(external)
        if _is_folder(place):
            raise InvalidOperation(f"{place} is a directory")
        if only is not None and "." not in only:
            return []
        where = os.path.abspath(os.fsencode(place))
        present: TreeEntry | None = None
        with self.store.lock("store", exclusive=False):
            os.makedirs(os.path.dirname(where), exist_ok=True)
            if os.path.lexists(where):
                present = read_state(self.store.get, keep_file(self.store, where).state)
            if present is not None and _same(present, wanted):
                return []
            above, name = os.path.split(where)
            bring_back(self.store, above, [TreeDiff(name, present, wanted)])
        return [as_change(TreeDiff(PLACE_NAME, present, wanted))]

    def grow(self, top: TreeEntry, place: bytes) -> None:
        """Write the file and sync it to disk."""
        above, name = os.path.split(place)
        folder = os.open(above, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with NodeWriter(self.store) as writer:
                writer.write(folder, name, top)
                writer.finish()
        finally:
            os.close(folder)


def _is_folder(place: str) -> bool:
    return os.path.isdir(place) and not os.path.islink(place)


def _same(one: TreeEntry, other: TreeEntry) -> bool:
    return (one.kind, one.mode, one.digest) == (other.kind, other.mode, other.digest)
