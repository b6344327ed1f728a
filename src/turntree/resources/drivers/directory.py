"""The driver of directories.

``docs/explanation/what-is-captured.md`` says what a snapshot holds and leaves out. The driver
takes, restores and forks snapshots of a directory. It never writes to a repository's ``.git``.
"""

import os
from collections.abc import Collection

from turntree.core.errors import InvalidOperation
from turntree.core.ref import ExtRef
from turntree.resources.driver import SnapshotCost, TakenSnapshot
from turntree.resources.drivers.snapshot_driver import SnapshotDriver, as_change, look_for, state_of
from turntree.resources.resource import FileChange, Liveness
from turntree.resources.snapshots.capture import is_touched, keep_folder, measure_folder
from turntree.resources.snapshots.packs import sync_folder
from turntree.resources.snapshots.restore import bring_back
from turntree.resources.snapshots.trees import (
    FOLDER,
    TreeDiff,
    TreeEntry,
    compare_nodes,
    read_state,
    walk_nodes,
)
from turntree.resources.snapshots.untracked import list_left_out
from turntree.resources.snapshots.write import NodeWriter


class DirectoryDriver(SnapshotDriver):
    """Takes, restores and forks snapshots of directories."""

    kind = "directory"

    def probe(self, place: str) -> Liveness:
        """Return whether the directory exists."""
        return look_for(os.path.isdir(place))

    def measure(self, place: str) -> SnapshotCost:
        """Return what a snapshot would cost, from a scan that reads no file.

        Raises:
            NotFound: There is no directory.
        """
        return SnapshotCost(*measure_folder(self.store, os.fsencode(place)))

    def snapshot(self, place: str) -> TakenSnapshot:
        """Store the present state; an unchanged one costs a directory scan.

        Raises:
            NotFound: There is no directory.
        """
        return self._taken(keep_folder(self.store, os.fsencode(place)))

    def is_touched(self, place: str, since_ns: int) -> bool:
        """Whether the last snapshot contains anything that changed after a time."""
        return is_touched(self.store, os.fsencode(place), since_ns)

    def restore(
        self, external: ExtRef, place: str, *, only: Collection[str] | None = None
    ) -> list[FileChange]:
        """Make the directory equal to a snapshot and return what had to change.

        Raises:
            NotFound: The snapshot is not stored here.
            InvalidOperation: Something that no snapshot holds is in the way; nothing has changed.
        """
        wanted = self._top(external)
        where = os.fsencode(place)
        if os.path.lexists(where) and not os.path.isdir(where):
            raise InvalidOperation(f"{place} is not a directory")
        with self.store.lock("store", exclusive=False):
            os.makedirs(where, exist_ok=True)
            # Capture the present state once more: it costs a scan, and a mistake can be undone.
            present = keep_folder(self.store, where)
            differences = compare_nodes(
                self.store.get, read_state(self.store.get, present.state), wanted
            )
            if only is not None:
                differences = _choose(differences, {os.fsencode(path) for path in only})
            bring_back(self.store, where, differences)
        return [as_change(one) for one in differences]

    def list_left_out(self, place: str, external: ExtRef) -> list[str]:
        """Return the paths in the directory that a snapshot does not hold.

        Raises:
            NotFound: The snapshot is not stored here.
        """
        found = list_left_out(self.store, os.fsencode(place), state_of(external))
        return [os.fsdecode(path) for path in found]

    def grow(self, top: TreeEntry, place: bytes) -> None:
        """Write everything that a directory holds, and sync it to disk."""
        os.mkdir(place, 0o700)
        folders = [(place, top)]
        with NodeWriter(self.store) as writer:
            for path, node in walk_nodes(self.store.get, top):
                if node.kind == FOLDER:
                    folders.append((os.path.join(place, path), node))
                    os.mkdir(folders[-1][0], 0o700)
                    continue
                above, name = os.path.split(os.path.join(place, path))
                fd = os.open(above, os.O_RDONLY | os.O_CLOEXEC)
                try:
                    writer.write(fd, name, node)
                finally:
                    os.close(fd)
            writer.finish()
        for folder, node in reversed(folders):
            sync_folder(os.fsdecode(folder))
            os.chmod(folder, node.mode)


def _choose(differences: list[TreeDiff], only: set[bytes]) -> list[TreeDiff]:
    """Return the differences of some paths, with the folders that these need."""
    needed = {one.path for one in differences if one.path in only and one.new is not None}
    above = {
        path[:at] for path in needed for at, sign in enumerate(path) if sign == ord("/")
    } - only
    chosen: list[TreeDiff] = []
    for one in differences:
        if one.path in only or (one.path in above and one.old is None):
            chosen.append(one)
        elif one.path in above and one.old is not None and one.old.kind != FOLDER:
            raise InvalidOperation(f"{os.fsdecode(one.path)} is in the way: it is not a folder")
    return chosen
