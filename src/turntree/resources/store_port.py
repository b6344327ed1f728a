"""The port of resources in the ledger: attachments, snapshots, turn snapshots and leases."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.ids import ResourceId, SessionId, SnapshotId, Timestamp, TurnId
from turntree.core.ref import EventRef
from turntree.core.value import value
from turntree.resources.resource import (
    AttachMode,
    Handle,
    Lease,
    Liveness,
    Resource,
    Snapshot,
    TurnSnapshot,
)


@value
class ResolvedTurnSnapshot:
    """A turn snapshot with its resource and the snapshots it names."""

    pin: TurnSnapshot
    resource: Resource
    after: Snapshot
    before: Snapshot | None


@value
class ResourceAfterTurn:
    """How a removed resource was left."""

    snapshot: SnapshotId
    sessions: tuple[SessionId, ...]
    """The sessions that worked on it."""


class Resources(Protocol):
    """Resources and snapshots. Each write records its event in the same transaction."""

    async def ensure(self, resource: Resource, *, by: str) -> Resource:
        """Return the resource of that kind at that location and host; register it if it is new."""
        ...

    async def get(self, resource: ResourceId) -> Resource:
        """Return a resource.

        Raises:
            NotFound: No such resource.
        """
        ...

    async def find(self, kind: str, host: str, place: str) -> Resource | None:
        """Return the resource at a location, or None."""
        ...

    async def list_page(self, *, after: str = ..., limit: int = 1000) -> list[Resource]:
        """Return resources, oldest first."""
        ...

    async def keep(self, snapshot: Snapshot, *, by: str) -> Snapshot:
        """Record a snapshot; the same state of the same resource is recorded once.

        Raises:
            NotFound: No such resource.
            InvalidOperation: The resource lacks the capability ``snapshot``.
        """
        ...

    async def get_snapshot(self, snapshot: SnapshotId) -> Snapshot:
        """Return a recorded snapshot.

        Raises:
            NotFound: No such snapshot.
        """
        ...

    async def list_pinned_kinds(self) -> list[str]:
        """Return the kinds of the resources that have turn snapshots."""
        ...

    async def list_pinned_states(self, kind: str, host: str) -> dict[str, bool]:
        """Return the snapshots that turns refer to, and whether a host must have their bytes.

        A snapshot taken on another machine is stored there, or here under another host name.
        """
        ...


class Attachments(Protocol):
    """Which session works on what. Each write records its event in the same transaction."""

    async def attach(
        self,
        resource: ResourceId,
        session: SessionId,
        mode: AttachMode,
        *,
        by: str,
        at: Timestamp,
        handle: Handle | None = None,
    ) -> bool:
        """Attach a resource to a session; False if it was attached already.

        Raises:
            NotFound: No such resource or session.
        """
        ...

    async def detach(
        self, resource: ResourceId, session: SessionId, *, by: str, at: Timestamp
    ) -> bool:
        """Detach a resource from a session; False if it was not attached."""
        ...

    async def list_attached(self, session: SessionId) -> list[tuple[Resource, AttachMode]]:
        """Return the resources that a session works on."""
        ...

    async def list_holders(
        self, resource: ResourceId, *, since: Timestamp | None = None
    ) -> list[SessionId]:
        """Return the sessions that work on a resource, or only those attached since a timestamp."""
        ...

    async def find_last_holder(
        self, kind: str, host: str, places: Sequence[str]
    ) -> SessionId | None:
        """Return the active session with turns that last worked at one of some locations.

        The first location with a session counts. A subagent's session is returned only where there
        is no other.
        """
        ...

    async def has_holders(
        self, resource: ResourceId, *, since: Timestamp | None = None, but: SessionId | None = None
    ) -> bool:
        """Return whether any session works on a resource, including hidden ones.

        ``since`` limits this to sessions attached later; ``but`` leaves one session out.
        """
        ...

    async def leave(
        self,
        resource: ResourceId,
        snapshot: SnapshotId,
        *,
        by: str,
        at: Timestamp,
        force: bool = False,
    ) -> ResourceAfterTurn:
        """Detach a resource from all sessions and record its last snapshot.

        Returns the sessions that worked on it, without those hidden from the caller.

        Raises:
            InvalidOperation: A hidden session works on it, and ``force`` was not given.
        """
        ...

    async def find_left(self, resource: ResourceId) -> ResourceAfterTurn | None:
        """Return how a resource was left when it was last removed, or None."""
        ...

    async def newest_event(self, session: SessionId) -> EventRef | None:
        """Return the newest event of a session: it says what is attached by now."""
        ...


class TurnSnapshots(Protocol):
    """The states of resources before and after turns."""

    async def pin(self, pin: TurnSnapshot, *, by: str, at: Timestamp) -> bool:
        """Record the snapshots before and after a turn; False if they are recorded already.

        Raises:
            NotFound: No such turn, resource or snapshot of it.
        """
        ...

    async def list_pins(self, turns: Sequence[TurnId]) -> list[ResolvedTurnSnapshot]:
        """Return the turn snapshots of turns, in the order of the turns given."""
        ...

    async def list_pinned_along(self, head: TurnId, *, limit: int) -> list[tuple[TurnId, int]]:
        """Return the turns of a thread that have snapshots, newest first, with their depths."""
        ...

    async def list_pins_between(
        self, resource: ResourceId, since: Timestamp, until: Timestamp
    ) -> list[ResolvedTurnSnapshot]:
        """Return the turn snapshots of a resource whose turns ran in an interval, oldest first."""
        ...

    async def list_written(self, turns: Sequence[TurnId]) -> dict[TurnId, set[str]]:
        """Return the paths that turns themselves report writing, as their tools spelled them."""
        ...

    async def list_below(self, head: TurnId, depth: int) -> list[tuple[TurnId, int]]:
        """Return the turns of a thread below a depth, oldest first, with their depths."""
        ...

    async def list_spawned(
        self, turns: Sequence[TurnId], by: Sequence[TurnId]
    ) -> frozenset[TurnId]:
        """Return which turns belong to sessions that one of the turns in ``by`` spawned."""
        ...


class Leases(Protocol):
    """Advisory data that may be out of date when it is read. Nothing here enters a digest."""

    async def note_liveness(self, resource: ResourceId, status: Liveness, at: Timestamp) -> None:
        """Record whether a resource existed."""
        ...

    async def lease(
        self, resource: ResourceId, holder: str, until: Timestamp, now: Timestamp
    ) -> Lease | None:
        """Acquire or renew a lease; None while another holder's has not expired."""
        ...

    async def find_lease(self, resource: ResourceId) -> Lease | None:
        """Return the newest lease of a resource, expired or not."""
        ...

    async def release(self, resource: ResourceId, holder: str) -> None:
        """Release a lease."""
        ...
