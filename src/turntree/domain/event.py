"""Events: recorded facts, each at its place in a stream, never changed.

A stream is a run, a session, a program, a conversation or a resource; ``seq`` is the place in
it. An event's id is the digest of its document, which holds the stream and the place: emitting
the same fact again is a no-op, and another fact at the same place is a conflict.

Kinds are an open registry. A kind of ours is a plain word; anybody else's carries a namespace
(``acme.deployed``) and is kept, ordered and hashed like the rest.
"""

from collections.abc import Mapping
from typing import Any, Literal

from turntree.domain.canonical import Json, canonical, digest_bytes
from turntree.domain.errors import Refused
from turntree.domain.ids import EventId, Instant
from turntree.domain.ref import list_refs
from turntree.domain.value import value

RECIPE = "event/1"

Group = Literal["intent", "observation", "transition", "provenance"]

KINDS: Mapping[str, Group] = {
    # Somebody wants something to happen.
    "run_started": "intent",
    "model_request": "intent",
    "tool_call": "intent",
    "approval_requested": "intent",
    "restore_attempted": "intent",
    "plan_started": "intent",
    "step_started": "intent",
    "model.inference_requested": "intent",
    "human.notified": "intent",
    "human.asked": "intent",
    "code.invoked": "intent",
    # The world answered.
    "model_response": "observation",
    "tool_result": "observation",
    "history_append": "observation",
    "approval_decided": "observation",
    "permission.used": "observation",
    "permission.denied": "observation",
    "mcp.resource_updated": "observation",
    "mcp.resource_list_changed": "observation",
    "resource_liveness_probe": "observation",
    "step_finished": "observation",
    "model.inference_completed": "observation",
    "session.message": "observation",
    "agent.checkpoint": "observation",
    "task.checked": "observation",
    "human.approved": "observation",
    "human.rejected": "observation",
    "code.finished": "observation",
    # A moving part moved.
    "session_created": "transition",
    "session_moved": "transition",
    "session_renamed": "transition",
    "session_aliased": "transition",
    "session_merged": "transition",
    "session_archived": "transition",
    "session_restored": "transition",
    "persona_changed": "transition",
    "permission.granted": "transition",
    "token.issued": "transition",
    "token.revoked": "transition",
    "policy_activated": "transition",
    "policy_proposed": "transition",
    "run_parked": "transition",
    "run_unparked": "transition",
    "run_finished": "transition",
    "run_failed": "transition",
    "resource_created": "transition",
    "resource_attached": "transition",
    "resource_detached": "transition",
    "resource_removed": "transition",
    "plan_finished": "transition",
    "node.tagged": "transition",
    "node.untagged": "transition",
    "provider.created": "transition",
    "provider.configured": "transition",
    "provider.moved": "transition",
    "model.created": "transition",
    "model.configured": "transition",
    "model.moved": "transition",
    "session.created": "transition",
    "session.configured": "transition",
    "session.moved": "transition",
    "agent.created": "transition",
    "agent.configured": "transition",
    "agent.moved": "transition",
    "task.created": "transition",
    "task.configured": "transition",
    "task.moved": "transition",
    "human.created": "transition",
    "human.configured": "transition",
    "human.moved": "transition",
    "code.created": "transition",
    "code.configured": "transition",
    "code.moved": "transition",
    "information.created": "transition",
    "information.moved": "transition",
    "session.model_switched": "transition",
    "session.completed": "transition",
    "agent.task_assigned": "transition",
    "agent.thinking": "transition",
    "agent.executing": "transition",
    "agent.completed": "transition",
    "agent.reset": "transition",
    "task.assigned": "transition",
    "task.started": "transition",
    "task.completed": "transition",
    "task.failed": "transition",
    "information.validated": "transition",
    "information.updated": "transition",
    "program.granted": "transition",
    "program.revoked": "transition",
    "program.shown": "transition",
    # Where something came from, what replaced it, what became of it.
    "agent_forked": "provenance",
    "session_spawned": "provenance",
    "interruption": "provenance",
    "substitution": "provenance",
    "compensation": "provenance",
    "snapshot_created": "provenance",
    "transcript_materialized": "provenance",
    "turn_recorded": "provenance",
    "turn_pinned": "provenance",
    "erased": "provenance",
}


def group_of(kind: str) -> Group:
    """Return the group of a kind; a foreign kind with a namespace is an observation.

    Raises:
        Refused: A plain word that is not registered.
    """
    if kind in KINDS:
        return KINDS[kind]
    if "." in kind:
        return "observation"
    raise Refused(f"{kind!r} is not a kind of event; a kind of your own needs a namespace")


@value
class Event:
    """One fact."""

    stream: str
    seq: int
    kind: str
    at: Instant
    data: Mapping[str, Json]
    parents: tuple[EventId, ...] = ()
    """What caused it, beyond its predecessor in the stream."""
    correlation_id: str | None = None
    valid_from: Instant | None = None
    valid_to: Instant | None = None


@value
class Recorded:
    """An event and the bytes that prove it."""

    event: Event
    id: EventId
    body: str


def record(event: Event) -> Recorded:
    """Return the event with its id and canonical bytes.

    Raises:
        Refused: The kind is unknown, the interval of validity is empty, or something that should
            refer to a thing does not.
    """
    group_of(event.kind)
    if event.kind in KINDS:
        # A kind of somebody else's names its members as it likes.
        list_refs(event.data)
    if event.valid_from and event.valid_to and event.valid_from >= event.valid_to:
        raise Refused(f"valid from {event.valid_from} until {event.valid_to}, which is never")
    body = canonical(to_json(event))
    return Recorded(event, EventId(digest_bytes(body)), body.decode())


def to_json(event: Event) -> dict[str, Any]:
    """Return the event's document."""
    document: dict[str, Any] = {
        "turntree": RECIPE,
        "stream": event.stream,
        "seq": event.seq,
        "kind": event.kind,
        "at": event.at,
        "data": dict(event.data),
        "parents": list(event.parents) or None,
        "correlation_id": event.correlation_id,
        "valid_from": event.valid_from,
        "valid_to": event.valid_to,
    }
    return {name: value for name, value in document.items() if value is not None}


def from_json(document: Mapping[str, Any]) -> Event:
    """Return the event a stored document stands for."""
    get = document.get
    return Event(
        document["stream"],
        document["seq"],
        document["kind"],
        document["at"],
        document["data"],
        tuple(get("parents", ())),
        get("correlation_id"),
        get("valid_from"),
        get("valid_to"),
    )
