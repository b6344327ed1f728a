"""The turn: one sealed exchange, and the unit everything else addresses.

A turn is stored as its *body*: canonical documents, one on each line. Line 0 is the header;
then comes every message. Two levels of digests prove it:

    message digest = sha256 of the message's line
    messages.digest in the header = sha256 of the canonical array of the message digests
    turn digest = sha256 of the header line, which holds the parent's digest

So one digest proves a thread back to its root, and a message can be erased (its line becomes a
stub with its digest) while everything else can still be verified. Bytes are hashed as they are
stored, never serialized again.

Changing the recipe changes every digest: golden vectors pin it, and a second recipe would be called
``turn/2`` and exist next to the first.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any, Final, Literal, get_args

import orjson

from turntree.core import message as messages
from turntree.core.canonical import canonical, digest_bytes, parse_digest
from turntree.core.compaction import Compaction
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Digest, Timestamp, TurnId, derived_id, is_instant, unix_ms
from turntree.core.message import ErasedMessage, Message, ToolResult, answers_call, calls_tool
from turntree.core.message_context import as_title, without_injected
from turntree.core.principal import Principal
from turntree.core.value import value

RECIPE = "turn/1"
_BREAK = "\n"

TurnKind = Literal["normal", "compaction"]
Outcome = Literal["completed", "failed", "canceled", "interrupted"]
AgentRole = Literal["manager", "worker", "unified"]
KINDS, OUTCOMES, AGENT_ROLES = get_args(TurnKind), get_args(Outcome), get_args(AgentRole)

# A message always has the member "parts", so it cannot be mistaken for a stub.
_STUB: Final = re.compile(rb'\{"erased":"(sha256:[0-9a-f]{64})"\}')


@value
class Header:
    """Who took the turn, when, after which parent, and how it ended."""

    id: TurnId
    parent: Digest | None
    by: Principal
    started_at: Timestamp
    sealed_at: Timestamp
    outcome: Outcome = "completed"
    kind: TurnKind = "normal"
    agent_role: AgentRole = "unified"
    model: str | None = None
    provider: str | None = None
    manifest: Digest | None = None
    retry_of: TurnId | None = None
    derived_from: tuple[Digest, ...] = ()
    compaction: Compaction | None = None


_BESIDE_ITS_ID: Final = attrgetter(*[field.name for field in fields(Header)][1:])


@value
class Turn:
    """The result of a run: it exists only when finished, and never changes."""

    header: Header
    query_count: int
    messages: tuple[Message | ErasedMessage, ...]
    digest: Digest

    @property
    def id(self) -> TurnId:
        """The id, valid since the run started."""
        return self.header.id

    @property
    def query(self) -> tuple[Message | ErasedMessage, ...]:
        """The messages that were sent."""
        return self.messages[: self.query_count]

    @property
    def reply(self) -> tuple[Message | ErasedMessage, ...]:
        """The messages that came back, including tool results."""
        return self.messages[self.query_count :]

    @property
    def title(self) -> str:
        """What the person wrote in the first user message, else the text of the first message."""
        prompts = [message for message in self.query if message.role == "user"]
        for prompt in prompts:
            if title := as_title(without_injected(prompt.opening)):
                return title
        for message in (*prompts, *self.query, *self.reply):
            if title := as_title(message.opening):
                return title
        return ""


@value
class SealedTurn:
    """A turn and the bytes that prove it."""

    turn: Turn
    body: str


def seal(header: Header, query: Sequence[Message], reply: Sequence[Message]) -> SealedTurn:
    """Return the sealed turn; nothing in it can change any more.

    Raises:
        InvalidOperation: A tool call has no terminal result, a message is where it cannot be, or a
            completed turn has no reply.
        NotCanonical: Something in it has no canonical form.
    """
    check_exchange(header, query, reply)
    lines = [messages.line_of(message) for message in (*query, *reply)]
    document = _header_to_json(header, len(query), [digest_bytes(line) for line in lines])
    return _sealed(header, document, query, reply, lines)


def seal_derived(header: Header, query: Sequence[Message], reply: Sequence[Message]) -> SealedTurn:
    """Return the sealed turn under an id derived from its content; the header's own is ignored.

    The id follows from the start time and everything that the digest proves: the parent, the
    messages and the outcome. So all importers give the same turn the same id.

    Raises:
        InvalidOperation: As ``seal`` says.
        NotCanonical: As ``seal`` says.
    """
    check_exchange(header, query, reply)
    lines = [messages.line_of(message) for message in (*query, *reply)]
    document = _header_to_json(header, len(query), [digest_bytes(line) for line in lines])
    del document["id"]
    id = derived_id(unix_ms(header.started_at), digest_bytes(canonical(document)))
    document["id"] = id
    identified = Header(TurnId(id), *_BESIDE_ITS_ID(header))
    return _sealed(identified, document, query, reply, lines)


def _sealed(
    header: Header,
    document: dict[str, Any],
    query: Sequence[Message],
    reply: Sequence[Message],
    lines: list[bytes],
) -> SealedTurn:
    head = canonical(document)
    turn = Turn(header, len(query), (*query, *reply), digest_bytes(head))
    return SealedTurn(turn, b"\n".join((head, *lines)).decode())


def read(body: str, digest: Digest) -> Turn:
    """Parse a stored body, without verifying it."""
    # A canonical document never contains a line break, so the body can be parsed as one array.
    return _from_json(orjson.loads(f"[{body.replace(_BREAK, ',')}]"), digest)


def read_lines(header: str, message_lines: str, digest: Digest) -> Turn:
    """Parse a stored body whose header and messages come separately, without verifying it."""
    return _from_json(orjson.loads(f"[{header},{message_lines.replace(_BREAK, ',')}]"), digest)


def _from_json(documents: Sequence[Mapping[str, Any]], digest: Digest) -> Turn:
    head, *lines = documents
    return Turn(
        _header_from_json(head),
        head["messages"]["query"],
        tuple([messages.from_json(line) for line in lines]),
        digest,
    )


Finding = Literal["whole", "erased", "broken"]


def verify(body: str, digest: Digest, parent: Digest | None) -> Finding:
    """Return whether a body matches its digest and its parent.

    ``erased`` means that messages were erased on request and everything else matches.
    """
    head, *lines = body.encode().split(b"\n")
    if digest_bytes(head) != digest:
        return "broken"
    try:
        document = orjson.loads(head)
    except orjson.JSONDecodeError:
        return "broken"
    erased = [_find_stub(line) for line in lines]
    digests = [stub or digest_bytes(line) for stub, line in zip(erased, lines, strict=True)]
    match document:
        # Bytes can match their digest and still not be a turn.
        case {"messages": {"query": int(query)} as proof}:
            if document.get("parent") != parent or proof != _proof(digests, query):
                return "broken"
        case _:
            return "broken"
    return "erased" if any(erased) else "whole"


def check_exchange(header: Header, query: Sequence[Message], reply: Sequence[Message]) -> None:
    """Refuse an exchange that would make a session unusable or that is contradictory.

    Raises:
        InvalidOperation: As ``seal`` says.
    """
    for message in (*query, *reply):
        messages.check_message(message)
    _check_form(header)
    if not query and header.kind == "normal":
        raise InvalidOperation("a turn answers something: it needs at least one query message")
    if any(message.role == "assistant" for message in query):
        raise InvalidOperation("an assistant's message belongs to the reply, not to the query")
    if any(message.role not in ("assistant", "tool") for message in reply):
        raise InvalidOperation("a reply holds what the assistant and its tools said, nothing else")
    if header.outcome == "completed" and not any(message.role == "assistant" for message in reply):
        raise InvalidOperation(
            "a completed turn has a reply; seal it as failed, canceled or interrupted"
        )
    if header.sealed_at < header.started_at:
        raise InvalidOperation(
            f"sealed at {header.sealed_at}, before it started at {header.started_at}"
        )
    if (header.kind == "compaction") != (header.compaction is not None):
        raise InvalidOperation("a compaction turn has compaction details, and no other turn has")
    _check_calls(query, reply)


def _check_form(header: Header) -> None:
    """Require one spelling of times and digests: two would give one turn two digests."""
    for word, words in (
        (header.kind, KINDS),
        (header.outcome, OUTCOMES),
        (header.agent_role, AGENT_ROLES),
    ):
        if word not in words:
            raise InvalidOperation(f"{word!r} is not one of {', '.join(words)}")
    for timestamp in (header.started_at, header.sealed_at):
        if not is_instant(timestamp):
            raise InvalidOperation(
                f"{timestamp!r} is not a timestamp; write it like 2026-11-15T09:30:00.000Z"
            )
    if header.manifest is not None:
        parse_digest(header.manifest)
    for source in header.derived_from:
        parse_digest(source)


def _check_calls(query: Sequence[Message], reply: Sequence[Message]) -> None:
    open_calls: set[str | None] = set()
    seen: set[str | None] = set()
    for message in reply:
        for part in message.parts:
            if calls_tool(part):
                call_id = part.call_id
                if call_id in seen:
                    raise InvalidOperation(f"the call {call_id!r} is made twice in one turn")
                seen.add(call_id)
                open_calls.add(call_id)
            elif answers_call(part):
                call_id = part.call_id
                if call_id not in open_calls:
                    raise InvalidOperation(f"a result for the call {call_id!r}, which is not open")
                open_calls.discard(call_id)
    if open_calls:
        raise InvalidOperation(
            f"{len(open_calls)} tool call(s) without a result: {sorted(map(str, open_calls))}; "
            "interrupt_calls() gives them one"
        )
    if any(answers_call(part) for message in query for part in message.parts):
        raise InvalidOperation(
            "a tool result answers a call of the same turn; it cannot be in a query"
        )


def interrupt_calls(reply: Sequence[Message], reason: str) -> tuple[Message, ...]:
    """Return the reply with an ``interrupted`` result for each call that has none."""
    answered = {part.call_id for message in reply for part in message.parts if answers_call(part)}
    out: list[Message] = []
    for message in reply:
        out.append(message)
        missing = [
            part.call_id
            for part in message.parts
            if calls_tool(part) and part.call_id not in answered
        ]
        if missing:
            out.append(
                messages.tool(*(ToolResult(str(call), "interrupted", reason) for call in missing))
            )
    return tuple(out)


def erase(body: str, sequence: int) -> str:
    """Return the body with one message replaced by a stub that holds its digest.

    Raises:
        InvalidOperation: There is no such message.
    """
    lines = body.split("\n")
    if not 0 <= sequence < len(lines) - 1:
        raise InvalidOperation(f"the turn has messages 0 to {len(lines) - 2}, not {sequence}")
    line = lines[sequence + 1].encode()
    if _find_stub(line) is None:
        lines[sequence + 1] = messages.line_of(ErasedMessage(digest_bytes(line))).decode()
    return "\n".join(lines)


def _find_stub(line: bytes) -> Digest | None:
    stub = _STUB.fullmatch(line)
    return None if stub is None else Digest(stub[1].decode())


def _proof(digests: Sequence[Digest], query_count: int) -> dict[str, Any]:
    return {
        "count": len(digests),
        "digest": digest_bytes(canonical(list(digests))),
        "query": query_count,
    }


def _header_to_json(header: Header, query_count: int, digests: Sequence[Digest]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "turntree": RECIPE,
        "id": header.id,
        "parent": header.parent,
        "by": header.by.to_json(),
        "started_at": header.started_at,
        "sealed_at": header.sealed_at,
        "outcome": header.outcome,
        "kind": header.kind,
        "agent_role": header.agent_role,
        "model": header.model,
        "provider": header.provider,
        "manifest": header.manifest,
        "retry_of": header.retry_of,
        "derived_from": list(header.derived_from) or None,
        "compaction": header.compaction and header.compaction.to_json(),
        "messages": _proof(digests, query_count),
    }
    return {name: value for name, value in document.items() if value is not None}


def _header_from_json(document: Mapping[str, Any]) -> Header:
    get = document.get
    compaction = get("compaction")
    return Header(
        document["id"],
        get("parent"),
        Principal.from_json(document["by"]),
        document["started_at"],
        document["sealed_at"],
        document["outcome"],
        document["kind"],
        document["agent_role"],
        get("model"),
        get("provider"),
        get("manifest"),
        get("retry_of"),
        tuple(get("derived_from", ())),
        None if compaction is None else Compaction.from_json(compaction),
    )
