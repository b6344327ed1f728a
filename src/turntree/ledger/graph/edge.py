"""Kinds of nodes and edges of the ledger as a graph.

An edge is not stored: it is read from the rows and events that state it, and the store decides
whether it exists. This module knows which kinds of edges there are, between which kinds of nodes,
and with which attributes, but not where they come from.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal

from turntree.core.ids import Label, RunId, SessionId, Timestamp, TurnId
from turntree.core.value import value

NodeKind = Literal[
    "Agent", "Run", "Event", "Message", "Generation", "ToolCall", "ToolResult", "Summary",
    "Resource", "Snapshot", "Handle", "Policy", "Subagent", "Branch", "Container",
]  # fmt: skip

EdgeKind = Literal[
    "AGENT_HAS_RUN", "RUN_HAS_EVENT", "EVENT_PRODUCES", "EVENT_CONSUMES", "APPENDED_TO_HISTORY",
    "CALLS_TOOL", "RETURNS_RESULT", "MCP_RESOURCE_UPDATED", "INTERRUPTS", "SUBSTITUTES",
    "SUMMARIZES", "DERIVED_FROM", "OWNS_RESOURCE", "MOUNTS_RESOURCE", "HAS_SUBRESOURCE",
    "SNAPSHOT_OF", "RESTORES_TO", "ATTACHED_TO", "FORKED_FROM", "SPAWNED_FROM",
    "ACTIVATES_POLICY", "PROPOSES_POLICY",
]  # fmt: skip


@value
class EdgeType:
    """The kinds of nodes that an edge may connect; an empty set means any."""

    sources: frozenset[NodeKind]
    targets: frozenset[NodeKind]
    attributes: tuple[str, ...] = ()
    """Attributes that all edges of the kind have."""


def _type(sources: str, targets: str, *attributes: str) -> EdgeType:
    left: Any = frozenset(sources.split())
    right: Any = frozenset(targets.split())
    return EdgeType(left, right, attributes)


EDGES: Final[Mapping[EdgeKind, EdgeType]] = {
    "AGENT_HAS_RUN": _type("Agent", "Run"),
    "RUN_HAS_EVENT": _type("Run", "Event", "seq"),
    "EVENT_PRODUCES": _type("Event", "Message Generation ToolResult Summary Snapshot"),
    "EVENT_CONSUMES": _type("Event", "Message Generation ToolCall Resource"),
    "APPENDED_TO_HISTORY": _type("Run Agent", "Message", "list"),
    "CALLS_TOOL": _type("Event Generation", "ToolCall"),
    "RETURNS_RESULT": _type("ToolCall", "ToolResult"),
    "MCP_RESOURCE_UPDATED": _type("Event", "Resource", "uri"),
    "INTERRUPTS": _type("Event", "Event"),
    "SUBSTITUTES": _type("Event", "Event"),
    "SUMMARIZES": _type("Summary", "Message Event Run"),
    "DERIVED_FROM": _type("", "", "how"),
    "OWNS_RESOURCE": _type("Agent Run Branch", "Resource"),
    "MOUNTS_RESOURCE": _type("Run Container", "Resource", "mount", "mode"),
    "HAS_SUBRESOURCE": _type("Resource", "Resource"),
    "SNAPSHOT_OF": _type("Snapshot", "Resource"),
    "RESTORES_TO": _type("Snapshot", "Resource"),
    "ATTACHED_TO": _type("Resource", "Run Agent Branch", "mode"),
    "FORKED_FROM": _type("Branch Subagent", "Agent Run Event"),
    "SPAWNED_FROM": _type("Subagent", "Agent"),
    "ACTIVATES_POLICY": _type("Event", "Policy"),
    "PROPOSES_POLICY": _type("Event", "Policy"),
}


@value
class GraphNode:
    """One end of an edge."""

    kind: NodeKind
    id: str


@value
class Edge:
    """A directed relation between two nodes."""

    kind: EdgeKind
    source: GraphNode
    target: GraphNode
    attributes: Mapping[str, Any]
    recorded_at: Timestamp
    """When it was recorded."""
    valid_from: Timestamp
    """Since when it has been true."""
    valid_to: Timestamp | None = None
    """When it ended; None if it is still true."""


@value
class LineageStep:
    """One step of a lineage."""

    step: int
    source: GraphNode
    target: GraphNode
    how: str | None


@value
class HistoryEvent:
    """One event of a history."""

    seq: int
    node: GraphNode
    kind: str
    at: Timestamp
    correlation_id: str | None
    data: Mapping[str, Any]


@value
class ToolCallLink:
    """A tool call with the message that requested it, its result and the session it spawned."""

    call_id: str
    tool: str | None
    status: str | None
    """None while there is no result."""
    message_id: str | None
    call_event: str | None
    result_event: str | None
    correlation_id: str | None
    spawned: SessionId | None


@value
class ResourceHolding:
    """Who owned, mounted or was attached to a resource."""

    kind: EdgeKind
    holder: GraphNode
    resource: str
    attributes: Mapping[str, Any]
    valid_from: Timestamp
    valid_to: Timestamp | None
    recorded_at: Timestamp


@value
class PolicyChange:
    """A policy that was proposed, or was in force for some time."""

    what: Literal["proposed", "activated"]
    policy: str
    agent: str | None
    event: str
    valid_from: Timestamp
    valid_to: Timestamp | None
    recorded_at: Timestamp
    notes: str | None


@value
class SessionOrigin:
    """How a session was created: at a turn of another one, or by a tool call of one."""

    step: int
    kind: EdgeKind
    session: SessionId
    parent: SessionId | None
    """None if the turn it was forked from was imported, not recorded."""
    turn: TurnId | None
    call_id: str | None
    mode: str | None
    at: Timestamp
    by: str


@value
class RecordedMove:
    """The move by which a turn became the head of the session it was recorded in."""

    run: RunId
    session: SessionId
    label: Label
    version: int
    by: str
    at: Timestamp
