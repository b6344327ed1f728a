"""The contract of resource drivers: one driver per kind of resource.

A driver is one module and one entry point of the group ``turntree.resources``. It takes snapshots
of a resource, restores and forks them, and knows nothing about turns, sessions or a ledger. Its
methods block; call them in a thread from an event loop. A driver that lacks a capability raises
``Unsupported`` and changes nothing. Every operation can be repeated after its process died.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Literal, Protocol, runtime_checkable

from turntree.core.ids import Digest
from turntree.core.ref import ExtRef
from turntree.core.value import value
from turntree.resources.resource import Capability, FileChange, FileEntry, Liveness


@value
class TakenSnapshot:
    """A snapshot that a driver has stored."""

    external: ExtRef
    size: int
    """Bytes of the state when restored."""
    files: int
    stored: int
    """Bytes that had to be written to store it."""
    consistency: Literal["exact", "crash_consistent", "inconsistent"] = "exact"


@value
class SnapshotCost:
    """An estimate of what taking or restoring a snapshot costs."""

    size: int
    files: int
    to_write: int
    """Bytes that would have to be written."""


class ResourceDriver(Protocol):
    """Manages resources of one kind."""

    @property
    def kind(self) -> str:
        """The kind of resource: ``directory``."""
        ...

    @property
    def method(self) -> str:
        """How snapshots are taken, with its version: ``shadow-tree/1``."""
        ...

    @property
    def capabilities(self) -> frozenset[Capability]:
        """The operations it supports."""
        ...

    def probe(self, place: str) -> Liveness:
        """Return whether the resource exists. Advisory: it may disappear right afterwards."""
        ...

    def measure(self, place: str) -> SnapshotCost:
        """Return what a snapshot would cost, without taking one.

        Raises:
            NotFound: The resource does not exist.
        """
        ...

    def snapshot(self, place: str) -> TakenSnapshot:
        """Store the present state; an unchanged one costs a directory scan.

        When this returns, the snapshot survives a power cut.

        Raises:
            NotFound: The resource does not exist.
            Unsupported: The driver lacks the capability ``snapshot``.
        """
        ...

    def restore(
        self, external: ExtRef, place: str, *, only: Collection[str] | None = None
    ) -> list[FileChange]:
        """Make the resource equal to a snapshot and return what had to change.

        ``only`` leaves every other path alone. Each path changes atomically; repeating the call
        after a crash restores the rest. The caller has taken a snapshot of the present before.

        Raises:
            NotFound: The snapshot is not stored here.
            Unsupported: The driver lacks the capability ``restore``.
        """
        ...

    def fork(self, external: ExtRef, place: str) -> None:
        """Create a new resource from a snapshot, atomically: it is complete or absent.

        Raises:
            InvalidOperation: Something already exists there.
            NotFound: The snapshot is not stored here.
            Unsupported: The driver lacks the capability ``fork``.
        """
        ...

    def discard(self, place: str) -> None:
        """Remove a resource that ``fork`` created, atomically; an absent one is fine.

        Raises:
            InvalidOperation: ``fork`` did not create it.
        """
        ...


class HasFiles(ResourceDriver, Protocol):
    """A driver whose snapshots consist of files that can be listed, read and compared."""

    def list_entries(self, external: ExtRef) -> Iterator[FileEntry]:
        """Yield the entries of a snapshot, directories included, in path order.

        Raises:
            NotFound: The snapshot is not stored here.
        """
        ...

    def read(self, external: ExtRef, path: str) -> bytes:
        """Return a file's bytes or a link's target.

        Raises:
            NotFound: The snapshot does not exist, or has no such file.
        """
        ...

    def compare(self, old: ExtRef | None, new: ExtRef | None) -> list[FileChange]:
        """Return how two snapshots differ, path by path; None is an empty one.

        Raises:
            NotFound: One of them is not stored here.
        """
        ...


@value
class NewContent:
    """What a path becomes."""

    entry: FileEntry
    data: bytes | None = None
    """Bytes that may not be stored yet; None if the entry's digest is that of stored ones."""


@runtime_checkable
class EditsSnapshots(HasFiles, Protocol):
    """A driver that can make a snapshot from another one, without the resource itself."""

    def edit(self, external: ExtRef, changes: Mapping[str, NewContent | None]) -> TakenSnapshot:
        """Store a snapshot that differs from another one in some paths; None removes one.

        A folder that still holds something is not removed.

        Raises:
            NotFound: The other snapshot is not stored here.
            InvalidOperation: A path would be below a file, or a folder in use would become one.
        """
        ...


@runtime_checkable
class HasIgnoreRules(Protocol):
    """A driver whose snapshots leave out some paths."""

    def list_left_out(self, place: str, external: ExtRef) -> list[str]:
        """Return the existing paths that a snapshot does not hold; a folder ends in a slash.

        Raises:
            NotFound: The snapshot is not stored here.
        """
        ...


@runtime_checkable
class TracksForks(Protocol):
    """A driver that records which resources it created."""

    def forked_from(self, place: str) -> ExtRef | None:
        """Return the snapshot that ``fork`` created a resource from; None if it did not."""
        ...


@value
class MissingObject:
    """An object of a snapshot that cannot be read."""

    state: Digest
    path: str
    why: str


class SnapshotStore(Protocol):
    """A store that can say which snapshots it holds."""

    @property
    def external_kind(self) -> str:
        """The kind of its references: ``shadow-tree``."""
        ...

    def list_unknown(self, states: Collection[Digest]) -> frozenset[Digest]:
        """Return the snapshots that are not stored here and, by its records, never were.

        Another data directory on the same machine may hold them.
        """
        ...


@runtime_checkable
class VerifiesSnapshots(SnapshotStore, Protocol):
    """A store that can verify the snapshots it holds."""

    def list_losses(
        self, states: Collection[Digest], report: Callable[[int], None], *, full: bool, limit: int
    ) -> list[MissingObject]:
        """Return missing or damaged objects; ``report`` gets the number of snapshots checked.

        Without ``full`` not every byte is read.
        """
        ...


@runtime_checkable
class RepairsSnapshots(VerifiesSnapshots, Protocol):
    """A store that can replace damaged objects when their content is captured again."""

    def mend(self, *, unreadable: bool) -> int:
        """Move damaged objects aside and return their number; ``unreadable`` adds dependents.

        A dependent may be intact, but it is stored as a difference from an object that is gone. The
        next snapshot of any resource stores whatever is missing.
        """
        ...

    def put_back(self) -> int:
        """Bring back set-aside objects that may be intact and are still missing; return how many.

        They become readable once the objects they depend on are back.
        """
        ...


@value
class GcResult:
    """The result of a garbage collection."""

    removed: int
    """Objects."""
    freed: int
    """Bytes."""
    left: int
    """Objects."""


@runtime_checkable
class CollectsGarbage(SnapshotStore, Protocol):
    """A driver with an object store, which several drivers may share."""

    @property
    def store_name(self) -> str:
        """The store's name. Drivers that share one are collected together: none knows all uses."""
        ...

    def sweep(
        self,
        keep: Collection[Digest],
        *,
        grace_s: float,
        elsewhere: Collection[Digest] = (),
        dry_run: bool = False,
    ) -> GcResult:
        """Delete objects that no snapshot in ``keep`` or within the grace period needs.

        ``keep`` and ``elsewhere`` name snapshots of every kind in the store. Those of ``elsewhere``
        need not be in it, but are kept if they are.

        Raises:
            SnapshotIncomplete: Something to keep is missing or damaged. Nothing was deleted.
        """
        ...
