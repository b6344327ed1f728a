"""A turn as it is stored: whether its bytes prove themselves and its columns say the same.

Pure: it is handed rows and returns sentences. It must never know a connection, and it never
trusts what it reads: whoever changed a body may have written anything into it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field
from datetime import datetime
from typing import Any

import orjson

from turntree.domain import turn as turns
from turntree.domain import usage
from turntree.domain.ids import Digest, TurnId
from turntree.domain.message import Erased, Lifted, Media, answers_call, calls_tool
from turntree.domain.turn import Turn
from turntree.store.sessions import as_instant

Complaint = tuple[str, str]
"""The invariant that is broken, and how."""

ToolCallRow = tuple[int, str, str, str]
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)
"""What reading a document raises that is not what it should be."""


@dataclass(slots=True)
class StoredTurn:
    """The rows that speak of one turn, with every place they stand in."""

    id: TurnId
    digest: Digest
    parent: Digest | None
    """The digest of the turn that the parent's column names."""
    body: str
    columns: tuple[str, str, str, str | None, str | None]
    """Kind, outcome, role, model and provider."""
    started_at: datetime
    sealed_at: datetime
    tool_calls: list[ToolCallRow] = field(default_factory=list[ToolCallRow])
    model_calls: list[tuple[Any, ...]] = field(default_factory=list[tuple[Any, ...]])
    compaction: tuple[Any, ...] | None = None
    journal: list[str] = field(default_factory=list[str])
    """Bodies of the events that say what its run used and what was erased, in order."""


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found in a stored turn."""

    complaints: list[Complaint]
    objects: list[Digest]
    """What its messages point to, which somebody else has to look for."""


def examine(stored: StoredTurn) -> Examined:
    """Return everything that is wrong with a stored turn; an erased message is not."""
    complaints: list[Complaint] = []
    if turns.verify(stored.body, stored.digest, stored.parent) == "broken":
        complaints.append(("I12", "the body does not prove the digest, or not after this parent"))
    try:
        complaints += _compare_count(stored.body)
        turn = turns.read(stored.body, stored.digest)
    except UNREADABLE:
        return Examined([*complaints, ("I12", "the body cannot be read")], [])
    complaints += _compare_columns(stored, turn)
    complaints += _compare_projections(stored, turn)
    complaints += _check_exchange(turn)
    complaints += _check_calls(turn)
    return Examined(complaints, list(_list_objects(turn)))


def _list_objects(turn: Turn) -> Iterator[Digest]:
    for said in turn.messages:
        for part in said.parts:
            if isinstance(part, Lifted | Media) and part.object is not None:
                yield part.object


def _compare_count(body: str) -> Iterator[Complaint]:
    head, *lines = body.split("\n")
    said = orjson.loads(head)["messages"]["count"]
    if said != len(lines):
        yield "I15", f"the header counts {said} messages, the body holds {len(lines)}"


def _compare_columns(stored: StoredTurn, turn: Turn) -> Iterator[Complaint]:
    header = turn.header
    said = (header.kind, header.outcome, header.agent_role, header.model, header.provider)
    times = (as_instant(stored.started_at), as_instant(stored.sealed_at))
    if header.id != stored.id:
        yield "I12", f"the header is that of turn {header.id}"
    if said != stored.columns or times != (header.started_at, header.sealed_at):
        yield "I12", "a column says something else than the header"


def _compare_projections(stored: StoredTurn, turn: Turn) -> Iterator[Complaint]:
    if not _are_calls_of(turn, stored.tool_calls):
        yield "I14", "the tool calls are not those of the body"
    try:
        events = [orjson.loads(body) for body in stored.journal]
        calls = list(_list_model_calls(events, stored.digest))
        receipts = {event["data"]["sequence"] for event in events if event["kind"] == "erased"}
    except UNREADABLE:
        calls, receipts = None, set[int]()
    if calls != stored.model_calls:
        yield "I14", "the model calls are not those of the run's events"
    gaps = {place for place, said in enumerate(turn.messages) if isinstance(said, Erased)}
    if not gaps <= receipts:
        yield "I12", "a message was taken out without a receipt"
    compaction = turn.header.compaction
    if stored.compaction != (None if compaction is None else astuple(compaction)):
        yield "I14", "the compaction's row is not what the header says"


def _are_calls_of(turn: Turn, rows: Sequence[ToolCallRow]) -> bool:
    uses = list(_list_uses(turn))
    answers = dict(_list_answers(turn))
    if _has_gaps(turn):
        # What an erased message asked or answered stands in the rows alone.
        known = {(call_id, tool) for _, call_id, tool, _ in rows}
        return known.issuperset(uses)
    return list(rows) == [
        (place, call_id, tool, answers.get(call_id)) for place, (call_id, tool) in enumerate(uses)
    ]


def _list_model_calls(
    events: Sequence[dict[str, Any]], digest: Digest
) -> Iterator[tuple[Any, ...]]:
    documents: list[dict[str, Any]] = []
    for event in events:
        data = event["data"]
        if event["kind"] == "turn_recorded":
            if data["turn"] != digest:
                raise ValueError(data["turn"])
            documents += data["calls"]
        elif "call" in data:
            documents.append(data["call"])
    for place, call in enumerate(map(usage.from_json, documents)):
        used = call.usage
        yield (
            place, call.model, call.provider, call.call_id,
            used.input, used.output, used.cached_input, used.cache_write, used.reasoning,
        )  # fmt: skip


def _check_exchange(turn: Turn) -> Iterator[Complaint]:
    if not 0 <= turn.query_count <= len(turn.messages):
        yield "I16", "the query is longer than the turn"
    if not turn.query and turn.header.kind == "normal":
        yield "I16", "it answers nothing"
    if any(said.role == "assistant" for said in turn.query):
        yield "I16", "an assistant's message stands in the query"
    if any(said.role not in ("assistant", "tool", "erased") for said in turn.reply):
        yield "I16", "the reply holds what was sent in"
    answered = any(said.role in ("assistant", "erased") for said in turn.reply)
    if turn.header.outcome == "completed" and not answered:
        yield "I16", "it is completed without a reply"


def _check_calls(turn: Turn) -> Iterator[Complaint]:
    if _has_gaps(turn):
        return
    asked = [call_id for call_id, _ in _list_uses(turn)]
    answered = [call_id for call_id, _ in _list_answers(turn)]
    if sorted(asked) != sorted(answered):
        yield "I17", "a tool call has no result, or a result no call"


def _has_gaps(turn: Turn) -> bool:
    return any(isinstance(said, Erased) for said in turn.reply)


def _list_uses(turn: Turn) -> Iterator[tuple[str, str]]:
    for said in turn.reply:
        for part in said.parts:
            if calls_tool(part):
                yield str(part.call_id), str(part.tool)


def _list_answers(turn: Turn) -> Iterator[tuple[str, str]]:
    for said in turn.messages:
        for part in said.parts:
            if answers_call(part):
                yield str(part.call_id), str(part.status)
