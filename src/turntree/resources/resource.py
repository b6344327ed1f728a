"""Resources: external state that can be snapshotted, restored and forked together with a turn.

A *resource* is something turns work on: a directory, a file, later a container. A *snapshot* is one
of its states, stored outside the ledger and referenced by digest. A *turn snapshot* links a turn to
the states before and after it. A *handle* is a live connection that no snapshot can restore.

This module defines the values. It does not know how a state is stored, nor any path beyond the text
that locates the resource.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal, get_args

from turntree.core.canonical import Json
from turntree.core.ids import Digest, ResourceId, RunId, SessionId, SnapshotId, Timestamp, TurnId
from turntree.core.message_context import ChangeKind
from turntree.core.ref import ExtRef
from turntree.core.ref import to_json as ref_to_json
from turntree.core.value import value

Capability = Literal["snapshot", "restore", "fork", "share", "migrate", "checkpoint"]
CAPABILITIES: Final[tuple[Capability, ...]] = get_args(Capability)
HandleCapability = Literal["attach", "exec", "kill", "logs"]
Liveness = Literal["unknown", "alive", "dead"]
AttachMode = Literal["ro", "rw"]


@value
class Scope:
    """The owner of a resource."""

    agent_id: str | None = None
    """A principal: ``agent:atlas``."""
    run_id: RunId | None = None
    session_id: SessionId | None = None


@value
class Resource:
    """Something that turns work on."""

    id: ResourceId
    kind: str
    """``directory``, ``file``, or another kind with an installed driver."""
    host: str
    """The machine it is on: the same path on another machine is another resource."""
    place: str
    """How its driver finds it there: an absolute path, the name of a volume."""
    name: str
    """Its display name."""
    capabilities: frozenset[Capability]
    imperative: bool
    """Whether it has effects that no snapshot holds."""
    created_at: Timestamp
    scope: Scope = field(default_factory=Scope)
    part_of: ResourceId | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])


@value
class Snapshot:
    """A state of a resource; the driver that took it stores the bytes."""

    id: SnapshotId
    resource: ResourceId
    method: str
    """How it was taken: ``shadow-tree/1``."""
    external: ExtRef
    """Where the bytes are; the id ends in their sha256."""
    size: int
    """Bytes of the state when restored."""
    at: Timestamp
    restorable: bool = True
    consistency: Literal["exact", "crash_consistent", "inconsistent"] = "exact"
    """exact: nothing changed while it was taken. crash_consistent: as after a power cut.

    inconsistent: files changed while it was taken.
    """

    @property
    def digest(self) -> Digest:
        """The digest of what the snapshot holds."""
        return Digest(self.external.id)


@value
class Handle:
    """A live connection to a resource: a process, a socket. Never restorable."""

    id: str
    resource: ResourceId
    provider: str
    provider_id: str
    capabilities: frozenset[HandleCapability] = frozenset()
    """What can be done through it."""


@value
class Lease:
    """Who may change a resource until when. Advisory: it expires by itself."""

    resource: ResourceId
    holder: str
    expires_at: Timestamp


@value
class CallStates:
    """The states of a resource before and after one tool call of a turn."""

    began_at: Timestamp
    ended_at: Timestamp
    before: ExtRef
    after: ExtRef


@value
class TurnSnapshot:
    """The states of a resource before and after a turn."""

    turn: TurnId
    resource: ResourceId
    after: SnapshotId
    before: SnapshotId | None
    """None if no snapshot was taken when the turn began."""
    mode: AttachMode
    began_at: Timestamp
    ended_at: Timestamp
    calls: tuple[CallStates, ...] = ()
    """Its tool calls, if they were observed; ``list_calls`` reads them back."""
    late_ms: int | None = None
    """How long after its beginning the state before it was recorded, if files changed in between;
    ``list_late`` reads it back."""


EntryKind = Literal["file", "symlink", "directory"]


@value
class FileEntry:
    """One path inside a snapshot that is made of files."""

    path: str
    """Relative to the resource, with slashes; bytes that are not UTF-8 are surrogate-escaped."""
    kind: EntryKind
    mode: int
    """Permission bits, 0o000 to 0o7777."""
    size: int
    digest: Digest | None
    """Of a file's bytes or a link's target; a directory has none here."""


@value
class FileChange:
    """How one path differs between two states."""

    path: str
    kind: ChangeKind
    old: FileEntry | None
    new: FileEntry | None


def describe(resource: Resource) -> dict[str, Json]:
    """Return what an event records about a resource besides its id."""
    scope: dict[str, Json] = {
        "agent_id": resource.scope.agent_id,
        "run_id": resource.scope.run_id,
        "session_id": resource.scope.session_id,
    }
    said: dict[str, Json] = {
        "kind": resource.kind,
        "host": resource.host,
        "location": resource.place,
        "name": resource.name,
        "capabilities": sorted(resource.capabilities),
        "imperative": resource.imperative or None,
        "scope": {name: value for name, value in scope.items() if value is not None} or None,
        "part_of": resource.part_of,
        "metadata": dict(resource.metadata) or None,
    }
    return {name: value for name, value in said.items() if value is not None}


def is_made_anew(made: Resource, known_as: ResourceId) -> bool:
    """Return whether a new resource replaces a different one that keeps its id.

    A resource recreated from a state of its own is the same one, restored.
    """
    return known_as not in (made.id, made.metadata.get("forked_from"))


def describe_state(snapshot: Snapshot) -> dict[str, Json]:
    """Return what an event records about a snapshot."""
    return {
        "resource_ref": snapshot.resource,
        "snapshot_ref": snapshot.id,
        "external_ref": ref_to_json(snapshot.external),
        "method": snapshot.method,
        "size_bytes": snapshot.size,
        "consistency": snapshot.consistency,
        "restorable": snapshot.restorable,
        "outcome": "ok",
    }


def describe_pin(pin: TurnSnapshot) -> dict[str, Json]:
    """Return what the turn's event records about a turn snapshot."""
    said: dict[str, Json] = {
        "resource_ref": pin.resource,
        "after_ref": pin.after,
        "before_ref": pin.before,
        "mode": pin.mode,
        "started_at": pin.began_at,
        "ended_at": pin.ended_at,
        "calls": [_describe_call(call) for call in pin.calls] or None,
        "late_ms": pin.late_ms,
    }
    return {name: value for name, value in said.items() if value is not None}


def _describe_call(call: CallStates) -> dict[str, Json]:
    return {
        "started_at": call.began_at,
        "ended_at": call.ended_at,
        "before": ref_to_json(call.before),
        "after": ref_to_json(call.after),
    }


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
