"""Resources in the ledger: which there are, who holds them, what was kept of them, what pins it."""

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
    """A pin with the states it names."""

    pin: TurnSnapshot
    resource: Resource
    after: Snapshot
    before: Snapshot | None


@value
class ResourceAfterTurn:
    """How a resource was left that is gone."""

    snapshot: SnapshotId
    sessions: tuple[SessionId, ...]
    """Who worked on it."""


class Resources(Protocol):
    """Facts about resources. Each write leaves its event in the same transaction."""

    async def ensure(self, resource: Resource, *, by: str) -> Resource:
        """Return the resource of that kind at that place of that machine; note it if it is new."""
        ...

    async def get(self, resource: ResourceId) -> Resource:
        """Return a resource.

        Raises:
            NotFound: No such resource.
        """
        ...

    async def find(self, kind: str, host: str, place: str) -> Resource | None:
        """Return the resource at a place."""
        ...

    async def list_page(self, *, after: str = ..., limit: int = 1000) -> list[Resource]:
        """Return resources, oldest first."""
        ...

    async def keep(self, snapshot: Snapshot, *, by: str) -> Snapshot:
        """Note a state that was kept; the same state of the same resource is noted once.

        Raises:
            NotFound: No such resource.
            Refused: The resource has no capability ``snapshot``.
        """
        ...

    async def get_snapshot(self, snapshot: SnapshotId) -> Snapshot:
        """Return a state that was noted.

        Raises:
            NotFound: No such snapshot.
        """
        ...

    async def list_pinned_kinds(self) -> list[str]:
        """Return the kinds of the resources that turns pin."""
        ...

    async def list_pinned_states(self, kind: str, host: str) -> dict[str, bool]:
        """Return where the bytes of states are that turns pin, and whether a host has to have them.

        What was pinned on another machine is kept there, or perhaps here under another name.
        """
        ...


class Attachments(Protocol):
    """Which session works on what. Each write leaves its event in the same transaction."""

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
        """Let a session work on a resource; False if it did already.

        Raises:
            NotFound: No such resource or session.
        """
        ...

    async def detach(
        self, resource: ResourceId, session: SessionId, *, by: str, at: Timestamp
    ) -> bool:
        """Take a resource away from a session; False if it had none."""
        ...

    async def list_attached(self, session: SessionId) -> list[tuple[Resource, AttachMode]]:
        """Return what a session works on."""
        ...

    async def list_holders(
        self, resource: ResourceId, *, since: Timestamp | None = None
    ) -> list[SessionId]:
        """Return the sessions that work on a resource, perhaps only those that began lately."""
        ...

    async def find_last_holder(
        self, kind: str, host: str, places: Sequence[str]
    ) -> SessionId | None:
        """Return the active session with turns that last worked at one of some places.

        The first place at which anybody works counts. A subagent's session is returned only where
        there is no other.
        """
        ...

    async def has_holders(
        self, resource: ResourceId, *, since: Timestamp | None = None, but: SessionId | None = None
    ) -> bool:
        """Say whether any session works on a resource, closed ones too, and not which.

        Perhaps only of those that began lately, or of all but one.
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
        """Take a resource that goes away from everybody, and note the state it is left in.

        Returns who worked on it, without those that are closed to whoever looks.

        Raises:
            Refused: A session that is closed works on it, and ``force`` was not given.
        """
        ...

    async def find_left(self, resource: ResourceId) -> ResourceAfterTurn | None:
        """Return how a resource was left when it last went."""
        ...

    async def newest_event(self, session: SessionId) -> EventRef | None:
        """Return the newest event of a session: it says what is attached by now."""
        ...


class TurnSnapshots(Protocol):
    """In which states turns found and left resources."""

    async def pin(self, pin: TurnSnapshot, *, by: str, at: Timestamp) -> bool:
        """Note in which states a turn found and left a resource; False if that is known.

        Raises:
            NotFound: No such turn, resource or snapshot of it.
        """
        ...

    async def list_pins(self, turns: Sequence[TurnId]) -> list[ResolvedTurnSnapshot]:
        """Return the pins of turns, in the order of the turns given."""
        ...

    async def list_pinned_along(self, head: TurnId, *, limit: int) -> list[tuple[TurnId, int]]:
        """Return the turns of a thread that pin anything, newest first, with their depths."""
        ...

    async def list_pins_between(
        self, resource: ResourceId, since: Timestamp, until: Timestamp
    ) -> list[ResolvedTurnSnapshot]:
        """Return the pins of a resource whose turns were at work in an interval, oldest first."""
        ...

    async def list_written(self, turns: Sequence[TurnId]) -> dict[TurnId, set[str]]:
        """Return the paths that turns themselves say they wrote, as their tools spelt them."""
        ...

    async def list_below(self, head: TurnId, depth: int) -> list[tuple[TurnId, int]]:
        """Return the turns of a thread that lie below a depth, oldest first, with their depths."""
        ...

    async def list_spawned(
        self, turns: Sequence[TurnId], by: Sequence[TurnId]
    ) -> frozenset[TurnId]:
        """Return which turns belong to sessions that others of the turns given began."""
        ...


class Leases(Protocol):
    """What may be out of date the moment it is read. Nothing here enters a digest."""

    async def note_liveness(self, resource: ResourceId, status: Liveness, at: Timestamp) -> None:
        """Note whether a resource was there."""
        ...

    async def lease(
        self, resource: ResourceId, holder: str, until: Timestamp, now: Timestamp
    ) -> Lease | None:
        """Take or renew a lease; None while somebody else's has not run out."""
        ...

    async def find_lease(self, resource: ResourceId) -> Lease | None:
        """Return the newest lease of a resource, whether or not it has run out."""
        ...

    async def release(self, resource: ResourceId, holder: str) -> None:
        """Give a lease back."""
        ...
