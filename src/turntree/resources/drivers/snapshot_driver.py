"""What the keepers of folders and of files share: states in the shadow store, looked into.

Knows how the store's words become those of the port. Must never know what kind of place it is.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from pathlib import Path

from turntree.core.errors import NotFound
from turntree.core.ids import Digest
from turntree.core.message_context import ChangeKind
from turntree.core.ref import ExtRef
from turntree.resources.driver import GcResult, MissingObject, TakenSnapshot
from turntree.resources.resource import Capability, EntryKind, FileChange, FileEntry, Liveness
from turntree.resources.snapshots.capture import CapturedState, read_states
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
    """Looks into states that are kept in the shadow store."""

    kind = ""
    method = "shadow-tree/1"
    external_kind = "shadow-tree"
    capabilities: frozenset[Capability] = frozenset({"snapshot", "restore", "fork", "share"})

    def __init__(self, home: Path) -> None:
        """Keep states below a folder of one's own."""
        self.store = ObjectStore(os.fspath(home / "shadow"))
        self._forks = Forks(self.store)
        self._opened: dict[bytes, dict[bytes, TreeEntry]] = {}

    def fork(self, external: ExtRef, place: str) -> None:
        """Make a new place in a state, all at once: it is whole or not there.

        Raises:
            Refused: Something is there already.
            NotFound: The state is not kept here.
        """
        top = self._top(external)
        with self.store.lock("store", exclusive=False):
            self._forks.make(
                os.fsencode(place), state_of(external), lambda growing: self.grow(top, growing)
            )

    @abstractmethod
    def grow(self, top: TreeEntry, place: bytes) -> None:
        """Write everything that a state holds to a place that is not there, down to the disk."""

    def discard(self, place: str) -> None:
        """Remove a place that ``fork`` made, all at once; nothing there is fine.

        Raises:
            Refused: ``fork`` did not make it.
        """
        self._forks.remove(os.fsencode(place))

    def forked_from(self, place: str) -> ExtRef | None:
        """Return the state that ``fork`` made a place from; None if it did not make it."""
        state = self._forks.state_of(os.fsencode(place))
        return self._external(state) if state is not None else None

    def list_entries(self, external: ExtRef) -> Iterator[FileEntry]:
        """Yield what a state holds, in the order of paths; a file is called ``.``.

        Raises:
            NotFound: The state is not kept here.
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
            NotFound: There is no such state, or no such file in it.
        """
        node = find_node(self._open_folder, self._top(external), os.fsencode(path))
        if node.kind == FOLDER:
            raise NotFound(f"{path} is a folder in that state")
        return self.store.get(node.digest)

    def compare(self, old: ExtRef | None, new: ExtRef | None) -> list[FileChange]:
        """Return how two states differ, path by path; None is an empty one.

        Raises:
            NotFound: One of them is not kept here.
        """
        before = self._top(old) if old is not None else None
        after = self._top(new) if new is not None else None
        return [as_change(one) for one in compare_nodes(self.store.get, before, after)]

    def list_losses(
        self, states: Collection[Digest], report: Callable[[int], None], *, full: bool, limit: int
    ) -> list[MissingObject]:
        """Return what is missing of states or damaged; without ``full`` files are not read."""
        found = find_losses(self.store, {_bytes(digest) for digest in states}, report, full=full)
        return [
            MissingObject(Digest(_ALGORITHM + one.state.hex()), os.fsdecode(one.path), one.why)
            for one in islice(found, limit)
        ]

    def mend(self, *, unreadable: bool) -> int:
        """Let damaged objects make way, so that the next snapshot keeps what is still there."""
        self._opened.clear()
        return mend(self.store, unreadable=unreadable)

    def put_back(self) -> int:
        """Take in again what made way, may be sound and nobody has brought since."""
        self._opened.clear()
        return put_back(self.store)

    def list_unknown(self, states: Collection[Digest]) -> frozenset[Digest]:
        """Return those of some states that are not kept here and, by all notes, never were."""
        if self.store.was_lost:
            return frozenset()  # The notes were lost too: nobody can say that it was another's.
        taken = read_states(self.store)
        self.store.refresh()
        return frozenset(
            digest
            for digest in states
            if (state := _bytes(digest)) not in taken and state not in self.store
        )

    @property
    def store_name(self) -> str:
        """Where its states lie: the folder that both kinds share."""
        return self.store.folder

    def sweep(
        self,
        keep: Collection[Digest],
        *,
        grace_s: float,
        elsewhere: Collection[Digest] = (),
        dry_run: bool = False,
    ) -> GcResult:
        """Remove what no state needs that is to be kept or was taken within the grace period.

        Raises:
            Incomplete: Something that is to be kept is missing or damaged. Nothing was removed.
        """
        wanted = {_bytes(digest) for digest in keep}
        others = {_bytes(digest) for digest in elsewhere}
        return sweep(self.store, wanted, grace_s, elsewhere=others, dry_run=dry_run)

    def _open_folder(self, digest: bytes) -> dict[bytes, TreeEntry]:
        """Return what a folder holds by name; whoever reads one file in it reads the next."""
        if digest not in self._opened:
            if len(self._opened) >= _FOLDERS_OPENED_MAX:
                self._opened.clear()
            self._opened[digest] = {one.name: one for one in read_tree(self.store.get(digest))}
        return self._opened[digest]

    def _top(self, external: ExtRef) -> TreeEntry:
        """Return the place itself as a state has it."""
        if external.kind != self.external_kind:
            raise NotFound(f"a {external.kind} is not kept by the keeper of a {self.kind}")
        return read_state(self.store.get, _bytes(Digest(external.id)))

    def _external(self, state: bytes) -> ExtRef:
        return ExtRef(self.external_kind, _ALGORITHM + state.hex())

    def _taken(self, kept: CapturedState) -> TakenSnapshot:
        return TakenSnapshot(
            self._external(kept.state), kept.size, kept.files, kept.stored, kept.consistency
        )


def state_of(external: ExtRef) -> bytes:
    """Return the digest of a state as the store writes it.

    Raises:
        NotFound: It is none.
    """
    return _bytes(Digest(external.id))


def look_for(found: bool) -> Liveness:  # noqa: FBT001 - the only thing it is told
    """Return what is said of a place that was or was not found."""
    return "alive" if found else "dead"


def as_change(one: TreeDiff) -> FileChange:
    """Return a difference in the words of the port."""
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


def _bytes(digest: Digest) -> bytes:
    text = digest.removeprefix(_ALGORITHM)
    try:
        if len(text) == _HEX_LENGTH:
            return bytes.fromhex(text)
    except ValueError:
        pass
    raise NotFound(f"{digest} is no digest of a state")
