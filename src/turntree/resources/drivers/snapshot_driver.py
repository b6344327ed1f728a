"""What the directory and file drivers share: reading and managing snapshots in the object store.

It translates between the object store and the driver contract, and knows no kind of resource.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path

from turntree.core.errors import NotFound
from turntree.core.ids import Digest
from turntree.core.message_context import ChangeKind
from turntree.core.ref import ExtRef
from turntree.resources.driver import GcResult, MissingObject, NewContent, TakenSnapshot
from turntree.resources.resource import Capability, EntryKind, FileChange, FileEntry, Liveness
from turntree.resources.snapshots.capture import CapturedState, read_states
from turntree.resources.snapshots.edit import EMPTY, NewEntry, edit_state
from turntree.resources.snapshots.gc import sweep
from turntree.resources.snapshots.materialize import Forks
from turntree.resources.snapshots.repair import mend, put_back
from turntree.resources.snapshots.store import ObjectStore
from turntree.resources.snapshots.trees import (
    FILE,
    FOLDER,
    LINK,
    PLACE_NAME,
    TreeDiff,
    TreeEntry,
    compare_nodes,
    find_node,
    read_state,
    read_tree,
    walk_nodes,
)
from turntree.resources.snapshots.verify import find_losses

_KINDS: dict[int, EntryKind] = {FILE: "file", LINK: "symlink", FOLDER: "directory"}
_ALGORITHM = "sha256:"
_HEX_LENGTH = 64
_FOLDERS_OPENED_MAX = 100


class SnapshotDriver(ABC):
    """Reads and manages snapshots in the object store below the data directory."""

    kind = ""
    method = "shadow-tree/1"
    external_kind = "shadow-tree"
    capabilities: frozenset[Capability] = frozenset({"snapshot", "restore", "fork", "share"})

    def __init__(self, home: Path) -> None:
        """Use the object store below a data directory."""
        self.store = ObjectStore(os.fspath(home / "shadow"))
        self._forks = Forks(self.store)
        self._opened: dict[bytes, dict[bytes, TreeEntry]] = {}

    def fork(self, external: ExtRef, place: str) -> None:
        """Create a new resource from a snapshot, atomically: it is complete or absent.

        Raises:
            InvalidOperation: Something already exists there.
            NotFound: The snapshot is not stored here.
        """
        top = self._top(external)
        with self.store.lock("store", exclusive=False):
            self._forks.make(
                os.fsencode(place), state_of(external), lambda growing: self.grow(top, growing)
            )

    @abstractmethod
    def grow(self, top: TreeEntry, place: bytes) -> None:
        """Write everything that a snapshot holds to a path that does not exist, and sync it."""

    def discard(self, place: str) -> None:
        """Remove a resource that ``fork`` created, atomically; an absent one is fine.

        Raises:
            InvalidOperation: ``fork`` did not create it.
        """
        self._forks.remove(os.fsencode(place))

    def forked_from(self, place: str) -> ExtRef | None:
        """Return the snapshot that ``fork`` created a resource from; None if it did not."""
        state = self._forks.state_of(os.fsencode(place))
        return self._external(state) if state is not None else None

    def list_entries(self, external: ExtRef) -> Iterator[FileEntry]:
        """Yield the entries of a snapshot in path order; a single file is called ``.``.

        Raises:
            NotFound: The snapshot is not stored here.
        """
        top = self._top(external)
        if top.kind != FOLDER:
            yield _entry(PLACE_NAME, top)
            return
        for path, node in walk_nodes(self.store.get, top):
            yield _entry(path, node)

    def read(self, external: ExtRef, path: str) -> bytes:
        """Return a file's bytes or a link's target.

        Raises:
            NotFound: The snapshot does not exist, or has no such file.
        """
        node = find_node(self._open_folder, self._top(external), os.fsencode(path))
        if node.kind == FOLDER:
            raise NotFound(f"{path} is a folder in that state")
        return self.store.get(node.digest)

    def compare(self, old: ExtRef | None, new: ExtRef | None) -> list[FileChange]:
        """Return how two snapshots differ, path by path; None is an empty one.

        Raises:
            NotFound: One of them is not stored here.
        """
        before = self._top(old) if old is not None else None
        after = self._top(new) if new is not None else None
        return [as_change(one) for one in compare_nodes(self.store.get, before, after)]

    def edit(self, external: ExtRef, changes: Mapping[str, NewContent | None]) -> TakenSnapshot:
        """Store a snapshot that differs from another one in some paths; None removes one.

        Raises:
            NotFound: The other snapshot is not stored here.
            InvalidOperation: A path would be below a file, or a folder in use would become one.
        """
        edits = {os.fsencode(path): _edit_of(path, new) for path, new in changes.items()}
        return self._taken(edit_state(self.store, state_of(external), edits))

    def list_losses(
        self, states: Collection[Digest], report: Callable[[int], None], *, full: bool, limit: int
    ) -> list[MissingObject]:
        """Return missing or damaged objects of snapshots; without ``full`` files are not read."""
        found = find_losses(self.store, {_bytes(digest) for digest in states}, report, full=full)
        return [
            MissingObject(Digest(_ALGORITHM + one.state.hex()), os.fsdecode(one.path), one.why)
            for one in islice(found, limit)
        ]

    def mend(self, *, unreadable: bool) -> int:
        """Move damaged objects aside, so that the next snapshot stores what still exists."""
        self._opened.clear()
        return mend(self.store, unreadable=unreadable)

    def put_back(self) -> int:
        """Bring back set-aside objects that may be intact and are still missing."""
        self._opened.clear()
        return put_back(self.store)

    def list_unknown(self, states: Collection[Digest]) -> frozenset[Digest]:
        """Return the snapshots that are not stored here and, by the log, never were."""
        if self.store.was_lost:
            return frozenset()  # The log was lost too: any of them may have been stored here.
        taken = read_states(self.store)
        self.store.refresh()
        return frozenset(
            digest
            for digest in states
            if (state := _bytes(digest)) not in taken and state not in self.store
        )

    @property
    def store_name(self) -> str:
        """The folder of the object store, which both kinds share."""
        return self.store.folder

    def sweep(
        self,
        keep: Collection[Digest],
        *,
        grace_s: float,
        elsewhere: Collection[Digest] = (),
        dry_run: bool = False,
    ) -> GcResult:
        """Delete objects that no snapshot in ``keep`` or within the grace period needs.

        Raises:
            SnapshotIncomplete: Something to keep is missing or damaged. Nothing was deleted.
        """
        wanted = {_bytes(digest) for digest in keep}
        others = {_bytes(digest) for digest in elsewhere}
        return sweep(self.store, wanted, grace_s, elsewhere=others, dry_run=dry_run)

    def _open_folder(self, digest: bytes) -> dict[bytes, TreeEntry]:
        """Return a folder's entries by name, cached: reads of one folder come in groups."""
        if digest not in self._opened:
            if len(self._opened) >= _FOLDERS_OPENED_MAX:
                self._opened.clear()
            self._opened[digest] = {one.name: one for one in read_tree(self.store.get(digest))}
        return self._opened[digest]

    def _top(self, external: ExtRef) -> TreeEntry:
        """Return the root entry of a snapshot."""
        if external.kind != self.external_kind:
            raise NotFound(f"the {self.kind} driver does not store {external.kind} snapshots")
        return read_state(self.store.get, _bytes(Digest(external.id)))

    def _external(self, state: bytes) -> ExtRef:
        return ExtRef(self.external_kind, _ALGORITHM + state.hex())

    def _taken(self, kept: CapturedState) -> TakenSnapshot:
        return TakenSnapshot(
            self._external(kept.state), kept.size, kept.files, kept.stored, kept.consistency
        )


def state_of(external: ExtRef) -> bytes:
    """Return the digest of a snapshot as raw bytes.

    Raises:
        NotFound: It is not a digest.
    """
    return _bytes(Digest(external.id))


def look_for(found: bool) -> Liveness:  # noqa: FBT001 - the only argument
    """Return the liveness of a resource that was or was not found."""
    return "alive" if found else "dead"


def as_change(one: TreeDiff) -> FileChange:
    """Return a difference as the driver contract describes it."""
    old = _entry(one.path, one.old) if one.old is not None else None
    new = _entry(one.path, one.new) if one.new is not None else None
    kind: ChangeKind = "changed"
    if old is None:
        kind = "added"
    elif new is None:
        kind = "removed"
    elif (old.kind, old.digest) == (new.kind, new.digest):
        kind = "mode"
    return FileChange(os.fsdecode(one.path), kind, old, new)


def _entry(path: bytes, node: TreeEntry) -> FileEntry:
    if node.kind == FOLDER:
        return FileEntry(os.fsdecode(path), "directory", node.mode, 0, None)
    digest = Digest(_ALGORITHM + node.digest.hex())
    return FileEntry(os.fsdecode(path), _KINDS[node.kind], node.mode, node.size, digest)


def _edit_of(path: str, new: NewContent | None) -> NewEntry | None:
    if new is None:
        return None
    entry = new.entry
    kind = next(number for number, word in _KINDS.items() if word == entry.kind)
    digest = EMPTY if entry.digest is None else _bytes(entry.digest)
    files = 0 if kind == FOLDER else 1
    name = os.fsencode(path).rpartition(b"/")[2]
    return NewEntry(TreeEntry(name, kind, entry.mode, entry.size, files, digest), new.data)


def _bytes(digest: Digest) -> bytes:
    text = digest.removeprefix(_ALGORITHM)
    try:
        if len(text) == _HEX_LENGTH:
            return bytes.fromhex(text)
    except ValueError:
        pass
    raise NotFound(f"not the digest of a snapshot: {digest}")
