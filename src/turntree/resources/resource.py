"""Resources: what lies outside of the ledger and can be kept, brought back and forked with a turn.

A *resource* is a place that turns work on: a folder, a file, later a container. A *snapshot* is
one of its states, kept elsewhere and pointed at. A *pin* says in which state a turn found a
resource and in which it left it. A *handle* is a live grip that no snapshot can bring back.

This module knows what they are. It must never know how a state is kept, nor any path of a machine
beyond the text that names the place.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Final, Literal, get_args

from turntree.core.canonical import Json
from turntree.core.ids import Digest, ResourceId, SessionId, SnapshotId, Timestamp, TurnId
from turntree.core.message_context import ChangeKind
from turntree.core.ref import ExtRef
from turntree.core.ref import to_json as ref_to_json
from turntree.core.value import value

Capability = Literal["snapshot", "restore", "fork", "share", "migrate", "checkpoint"]
CAPABILITIES: Final[tuple[Capability, ...]] = get_args(Capability)
Liveness = Literal["unknown", "alive", "dead"]
AttachMode = Literal["ro", "rw"]


@value
class Scope:
    """Whose resource it is."""

    agent_id: str | None = None
    run_id: str | None = None
    session_id: SessionId | None = None


@value
class Resource:
    """A place that turns work on."""

    id: ResourceId
    kind: str
    """``directory``, ``file``, and whatever else a keeper is installed for."""
    host: str
    """The machine it is on: the same path elsewhere is another resource."""
    place: str
    """How its keeper finds it there: an absolute path, the name of a volume."""
    name: str
    """What people call it."""
    capabilities: frozenset[Capability]
    imperative: bool
    """Whether it changes the world in ways that no snapshot holds."""
    created_at: Timestamp
    scope: Scope = field(default_factory=Scope)
    part_of: ResourceId | None = None
    metadata: Mapping[str, Json] = field(default_factory=dict[str, Json])


@value
class Snapshot:
    """A state of a resource; its bytes are kept by whoever took it."""

    id: SnapshotId
    resource: ResourceId
    method: str
    """How it was taken: ``shadow-tree/1``."""
    external: ExtRef
    """Where the bytes are; the id ends in the sha256 of what it names."""
    size: int
    """How many bytes the state has, were it brought back."""
    at: Timestamp
    restorable: bool = True
    consistency: Literal["exact", "crash_consistent", "inconsistent"] = "exact"
    """exact: nothing changed while it was taken. crash: as after a power cut. mixed: it did."""

    @property
    def digest(self) -> Digest:
        """The digest of what the snapshot holds."""
        return Digest(self.external.id)


@value
class Handle:
    """A live grip on a resource: a process, a connection. Never restorable."""

    id: str
    resource: ResourceId
    provider: str
    provider_id: str
    capabilities: frozenset[Capability] = frozenset()


@value
class Lease:
    """Who may change a resource until when. Advice, never truth: it runs out by itself."""

    resource: ResourceId
    holder: str
    expires_at: Timestamp


@value
class TurnSnapshot:
    """In which state a turn found a resource, and in which it left it."""

    turn: TurnId
    resource: ResourceId
    after: SnapshotId
    before: SnapshotId | None
    """None when nobody looked as the turn began."""
    mode: AttachMode
    began_at: Timestamp
    ended_at: Timestamp


EntryKind = Literal["file", "symlink", "directory"]


@value
class FileEntry:
    """One path inside a snapshot that is made of files."""

    path: str
    """Relative to the place, with slashes; bytes that are no UTF-8 are surrogate-escaped."""
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
    """Return what an event says of a resource besides its id."""
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
    """Say whether something else stood at a place before, which keeps its id.

    A place that was made from a state of its own is what it was: it has only come back.
    """
    return known_as not in (made.id, made.metadata.get("forked_from"))


def describe_state(snapshot: Snapshot) -> dict[str, Json]:
    """Return what an event says of a state that was kept."""
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
    """Return what an event of the turn says of a pin."""
    said: dict[str, Json] = {
        "resource_ref": pin.resource,
        "after_ref": pin.after,
        "before_ref": pin.before,
        "mode": pin.mode,
        "started_at": pin.began_at,
        "ended_at": pin.ended_at,
    }
    return {name: value for name, value in said.items() if value is not None}
