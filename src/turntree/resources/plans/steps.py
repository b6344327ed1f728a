"""The steps of plans, and their JSON form in the plan's first event.

A step says where it acts and how it is rolled back. This module defines the values; ``plan``
decides what comes next and ``saga`` executes it.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, assert_never

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.ids import (
    Digest,
    Label,
    PlanId,
    ResourceId,
    SessionId,
    SnapshotId,
    TurnId,
)
from turntree.core.program import Visibility
from turntree.core.ref import EventRef, ExtRef
from turntree.core.ref import from_json as ref_from_json
from turntree.core.ref import to_json as ref_to_json
from turntree.core.session import MoveKind
from turntree.core.value import value
from turntree.resources.resource import AttachMode

PlanKind = Literal["fork", "restore", "revert", "pick"]
ShareMode = Literal["keep", "snapshot", "discard"]


@value
class StepTarget:
    """The resource a step acts on, and the kind of driver that does it."""

    resource: ResourceId
    kind: str
    """The kind of its driver."""
    place: str


@value
class TakeSnapshot:
    """Take a snapshot of the present. Needs no rollback: an unused snapshot does no harm."""

    site: StepTarget
    expected: str | None = None
    """The id of the present state when the plan was made; the step fails if it has changed."""


@value
class ForkResource:
    """Create a copy from a snapshot; rolled back by discarding it."""

    site: StepTarget
    """The location is that of the copy, the resource the one it is forked from."""
    new_resource: ResourceId
    name: str
    mode: AttachMode
    snapshot: SnapshotId | None = None
    external: ExtRef | None = None
    taken_by: int | None = None
    """The step that takes the snapshot, if it is the present state."""


@value
class RestoreResource:
    """Restore a snapshot in place; rolled back by restoring what an earlier step stored."""

    site: StepTarget
    snapshot: SnapshotId
    external: ExtRef
    only: Digest | None = None
    """The object that lists the paths it may change; None means all of them."""
    safety: int | None = None
    """The step that takes the safety snapshot."""
    supported: bool = True
    """Whether the resource can be restored at all; if not, that is recorded and it stays."""


@value
class ResourceShare:
    """What a fork does with one resource."""

    resource: ResourceId
    mode: ShareMode
    kept_by: SessionId | None = None
    """keep: the branch that keeps it."""
    fork: int | None = None
    """snapshot: the step that creates the new branch's copy."""
    taken: AttachMode | None = None
    """keep: how the new branch is attached to it, if that is the one that keeps it."""


@value
class CreateForkSession:
    """Commit a fork: create a session with its copies; without a session, register the copies."""

    session: SessionId | None
    label: Label | None
    head: TurnId | None
    source: SessionId | None = None
    at_event: EventRef | None = None
    """The event of the source up to which its attachments were read."""
    shares: tuple[ResourceShare, ...] = ()
    before: TurnId | None = None
    """The turn whose state before it was forked; None if the head's state after it was."""
    visibility: Visibility | None = None
    """The visibility of the new session; None inherits that of the source."""


@value
class MoveHead:
    """Commit a restore: move a session's head."""

    session: SessionId
    move: MoveKind
    target: TurnId | None
    expected_head: TurnId | None


@value
class RecordMerge:
    """Commit a revert or a pick: record whose changes were taken back or applied."""

    turns: tuple[TurnId, ...]
    undoes: PlanId | None = None
    """The earlier revert or pick that this one takes back."""


Commit: TypeAlias = CreateForkSession | MoveHead | RecordMerge
Step: TypeAlias = TakeSnapshot | ForkResource | RestoreResource | Commit


@value
class Plan:
    """The steps to execute, in order; the last one commits and cannot be rolled back."""

    id: PlanId
    kind: PlanKind
    host: str
    """The machine whose resources it changes."""
    by: str
    steps: tuple[Step, ...]

    @property
    def resources(self) -> tuple[ResourceId, ...]:
        """The resources it touches, each once; every process leases them in this order."""
        named = {step.site.resource for step in self.steps if not isinstance(step, Commit)}
        return tuple(sorted(named))


def plan_to_json(plan: Plan) -> dict[str, Json]:
    """Return a plan as its first event holds it."""
    steps: list[Json] = [_step_to_json(step) for step in plan.steps]
    return {"kind": plan.kind, "host": plan.host, "by": plan.by, "steps": steps}


def plan_from_json(id: PlanId, data: Mapping[str, Any]) -> Plan:
    """Return the plan whose first event holds this data."""
    steps = tuple(_step_from_json(step) for step in data["steps"])
    return Plan(id, data["kind"], data["host"], data["by"], steps)


_UNDONE_BY: Final = {"fork": "discard", "restore": "restore"}
"""The action that rolls a step back; other steps need none."""


def _step_to_json(step: Step) -> dict[str, Json]:
    said: dict[str, Json]
    match step:
        case TakeSnapshot(site, expected):
            said = {"action": "snapshot", **_site(site), "expected": expected}
        case ForkResource(site):
            said = {
                "action": "fork", **_site(site), "new_resource": step.new_resource,
                "name": step.name, "mode": step.mode, "snapshot": step.snapshot,
                "snapshot_step": step.taken_by,
                "external": None if step.external is None else ref_to_json(step.external),
            }  # fmt: skip
        case RestoreResource(site):
            said = {
                "action": "restore", **_site(site), "snapshot": step.snapshot, "paths": step.only,
                "external": ref_to_json(step.external), "safety_step": step.safety,
                "unsupported": not step.supported or None,
            }  # fmt: skip
        case CreateForkSession():
            said = {
                "action": "create_session", "session": step.session, "label": step.label,
                "head": step.head, "source": step.source,
                "at_event": None if step.at_event is None else ref_to_json(step.at_event),
                "shares": [_share_to_json(share) for share in step.shares],
                "before": step.before, "visibility": step.visibility,
            }  # fmt: skip
        case MoveHead(session, move, target, expected):
            said = {
                "action": "move_session", "session": session, "move": move, "target": target,
                "expected_head": expected,
            }  # fmt: skip
        case RecordMerge(turns, undoes):
            said = {"action": "record_merge", "turns": list(turns), "undoes": undoes}
        case _:
            assert_never(step)
    said["compensation"] = _UNDONE_BY.get(str(said["action"]))
    return without_nones(said)


def _step_from_json(said: Mapping[str, Any]) -> Step:
    get = said.get
    match said["action"]:
        case "snapshot":
            return TakeSnapshot(_read_site(said), get("expected"))
        case "fork":
            return ForkResource(
                _read_site(said), said["new_resource"], said["name"], said["mode"],
                get("snapshot"), external_from_json(get("external")), get("snapshot_step"),
            )  # fmt: skip
        case "restore":
            external = external_from_json(said["external"])
            assert external is not None, "a state that is brought back lies somewhere"
            return RestoreResource(
                _read_site(said), said["snapshot"], external, get("paths"), get("safety_step"),
                supported=not get("unsupported", False),
            )  # fmt: skip
        case "create_session":
            shares = tuple(_share_from_json(share) for share in said["shares"])
            document = get("at_event")
            found = None if document is None else ref_from_json(document)
            assert found is None or isinstance(found, EventRef), "a place in a stream is an event"
            return CreateForkSession(
                get("session"), get("label"), get("head"), get("source"),
                found, shares, get("before"), get("visibility"),
            )  # fmt: skip
        case "move_session":
            return MoveHead(said["session"], said["move"], get("target"), get("expected_head"))
        case "record_merge":
            return RecordMerge(tuple(said["turns"]), get("undoes"))
        case word:
            raise InvalidOperation(f"unknown plan step: {word!r}")


def _share_to_json(share: ResourceShare) -> dict[str, Json]:
    return without_nones(
        {
            "resource": share.resource, "mode": share.mode, "kept_by": share.kept_by,
            "fork_step": share.fork, "attach_mode": share.taken,
        }
    )  # fmt: skip


def _share_from_json(said: Mapping[str, Any]) -> ResourceShare:
    get = said.get
    return ResourceShare(
        said["resource"], said["mode"], get("kept_by"), get("fork_step"), get("attach_mode")
    )


def _site(site: StepTarget) -> dict[str, Json]:
    return {"resource": site.resource, "kind": site.kind, "location": site.place}


def _read_site(said: Mapping[str, Any]) -> StepTarget:
    return StepTarget(said["resource"], said["kind"], said["location"])


def external_from_json(document: Json) -> ExtRef | None:
    """Return the reference to a snapshot, or None."""
    found = None if document is None else ref_from_json(document)
    assert found is None or isinstance(found, ExtRef), "states lie outside of the ledger"
    return found


def without_nones(said: dict[str, Json]) -> dict[str, Json]:
    """Return the members that are not None."""
    return {name: value for name, value in said.items() if value is not None}
