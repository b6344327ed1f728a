"""Keepers: what looks after one kind of resource.

A keeper is one module and one entry point of the group ``turntree.resources``. It takes snapshots
of a place, brings them back and forks them, and knows nothing of turns, sessions or a ledger. Its
methods block; whoever calls them from an event loop does so in a thread. A keeper that lacks a
capability raises ``Unsupported`` and leaves everything as it was. Whatever a keeper was doing when
its process died can be asked for again.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Literal, Protocol, runtime_checkable

from turntree.core.ids import Digest
from turntree.core.ref import ExtRef
from turntree.core.value import value
from turntree.resources.resource import Capability, FileChange, FileEntry, Liveness


@value
class TakenSnapshot:
    """A state that was kept."""

    external: ExtRef
    size: int
    """Bytes of the state, were it brought back."""
    files: int
    stored: int
    """Bytes that had to be written in order to keep it."""
    consistency: Literal["exact", "crash_consistent", "inconsistent"] = "exact"


@value
class SnapshotCost:
    """What keeping or bringing back a state would take, as far as one can tell beforehand."""

    size: int
    files: int
    to_write: int
    """Bytes that would have to be written."""


class ResourceDriver(Protocol):
    """Looks after resources of one kind."""

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
        """What it can do."""
        ...

    def probe(self, place: str) -> Liveness:
        """Say whether the place is there. Advice: it may be gone a moment later."""
        ...

    def measure(self, place: str) -> SnapshotCost:
        """Say what a snapshot would take, without taking one.

        Raises:
            NotFound: There is nothing at the place.
        """
        ...

    def snapshot(self, place: str) -> TakenSnapshot:
        """Keep the present state; an unchanged one costs a look at what is there.

        When this returns, the state survives a power cut.

        Raises:
            NotFound: There is nothing at the place.
            Unsupported: It has no capability ``snapshot``.
        """
        ...

    def restore(
        self, external: ExtRef, place: str, *, only: Collection[str] | None = None
    ) -> list[FileChange]:
        """Make the place equal to a state and return what had to change.

        ``only`` leaves every other path alone. Each path changes at once or not at all; asked
        again after a crash, the rest follows. The caller has kept the present state before.

        Raises:
            NotFound: The state is not kept here.
            Unsupported: It has no capability ``restore``.
        """
        ...

    def fork(self, external: ExtRef, place: str) -> None:
        """Make a new place in a state, all at once: it is whole or not there.

        Raises:
            Refused: Something is there already.
            NotFound: The state is not kept here.
            Unsupported: It has no capability ``fork``.
        """
        ...

    def discard(self, place: str) -> None:
        """Remove a place that ``fork`` made, all at once; nothing there is fine.

        Raises:
            Refused: ``fork`` did not make it.
        """
        ...


class HasFiles(ResourceDriver, Protocol):
    """A keeper whose states are made of files, so that people can look into them."""

    def list_entries(self, external: ExtRef) -> Iterator[FileEntry]:
        """Yield what a state holds, directories too, in the order of paths.

        Raises:
            NotFound: The state is not kept here.
        """
        ...

    def read(self, external: ExtRef, path: str) -> bytes:
        """Return a file's bytes or a link's target.

        Raises:
            NotFound: There is no such state, or no such file in it.
        """
        ...

    def compare(self, old: ExtRef | None, new: ExtRef | None) -> list[FileChange]:
        """Return how two states differ, path by path; None is an empty one.

        Raises:
            NotFound: One of them is not kept here.
        """
        ...


@runtime_checkable
class HasIgnoreRules(Protocol):
    """A keeper whose states do not hold everything that stands at a place."""

    def list_left_out(self, place: str, external: ExtRef) -> list[str]:
        """Return what stands at a place and is not in a state of it; a folder ends in a slash.

        Raises:
            NotFound: The state is not kept here.
        """
        ...


@runtime_checkable
class TracksForks(Protocol):
    """A keeper that knows which places it made."""

    def forked_from(self, place: str) -> ExtRef | None:
        """Return the state that ``fork`` made a place from; None if it did not make it."""
        ...


@value
class MissingObject:
    """Something that a state is made of and that cannot be read."""

    state: Digest
    path: str
    why: str


class SnapshotStore(Protocol):
    """What knows which states it keeps."""

    @property
    def external_kind(self) -> str:
        """What its states are called in references: ``shadow-tree``."""
        ...

    def list_unknown(self, states: Collection[Digest]) -> frozenset[Digest]:
        """Return those of some states that are not kept here and, by all notes, never were.

        Another home of the same machine may keep them.
        """
        ...


@runtime_checkable
class VerifiesSnapshots(SnapshotStore, Protocol):
    """What can tell whether the states that it keeps are whole."""

    def list_losses(
        self, states: Collection[Digest], report: Callable[[int], None], *, full: bool, limit: int
    ) -> list[MissingObject]:
        """Return what is missing of states or damaged, and tell how many states are done.

        Without ``full`` not every byte is read.
        """
        ...


@runtime_checkable
class RepairsSnapshots(VerifiesSnapshots, Protocol):
    """What can take back what was damaged, if somebody brings it again."""

    def mend(self, *, unreadable: bool) -> int:
        """Let damaged objects make way and return how many did; with ``unreadable`` others too.

        Those may be sound, but stand on something that is gone. The next snapshot of any place
        keeps whatever of it is missing.
        """
        ...

    def put_back(self) -> int:
        """Take in again what made way, may be sound and nobody brought; return how many came.

        Once what it stands on is back, it can be read.
        """
        ...


@value
class GcResult:
    """What sweeping removed and left."""

    removed: int
    """Objects."""
    freed: int
    """Bytes."""
    left: int
    """Objects."""


@runtime_checkable
class CollectsGarbage(SnapshotStore, Protocol):
    """What keeps states in a store of its own, which several keepers may share."""

    @property
    def store_name(self) -> str:
        """Which store that is. Whatever shares one is swept at once: no kind knows the others'."""
        ...

    def sweep(
        self,
        keep: Collection[Digest],
        *,
        grace_s: float,
        elsewhere: Collection[Digest] = (),
        dry_run: bool = False,
    ) -> GcResult:
        """Remove what no state needs that is to be kept or was taken within the grace period.

        ``keep`` and ``elsewhere`` name states of every kind in the store. Those of ``elsewhere``
        need not be in it, but stay if they are.

        Raises:
            Incomplete: Something that is to be kept is missing or damaged. Nothing was removed.
        """
        ...
