"""Checks stored events, and folds their streams.

Pure: it takes rows in the order of their streams, and returns findings and the rows derived from
them. It must never know a connection, and it trusts only what an event's id proves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import orjson

from turntree.auth import audit
from turntree.core import event as events
from turntree.core.canonical import canonical
from turntree.core.ids import is_instant
from turntree.core.redaction import find_keys
from turntree.integrity.turn_checker import UNREADABLE, Complaint, Derived

_FOLDED: Final = frozenset({
    "turn.recorded", "model_call.started", "model_call.finished", "tool_call.started",
    "tool_call.finished", "run.interrupted", "node.tagged", "node.untagged",
    "message.erased", "event.substituted", audit.GRANTED,
})  # fmt: skip
"""The kinds that projections are derived from."""

_WORDLESS: Final = frozenset({"turn.recorded", "session.head_moved", "model_call.started"})
"""Frequent kinds that hold only ids, digests and numbers."""

_NUMBERS: Final = ("input", "output", "cached_input", "cache_write", "reasoning")


@dataclass(slots=True)
class StreamState:
    """The fold of the events of one stream, as far as they were read."""

    id: str
    calls: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """The documents of the model calls."""
    tags: dict[str, None] = field(default_factory=dict[str, None])
    requests: set[str | None] = field(default_factory=set[str | None])
    begun: set[str] = field(default_factory=set[str])
    is_turn: bool = False
    """Whether its run is sealed; the usage of an open run is in its events only."""
    is_interrupted: bool = False


@dataclass(slots=True)
class EventChecker:
    """The findings of a range of streams. Feed it rows in order, and close it after the last."""

    complaints: list[Complaint] = field(default_factory=list[Complaint])
    model_calls: list[Derived] = field(default_factory=list[Derived])
    tags: list[Derived] = field(default_factory=list[Derived])
    receipts: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    """The turns and positions of messages with an erasure event."""
    interrupted: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """Interrupted runs, and their calls without a result at that time."""
    substitutions: list[tuple[str, str, str]] = field(default_factory=list[tuple[str, str, str]])
    """An event, the event it replaces, and the replacement."""
    unproven: set[str] = field(default_factory=set[str])
    """Streams with invalid events, from which nothing may be derived."""
    _open: StreamState | None = None

    def read(self, rows: Sequence[Sequence[Any]]) -> None:
        """Check events; each row is a stream, a position, an id, a kind, a body and a turn digest.

        The digest is given only for events that need it.
        """
        for row in rows:
            self._examine(row)
        worded = [row for row in rows if row[3] not in _WORDLESS]
        for place in find_keys([row[4] for row in worded]):
            stream, seq, *_ = worded[place]
            self._complain("I61", "what looks like a secret key stands in it", stream, seq)

    def _examine(self, row: Sequence[Any]) -> None:
        stream, seq, id, kind, body, turn = row
        if self._open is not None and self._open.id != stream:
            self.close()
        if sha256(body).digest() != id:
            self._complain("I1", "the event's id is not the digest of its body", stream, seq)
            self.unproven.add(stream)
        try:
            document = orjson.loads(body)
            self._check(document, body, stream, seq, kind)
            if kind in _FOLDED:
                self._fold(document, stream, seq, id, turn)
        except UNREADABLE:
            # A body that cannot be read is a finding like any other. What is derived from this
            # stream cannot be proved then, and is not reported a second time.
            self._complain("I2", "the event's body cannot be read", stream, seq)
            self.unproven.add(stream)

    def close(self) -> None:
        """End the last stream."""
        stream, self._open = self._open, None
        if stream is None:
            return
        self.tags += [(stream.id, tag) for tag in stream.tags]
        if stream.is_interrupted:
            self.interrupted[stream.id] = stream.begun
        try:
            self.model_calls += (
                []
                if not stream.is_turn
                else [_call_row(stream.id, place, call) for place, call in enumerate(stream.calls)]
            )
        except UNREADABLE:
            self._complain("I2", "the event's body cannot be read", stream.id, 0)
            self.unproven.add(stream.id)

    def _complain(self, invariant: str, sentence: str, stream: str, seq: int) -> None:
        self.complaints.append((invariant, sentence, f"{stream} at {seq}"))

    def _check(
        self, document: Mapping[str, Any], body: bytes, stream: str, seq: int, kind: str
    ) -> None:
        if orjson.dumps(document, option=orjson.OPT_SORT_KEYS) != body and (
            canonical(document) != body
        ):
            self._complain("I2", "the event's body is not written canonically", stream, seq)
        if (document["stream"], document["seq"], document["kind"]) != (stream, seq, kind):
            self._complain("I2", "a column says something else than the event", stream, seq)
            self.unproven.add(stream)
        first, end = document.get("valid_from"), document.get("valid_to")
        if not (
            is_instant(document["at"])
            and (first is None or is_instant(first))
            and (end is None or is_instant(end))
        ):
            self._complain("I4", "a moment of the event is not written as one", stream, seq)
        elif first is not None and end is not None and first >= end:
            self._complain("I4", "the event is valid from its end on", stream, seq)

    def _fold(
        self, document: Mapping[str, Any], stream: str, seq: int, id: bytes, turn: bytes | None
    ) -> None:
        if self._open is None:
            self._open = StreamState(stream)
        at, data = self._open, document["data"]
        at.is_turn |= turn is not None
        match document["kind"]:
            case "turn.recorded":
                if turn is None or data["turn"] != f"sha256:{turn.hex()}":
                    self._complain("I14", "it was recorded with another digest", stream, seq)
                at.calls += data["calls"]
            case "node.tagged":
                at.tags[data["tag"]] = None
            case "node.untagged":
                at.tags.pop(data["tag"], None)
            case audit.GRANTED:
                self._check_grant(audit.read_fact(events.from_json(document), None), stream, seq)
            case "message.erased":
                self.receipts.add((stream, data["sequence"]))
            # A turn that was imported again names turns, which are checked as turns.
            case "event.substituted" if "original" in data:
                ends = (_named(data["original"]), _named(data["replacement"]))
                self.substitutions.append((f"sha256:{id.hex()}", *ends))
            case _:
                self._fold_run(at, document, data, seq)

    def _check_grant(self, fact: audit.Fact, stream: str, seq: int) -> None:
        if isinstance(fact, audit.UnreadableEvent):
            self._complain("I60", "the grant names no chain of delegation", stream, seq)
        elif isinstance(fact, audit.AuditGrant) and fact.is_widened:
            self._complain("I60", "the grant goes beyond its chain of delegation", stream, seq)

    def _fold_run(
        self, at: StreamState, document: Mapping[str, Any], data: Mapping[str, Any], seq: int
    ) -> None:
        correlation = document.get("correlation_id")
        match document["kind"]:
            case "model_call.started":
                at.requests.add(correlation)
            case "model_call.finished":
                if correlation is not None and correlation not in at.requests:
                    self._complain("I36", "the response answers no request", at.id, seq)
                at.calls += [data["call"]] if "call" in data else []
            case "tool_call.started":
                at.begun.add(data["call_id"])
            case "tool_call.finished":
                at.begun.discard(data["call_id"])
            case _:
                # An interruption that names calls affects only those: the run continues.
                at.is_interrupted |= not data.get("affects")


def _call_row(turn: str, place: int, document: Mapping[str, Any]) -> Derived:
    """Return the row of a model call, from the document that ``core.usage`` writes."""
    used = document["usage"].get
    return (
        turn, place, document["model"], document.get("provider"), document.get("call_id"),
        *[used(name, 0) for name in _NUMBERS],
    )  # fmt: skip


def _named(reference: Any) -> str:
    """Return the digest in a reference to an event: a plain string, or a member of a document."""
    match reference:
        case {"event_id": digest}:
            return str(digest)
        case _:
            return str(reference)
