"""Events: immutable records, each at its position in a stream.

A stream is a run, a session, a program, a conversation or a resource; ``seq`` is the position in
it. An event's id is the digest of its document, which includes the stream and the position:
recording the same event again is a no-op, and another event at the same position is a conflict.

Every kind is ``noun.verb``. Kinds are an open registry: an extension may use any noun that is not
one of ours (``acme.deployed``), and its events are stored, ordered and hashed like the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.errors import InvalidOperation
from turntree.core.ids import EventId, Timestamp
from turntree.core.ref import list_refs
from turntree.core.value import value

RECIPE = "event/1"

Group = Literal["intent", "observation", "transition", "provenance"]

KINDS: Mapping[str, Group] = {
    # A principal wants something to happen.
    "run.started": "intent",
    "model_call.started": "intent",
    "tool_call.started": "intent",
    "tool_call.continued": "intent",
    "approval.requested": "intent",
    "plan.started": "intent",
    "plan.step_started": "intent",
    "model.inference_requested": "intent",
    "human.notified": "intent",
    "human.approval_requested": "intent",
    "code.invoked": "intent",
    # Something outside the ledger responded.
    "human.read": "observation",
    "model_call.finished": "observation",
    "tool_call.judged": "observation",
    "tool_call.finished": "observation",
    "message.appended": "observation",
    "approval.decided": "observation",
    "permission.used": "observation",
    "permission.denied": "observation",
    "mcp.resource_updated": "observation",
    "mcp.resource_list_changed": "observation",
    "connector.tools_changed": "observation",
    "resource.probed": "observation",
    "snapshot.created": "observation",
    "snapshot.restore_attempted": "observation",
    "plan.step_finished": "observation",
    "model.inference_completed": "observation",
    "session.message": "observation",
    "agent.checkpoint": "observation",
    "task.checked": "observation",
    "human.approved": "observation",
    "human.rejected": "observation",
    "code.finished": "observation",
    "post.created": "observation",
    "post.decided": "observation",
    "route.chosen": "observation",
    # The state of a thing changed.
    "session.created": "transition",
    "session.head_moved": "transition",
    "session.renamed": "transition",
    "session.aliased": "transition",
    "session.merged": "transition",
    "session.archived": "transition",
    "session.unarchived": "transition",
    "session.persona_changed": "transition",
    "permission.granted": "transition",
    "token.issued": "transition",
    "token.revoked": "transition",
    "member.added": "transition",
    "member.role_changed": "transition",
    "member.removed": "transition",
    "member.password_set": "transition",
    "member.password_removed": "transition",
    "invitation.created": "transition",
    "invitation.accepted": "transition",
    "invitation.revoked": "transition",
    "api_key.created": "transition",
    "api_key.revoked": "transition",
    "webhook.created": "transition",
    "webhook.rotated": "transition",
    "webhook.paused": "transition",
    "webhook.resumed": "transition",
    "webhook.deleted": "transition",
    "trigger.created": "transition",
    "trigger.rotated": "transition",
    "trigger.paused": "transition",
    "trigger.resumed": "transition",
    "trigger.deleted": "transition",
    "trigger.fired": "observation",
    "login_session.created": "transition",
    "login_session.ended": "transition",
    "identity.linked": "transition",
    "identity.unlinked": "transition",
    "policy.activated": "transition",
    "policy.proposed": "transition",
    "run.parked": "transition",
    "run.unparked": "transition",
    "run.finished": "transition",
    "run.failed": "transition",
    "run.interrupted": "transition",
    "event.substituted": "transition",
    "resource.created": "transition",
    "resource.attached": "transition",
    "resource.detached": "transition",
    "resource.removed": "transition",
    "plan.finished": "transition",
    "node.tagged": "transition",
    "node.untagged": "transition",
    "provider.created": "transition",
    "provider.configured": "transition",
    "provider.state_changed": "transition",
    "model.created": "transition",
    "model.configured": "transition",
    "model.state_changed": "transition",
    "session.configured": "transition",
    "session.state_changed": "transition",
    "agent.created": "transition",
    "agent.configured": "transition",
    "agent.state_changed": "transition",
    "task.created": "transition",
    "task.configured": "transition",
    "task.state_changed": "transition",
    "human.created": "transition",
    "human.configured": "transition",
    "human.state_changed": "transition",
    "code.created": "transition",
    "code.configured": "transition",
    "code.state_changed": "transition",
    "connector.created": "transition",
    "connector.configured": "transition",
    "connector.state_changed": "transition",
    "information.created": "transition",
    "information.state_changed": "transition",
    "conversation.created": "transition",
    "conversation.configured": "transition",
    "conversation.state_changed": "transition",
    "participant.added": "transition",
    "participant.removed": "transition",
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
    "program.visibility_changed": "transition",
    # Where something came from, what replaced it, what became of it.
    "session.forked": "provenance",
    "conversation.forked": "provenance",
    "session.spawned": "provenance",
    "plan.step_compensated": "provenance",
    "transcript.materialized": "provenance",
    "turn.recorded": "provenance",
    "turn.snapshotted": "provenance",
    "message.erased": "provenance",
    "post.erased": "provenance",
}


RESERVED_NOUNS: Final = frozenset({
    "budget", "checkpoint", "notification", "remote",
})  # fmt: skip
"""Our nouns that no event uses yet. An extension that used one would collide with us later."""

_NOUNS: Final = frozenset(kind.partition(".")[0] for kind in KINDS) | RESERVED_NOUNS


def group_of(kind: str) -> Group:
    """Return the group of a kind; a kind of an extension is an observation.

    Raises:
        InvalidOperation: It is not ``noun.verb``, or its noun is one of ours and the kind is not.
    """
    if kind in KINDS:
        return KINDS[kind]
    noun, _, verb = kind.partition(".")
    if not noun or not verb:
        raise InvalidOperation(
            f"{kind!r} is not an event kind: use noun.verb, such as acme.deployed"
        )
    if noun in _NOUNS:
        raise InvalidOperation(f"{kind!r} is not an event kind: the noun {noun!r} is reserved")
    return "observation"


@value
class Event:
    """One record of what happened."""

    stream: str
    seq: int
    kind: str
    at: Timestamp
    data: Mapping[str, Json]
    parents: tuple[EventId, ...] = ()
    """The events that caused it, besides its predecessor in the stream."""
    correlation_id: str | None = None
    valid_from: Timestamp | None = None
    valid_to: Timestamp | None = None


@value
class SealedEvent:
    """An event and the bytes that prove it."""

    event: Event
    id: EventId
    body: str


def record(event: Event) -> SealedEvent:
    """Return the event with its id and canonical bytes.

    Raises:
        InvalidOperation: The kind is unknown, the interval of validity is empty, or a member
            that should be a reference is not one.
    """
    group_of(event.kind)
    if event.kind in KINDS:
        # An extension names the members of its kinds as it likes.
        list_refs(event.data)
    if event.valid_from and event.valid_to and event.valid_from >= event.valid_to:
        raise InvalidOperation(
            f"valid from {event.valid_from} until {event.valid_to}, which is never"
        )
    body = canonical(to_json(event))
    return SealedEvent(event, EventId(digest_bytes(body)), body.decode())


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
    """Return the event that a stored document describes."""
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


@dataclass(frozen=True, slots=True, order=True)
class FeedPosition:
    """A position in the order of all events of a database.

    ``epoch`` counts restores: a restore into another cluster starts a new one, because transaction
    ids start again there.
    """

    epoch: int
    transaction: int
    n: int

    def __str__(self) -> str:
        """Return the text that a client stores and sends back."""
        return f"{self.epoch}-{self.transaction}-{self.n}"

    @classmethod
    def parse(cls, text: str) -> "FeedPosition":
        """Parse the text of a position."""
        epoch, transaction, n = text.split("-")
        return cls(int(epoch), int(transaction), int(n))


BEGINNING = FeedPosition(0, 0, 0)
