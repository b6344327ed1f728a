"""Stores that read replicas and write to the journal, in place of those on the database.

Each is the store that it replaces, with what a revert and its undo need done from files. All else
goes to the database, which is closed: it raises ``DatabaseUnavailable``.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from turntree.core.canonical import digest_bytes
from turntree.core.errors import Ambiguous, DatabaseUnavailable, NotFound
from turntree.core.event import Event, SealedEvent, record
from turntree.core.ids import Digest, PlanId, ResourceId, SnapshotId, Timestamp, TurnId
from turntree.core.ref import ExtRef
from turntree.core.thread import MoveResult, ThreadTurn
from turntree.core.value import value
from turntree.ledger.revisions import PREFIX_CHARS_MIN, ResolvedRevision, RevisionResolver
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.resources.offline.journal import JournalEntry, OperationJournal
from turntree.resources.offline.replica import Replica, ReplicaTurn
from turntree.resources.plans.plan import Note, PlanCommit, fold
from turntree.resources.plans.store import PlanStore
from turntree.resources.resource import (
    CallStates,
    Lease,
    ResolvedTurnSnapshot,
    Resource,
    Snapshot,
)
from turntree.resources.store import LeaseStore, ResourceStore, TurnSnapshotStore

_ALGORITHM: Final = "sha256:"


@dataclass(slots=True)
class OfflineState:
    """What is known without the database, and what this process is about to write."""

    journal: OperationJournal
    replicas: Sequence[Replica]
    unknown: Sequence[Resource] = ()
    """Resources that the ledger may not have yet."""
    unread: frozenset[TurnId] = frozenset()
    """Turns that the ledger does not have yet."""
    snapshots: list[Snapshot] = field(default_factory=list[Snapshot])
    """Recorded by this process and not written yet."""
    objects: dict[Digest, bytes] = field(default_factory=dict[Digest, bytes])
    kept: dict[tuple[ResourceId, ExtRef], Snapshot] = field(
        default_factory=dict[tuple[ResourceId, ExtRef], Snapshot]
    )
    held: ExitStack = field(default_factory=ExitStack)
    """Holds the journal's lock while a plan is executed."""

    @property
    def turns(self) -> list[ReplicaTurn]:
        """All turns, newest first."""
        found = [one for replica in self.replicas for one in replica.turns]
        return sorted(found, key=lambda one: one.pinned.pin.ended_at, reverse=True)

    @property
    def entries(self) -> list[JournalEntry]:
        """Everything that is written and that the ledger does not have."""
        return [one for plan in self.journal.list_plans() for one in self.journal.read(plan)]

    def write(
        self, facts: Sequence[SealedEvent], notes: Iterable[tuple[Timestamp, Note]] = ()
    ) -> None:
        """Write events with everything that they refer to."""
        events = tuple(fact.event for fact in facts)
        self.journal.check_next(events)
        entry = JournalEntry(
            tuple(self.unknown), tuple(self.snapshots), dict(self.objects), events, tuple(notes)
        )
        self.journal.append(PlanId(events[0].stream), entry)
        self.snapshots.clear()
        self.objects.clear()


@value
class OfflineThreads(ThreadStore):
    """The turns of the replicas."""

    state: OfflineState

    async def get_turn(self, turn: TurnId) -> ThreadTurn:
        """Return a turn; its title is its only message."""
        for one in self.state.turns:
            if one.placed is not None and one.pinned.pin.turn == turn:
                return one.placed
        raise DatabaseUnavailable(f"the turn {turn} is not known here")


@value
class OfflineRevisions(RevisionResolver):
    """Resolves the addresses of turns in the replicas."""

    # After fields with defaults, this one needs a default too; it is always given.
    state: OfflineState | None = None

    async def resolve(self, text: str) -> ResolvedRevision:
        """Return the turn of an id or of a part of a digest."""
        assert self.state is not None, "it is given"
        asked = text.removeprefix(_ALGORITHM)
        found = {
            one.placed.turn.id
            for one in self.state.turns
            if one.placed is not None
            and (
                one.placed.turn.id == text
                or (
                    len(asked) >= PREFIX_CHARS_MIN
                    and one.placed.turn.digest.removeprefix(_ALGORITHM).startswith(asked)
                )
            )
        }
        if len(found) > 1:
            raise Ambiguous(f"{text} names {len(found)} turns of this folder")
        if not found:
            raise DatabaseUnavailable(f"{text} is no turn that is known here")
        return ResolvedRevision(found.pop())


@value
class OfflinePins(TurnSnapshotStore):
    """The turn snapshots of the replicas."""

    state: OfflineState

    async def list_pins(self, turns: Sequence[TurnId]) -> list[ResolvedTurnSnapshot]:
        """Return the turn snapshots of turns, in the order of the turns given."""
        pins = [one.pinned for one in self.state.turns]
        return [one for turn in turns for one in pins if one.pin.turn == turn]

    async def list_newest(self, resource: ResourceId, *, limit: int) -> list[ResolvedTurnSnapshot]:
        """Return the turn snapshots of the turns that last worked on a resource, newest first."""
        shown = [one.pinned for one in self.state.turns if one.placed is not None]
        return [one for one in shown if one.resource.id == resource][:limit]

    async def list_pins_between(
        self, resource: ResourceId, since: Timestamp, until: Timestamp
    ) -> list[ResolvedTurnSnapshot]:
        """Return the turn snapshots of a resource whose turns ran in an interval, oldest first."""
        pins = [one.pinned for one in reversed(self.state.turns)]
        return [
            one
            for one in pins
            if one.resource.id == resource
            and one.pin.ended_at >= since
            and one.pin.began_at <= until
        ]

    async def list_calls(
        self, resource: ResourceId, turns: Sequence[TurnId]
    ) -> dict[TurnId, list[CallStates]]:
        """Return the states around the tool calls of turns, as far as these were observed."""
        pins = [one for one in await self.list_pins(turns) if one.resource.id == resource]
        return {one.pin.turn: list(one.pin.calls) for one in pins}

    async def list_late(self, turns: Sequence[TurnId]) -> dict[TurnId, int]:
        """Return the turns whose first state was recorded too late, and by how much."""
        pins = [one.pin for one in await self.list_pins(turns)]
        return {pin.turn: pin.late_ms for pin in pins if pin.late_ms is not None}

    async def list_written(self, turns: Sequence[TurnId]) -> dict[TurnId, set[str]]:
        """Return the paths that turns themselves report writing."""
        asked = {*turns}
        found = {one.pinned.pin.turn: {*one.written} for one in self.state.turns}
        return {turn: paths for turn, paths in found.items() if turn in asked and paths}

    async def list_spawned(
        self, turns: Sequence[TurnId], by: Sequence[TurnId]
    ) -> frozenset[TurnId]:
        """Return which turns belong to sessions that one of the turns in ``by`` spawned."""
        asked, parents = {*turns}, {*by}
        return frozenset(
            one.pinned.pin.turn
            for one in self.state.turns
            if one.pinned.pin.turn in asked and parents & {*one.spawned_by}
        )


@value
class OfflineResources(ResourceStore):
    """The resources of the replicas; snapshots go to the journal."""

    state: OfflineState

    async def get(self, resource: ResourceId) -> Resource:
        """Return a resource."""
        for replica in self.state.replicas:
            if replica.resource.id == resource:
                return replica.resource
        raise DatabaseUnavailable(f"the resource {resource} is not known here")

    async def find(self, kind: str, host: str, place: str) -> Resource | None:
        """Return the resource at a location, or None."""
        for replica in self.state.replicas:
            found = replica.resource
            if (found.kind, found.host, found.place) == (kind, host, place):
                return found
        return None

    async def keep(self, snapshot: Snapshot, *, by: str) -> Snapshot:  # noqa: ARG002
        """Note a snapshot for the journal; the same state is noted once."""
        key = snapshot.resource, snapshot.external
        known = self.state.kept.get(key) or self._find(key)
        if known is not None:
            return known
        self.state.kept[key] = snapshot
        self.state.snapshots.append(snapshot)
        return snapshot

    async def get_snapshot(self, snapshot: SnapshotId) -> Snapshot:
        """Return a snapshot that a turn has or that the journal holds."""
        for one in (*self._list_known(), *self.state.kept.values()):
            if one.id == snapshot:
                return one
        raise DatabaseUnavailable(f"the snapshot {snapshot} is not known here")

    def _find(self, key: tuple[ResourceId, ExtRef]) -> Snapshot | None:
        known = self._list_known()
        return next((one for one in known if (one.resource, one.external) == key), None)

    def _list_known(self) -> list[Snapshot]:
        """Return the snapshots that the ledger has, or will have before it reads a new plan."""
        state = self.state
        turns = [one.pinned for one in state.turns if one.pinned.pin.turn not in state.unread]
        told = [one for pinned in turns for one in (pinned.before, pinned.after)]
        written = [one for entry in state.entries for one in entry.snapshots]
        return [*(one for one in told if one is not None), *written]


@value
class OfflineObjects(Ledger):
    """Objects of the journal."""

    state: OfflineState

    async def put_object(self, data: bytes) -> Digest:
        """Note bytes for the journal."""
        digest = digest_bytes(data)
        self.state.objects[digest] = data
        return digest

    async def get_object(self, digest: Digest) -> bytes:
        """Return bytes of the journal."""
        for entry in (*self.state.entries, JournalEntry(objects=self.state.objects)):
            if digest in entry.objects:
                return entry.objects[digest]
        raise DatabaseUnavailable(f"the object {digest} is not known here")


@value
class OfflineLeases(LeaseStore):
    """The journal's lock: one process carries out operations at a time, whatever the resource."""

    state: OfflineState

    async def find_lease(self, resource: ResourceId) -> Lease | None:  # noqa: ARG002
        """Return None: the lock of a process ends with it."""
        return None

    async def lease(
        self,
        resource: ResourceId,
        holder: str,
        until: Timestamp,
        now: Timestamp,  # noqa: ARG002  (the lock does not expire)
    ) -> Lease | None:
        """Take the lock; None while another process has it."""
        held = self.state.held
        if not held.enter_context(self.state.journal.alone()):
            return None
        return Lease(resource, holder, until)

    async def release(self, resource: ResourceId, holder: str) -> None:  # noqa: ARG002
        """Release the lock."""
        self.state.held.close()


@value
class OfflinePlans(PlanStore):
    """Plans in the journal, and the reverts and picks of the replicas."""

    state: OfflineState

    async def begin(self, fact: SealedEvent) -> None:
        """Record a plan before its first step."""
        self.state.write([fact])

    async def append(self, fact: SealedEvent, *, notes: Sequence[Note] = ()) -> bool:
        """Record a step and what it did to resources."""
        self.state.write([fact], [(fact.event.at, note) for note in notes])
        return True

    async def commit(
        self,
        facts: Sequence[SealedEvent],
        commitment: PlanCommit,  # noqa: ARG002  (of a revert, the events say it all)
    ) -> MoveResult | None:
        """Record that a revert is complete."""
        self.state.write(facts)
        return None

    async def read(self, plan: PlanId) -> list[SealedEvent]:
        """Return the events of a plan, in order."""
        known = self._read_all().get(plan)
        if known is None:
            raise NotFound(f"there is no plan {plan}")
        return [record(event) for event in known]

    async def list_open(self) -> list[PlanId]:
        """Return the plans of the journal that have not ended, oldest first."""
        plans = self._read_all()
        return [plan for plan in self.state.journal.list_plans() if fold(plans[plan]).end is None]

    async def list_merges(self, *, limit: int) -> list[list[Event]]:
        """Return the events of the newest completed reverts and picks, oldest plan first."""
        found = sorted(self._read_all().items())
        return [events for _, events in found if fold(events).end == "completed"][-limit:]

    def _read_all(self) -> Mapping[PlanId, list[Event]]:
        plans: dict[PlanId, list[Event]] = {}
        for replica in self.state.replicas:
            plans |= {PlanId(merge[0].stream): list(merge) for merge in replica.merges}
        for plan in self.state.journal.list_plans():
            entries = self.state.journal.read(plan)
            # A crash may have come before the first line was complete.
            if events := [event for entry in entries for event in entry.events]:
                plans[plan] = events
        return plans
