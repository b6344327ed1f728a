"""Messages and their parts: what a model reads and writes.

These are values. A message does not know its turn, its row or its author's permissions; two
messages with the same content are the same message, unless one carries a nonce.

Parts are a closed union with one escape hatch: ``OpaquePart`` carries whatever a provider sends
that has no type here (encrypted reasoning, signatures, citations), byte for byte, so that it can be
sent back. A document this version does not understand decodes to ``OpaquePart`` and encodes to
the same document.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal, TypeGuard, cast

import orjson

from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Digest, Timestamp
from turntree.core.value import value

Role = Literal["system", "user", "assistant", "tool"]
Source = Literal["human", "agent", "trigger", "webhook", "cron", "event"]
ToolStatus = Literal["ok", "error", "timeout", "canceled", "interrupted"]

ROLES = ("system", "user", "assistant", "tool")
SOURCES = ("human", "agent", "trigger", "webhook", "cron", "event")
TOOL_STATUSES = ("ok", "error", "timeout", "canceled", "interrupted")
PART_INLINE_MAX_BYTES = 8 * 1024
"""A larger part is stored as an object, and the message holds its digest."""
EXCERPT_CHARS_MAX = 200
PARTIAL = "partial"
"""The member of a message's meta that marks it as incomplete."""
_AROUND_MAX_BYTES = 96
"""Upper bound for the bytes of a part's document besides its text."""


@value
class Text:
    """Plain text."""

    text: str


@value
class Reasoning:
    """The model's reasoning; ``signature`` lets its provider recognize it later."""

    text: str
    signature: str | None = None


@value
class Media:
    """An image, a sound or a file: by URL, or by the digest of an object."""

    kind: Literal["image", "audio", "file"]
    media_type: str
    url: str | None = None
    object: Digest | None = None
    name: str | None = None


@value
class ToolUse:
    """A tool call that the model requests."""

    call_id: str
    tool: str
    args: Json


@value
class ToolResult:
    """The output of a tool, or why there is none."""

    call_id: str
    status: ToolStatus
    output: Json


@value
class ObjectRef:
    """A part too large for the message: its canonical document is an object.

    Call id, tool, status and the beginning of a text stay readable without the object.
    """

    of: str
    object: Digest
    size: int
    call_id: str | None = None
    tool: str | None = None
    status: ToolStatus | None = None
    excerpt: str | None = None
    """The first characters of a text, for titles."""


@value
class OpaquePart:
    """Something only its provider understands, stored as received."""

    document: Mapping[str, Json]


Part = Text | Reasoning | Media | ToolUse | ToolResult | ObjectRef | OpaquePart


@value
class Message:
    """A role and its parts, in order."""

    role: Role
    parts: tuple[Part, ...]
    source: Source | None = None
    at: Timestamp | None = None
    context: Mapping[str, Json] | None = None
    """What accompanied the text: rules, attached files, hook output."""
    meta: Mapping[str, Json] | None = None
    nonce: str | None = None
    """Random, so that the content of an erased message cannot be guessed from its digest."""

    @property
    def text(self) -> str:
        """The text of the message, without reasoning."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def opening(self) -> str:
        """The text, of which a part that is stored as an object gives only its beginning."""
        return "".join(
            part.text if isinstance(part, Text) else part.excerpt or ""
            for part in self.parts
            if isinstance(part, Text | ObjectRef)
        )

    @property
    def tool_uses(self) -> tuple[ToolUse | ObjectRef, ...]:
        """The tool calls that this message requests."""
        return tuple(part for part in self.parts if calls_tool(part))

    @property
    def tool_results(self) -> tuple[ToolResult | ObjectRef, ...]:
        """The tool results that this message carries."""
        return tuple(part for part in self.parts if answers_call(part))


@value
class ErasedMessage:
    """A message that was erased on request; its digest keeps the turn verifiable."""

    digest: Digest
    role: Literal["erased"] = field(default="erased", init=False)
    parts: tuple[Part, ...] = field(default=(), init=False)
    text: str = field(default="", init=False)
    opening: str = field(default="", init=False)


def calls_tool(part: Part) -> TypeGuard[ToolUse | ObjectRef]:
    """Return whether a part requests a tool call."""
    return isinstance(part, ToolUse) or (isinstance(part, ObjectRef) and part.of == "tool_use")


def answers_call(part: Part) -> TypeGuard[ToolResult | ObjectRef]:
    """Return whether a part is the result of a tool call."""
    return isinstance(part, ToolResult) or (
        isinstance(part, ObjectRef) and part.of == "tool_result"
    )


def list_objects(part: Part) -> list[Digest]:
    """Return the objects that a part refers to: its own, or those of files in a tool's output."""
    match part:
        case ObjectRef(object=digest) | Media(object=str(digest)):
            return [Digest(digest)]
        case ToolResult(output=[*blocks]):
            return [
                Digest(str(block["object"]))
                for block in blocks
                if isinstance(block, Mapping) and isinstance(block.get("object"), str)
                and isinstance(block.get("media_type"), str)
            ]  # fmt: skip
        case _:
            return []


def user(text: str, *, source: Source | None = "human") -> Message:
    """Return a user message."""
    return Message("user", (Text(text),), source)


def assistant(*parts: Part | str) -> Message:
    """Return an assistant message; a bare string is a text part."""
    return Message("assistant", tuple(Text(p) if isinstance(p, str) else p for p in parts))


def partial(text: str) -> Message:
    """Return an assistant message that was cut off; its meta says so."""
    # A stream may end within a surrogate pair, which has no UTF-8 encoding.
    whole = text.encode("utf-8", "replace").decode()
    return Message("assistant", (Text(whole),), meta={PARTIAL: True})


def is_partial(message: Message) -> bool:
    """Return whether a message was cut off."""
    return message.meta is not None and message.meta.get(PARTIAL) is True


def tool(*results: ToolResult) -> Message:
    """Return a tool message."""
    return Message("tool", results)


def check_message(message: Message) -> None:
    """Refuse a message that no provider would accept.

    Raises:
        InvalidOperation: The role or the source is unknown, or a part does not fit the role.
    """
    if message.role not in ROLES:
        raise InvalidOperation(f"{message.role!r} is not a role; use one of {', '.join(ROLES)}")
    if message.source is not None and message.source not in SOURCES:
        raise InvalidOperation(
            f"{message.source!r} is not a source; use one of {', '.join(SOURCES)}"
        )
    if message.role == "assistant" and message.source is not None:
        raise InvalidOperation(
            "only a message that was sent in has a source; an assistant's has none"
        )
    for part in message.parts:
        if isinstance(part, Text):
            continue
        if calls_tool(part) and message.role != "assistant":
            raise InvalidOperation(f"only an assistant asks for tools, not {message.role}")
        if answers_call(part) and message.role != "tool":
            raise InvalidOperation(
                f"tool results belong in messages of role tool, not {message.role}"
            )
        if isinstance(part, ToolResult) and part.status not in TOOL_STATUSES:
            raise InvalidOperation(
                f"{part.status!r} is not a status; use one of {', '.join(TOOL_STATUSES)}"
            )
        if isinstance(part, OpaquePart):
            _check_opaque(part.document)


def _check_opaque(document: Mapping[str, Json]) -> None:
    # Under one of our kinds it would be parsed as something else: an unanswered call, or a document
    # with missing members, which could not be parsed at all.
    kind = document.get("kind")
    if not isinstance(kind, str) or kind in _READ:
        raise InvalidOperation(f"an opaque part needs a kind that is not one of ours, not {kind!r}")


def distinct_calls(message: Message, taken: Collection[str], seq: int) -> Message:
    """Return the message with call ids that are not taken, made unique by its position.

    Some providers number the calls of each answer from the start, or give them no id at all.
    """
    seen = set(taken)
    parts: list[Part] = []
    for number, part in enumerate(message.parts):
        if isinstance(part, ToolUse) and (not part.call_id or part.call_id in seen):
            part = replace(part, call_id=f"{part.call_id or 'call'}-{seq}-{number}")  # noqa: PLW2901
        if isinstance(part, ToolUse):
            seen.add(part.call_id)
        parts.append(part)
    return replace(message, parts=tuple(parts))


def lift(part: Part) -> tuple[Part, bytes | None]:
    """Return the part for a message, and the object's bytes if it had to be moved to one."""
    if _is_small(part) or isinstance(part, ObjectRef | Media):
        return part, None
    data = canonical(part_to_json(part))
    if len(data) <= PART_INLINE_MAX_BYTES:
        return part, None
    document = part_to_json(part)
    return (
        ObjectRef(
            of=str(document["kind"]),
            object=digest_bytes(data),
            size=len(data),
            call_id=document.get("call_id"),
            tool=document.get("tool"),
            status=document.get("status"),
            excerpt=part.text[:EXCERPT_CHARS_MAX] if isinstance(part, Text) else None,
        ),
        data,
    )


def lift_parts(
    message: Message,
    objects: list[bytes],
    lifting: Callable[[Part], tuple[Part, bytes | None]] = lift,
) -> Message:
    """Return the message for a body, and append the objects it then refers to."""
    parts: list[Part] = []
    changed = False
    for part in message.parts:
        inline, data = lifting(part)
        if data is not None:
            objects.append(data)
        parts.append(inline)
        changed = changed or inline is not part
    return replace(message, parts=tuple(parts)) if changed else message


def restore_parts(message: Message, objects: Mapping[Digest, bytes]) -> Message:
    """Return the message with the parts that ``lift_parts`` moved, as far as objects has them."""
    if not any(isinstance(part, ObjectRef) and part.object in objects for part in message.parts):
        return message
    return replace(
        message,
        parts=tuple(
            part_from_json(orjson.loads(objects[part.object]))
            if isinstance(part, ObjectRef) and part.object in objects
            else part
            for part in message.parts
        ),
    )


def beginning_of_part(lifted: ObjectRef, data: bytes) -> Part:
    """Return a part of which only the first bytes of its object were read.

    The document is incomplete, so its last text is closed where it ends. Where that is not enough,
    because it is nested more deeply, the bytes themselves are the text.
    """
    known = {"kind": lifted.of, "call_id": lifted.call_id, "tool": lifted.tool}
    known["status"] = lifted.status
    whole = data.decode(errors="ignore")
    # Six characters are the longest escape: one that was cut in two would not be a document.
    for end in range(len(whole), max(len(whole) - 6, 0), -1):
        for closing in ('"}', '"}}'):
            try:
                return part_from_json({**known, **orjson.loads(whole[:end] + closing)})
            except (orjson.JSONDecodeError, KeyError):
                continue
    match lifted:
        case ObjectRef(of="tool_use", call_id=str(call_id), tool=str(tool_name)):
            return ToolUse(call_id, tool_name, whole)
        case ObjectRef(of="tool_result", call_id=str(call_id)):
            return ToolResult(call_id, lifted.status or "ok", whole)
        case _:
            return Text(whole)


def _is_small(part: Part) -> bool:
    """Return whether a part certainly fits, without encoding it: a character takes six bytes at
    most.
    """
    # Every part of the ledger passes through here, and ``match`` takes twice as long.
    if isinstance(part, Text):
        chars = len(part.text)
    elif isinstance(part, ToolResult):
        if not isinstance(part.output, str):
            return False
        chars = len(part.call_id) + len(part.output)
    elif isinstance(part, Reasoning):
        chars = len(part.text) + len(part.signature or "")
    elif isinstance(part, ToolUse):
        if not isinstance(part.args, dict):
            return False
        chars = len(part.call_id) + len(part.tool)
        for name, member in part.args.items():
            if not isinstance(member, str):
                return False
            # Quotes, a colon and a comma are not escaped: one more character covers them.
            chars += len(name) + len(member) + 1
    else:
        return False
    return chars * 6 + _AROUND_MAX_BYTES <= PART_INLINE_MAX_BYTES


def to_json(message: Message) -> dict[str, Any]:
    """Return the message's document; its canonical bytes are the message's line in a body."""
    document: dict[str, Any] = {
        "role": message.role,
        "parts": [part_to_json(part) for part in message.parts],
    }
    if message.source is not None:
        document["source"] = message.source
    if message.at is not None:
        document["at"] = message.at
    if message.context is not None:
        document["context"] = message.context
    if message.meta is not None:
        document["meta"] = message.meta
    if message.nonce is not None:
        document["nonce"] = message.nonce
    return document


def from_json(document: Mapping[str, Any]) -> Message | ErasedMessage:
    """Return the message that a stored document describes."""
    get = document.get
    parts: Sequence[Mapping[str, Any]] | None = get("parts")
    if parts is None:
        return ErasedMessage(document["erased"])
    return Message(
        document["role"],
        tuple([_READ.get(part["kind"], OpaquePart)(part) for part in parts]),
        get("source"),
        get("at"),
        get("context"),
        get("meta"),
        get("nonce"),
    )


def part_to_json(part: Part) -> dict[str, Any]:
    """Return a part's document."""
    # Most parts are of these three kinds, and ``isinstance`` is faster than ``match``.
    if isinstance(part, Text):
        return {"kind": "text", "text": part.text}
    if isinstance(part, ToolUse):
        return {"kind": "tool_use", "call_id": part.call_id, "tool": part.tool, "args": part.args}
    if isinstance(part, ToolResult):
        return {
            "kind": "tool_result",
            "call_id": part.call_id,
            "status": part.status,
            "output": part.output,
        }
    match part:
        case Reasoning(text, signature):
            return _present(kind="reasoning", text=text, signature=signature)
        case Media(kind, media_type, url, object_, name):
            return _present(kind=kind, media_type=media_type, url=url, object=object_, name=name)
        case ObjectRef(of, object_, size, call_id, tool_name, status, excerpt):
            return _present(
                kind="object_ref", part=of, object=object_, size_bytes=size,
                call_id=call_id, tool=tool_name, status=status, excerpt=excerpt,
            )  # fmt: skip
        case OpaquePart(document):
            return dict(document)


def part_from_json(document: Mapping[str, Any]) -> Part:
    """Return the part that a document describes; one of an unknown kind is an ``OpaquePart``."""
    return _READ.get(document["kind"], OpaquePart)(document)


def _present(**members: Json) -> dict[str, Any]:
    """Drop null members: they would make another document with another digest."""
    return {name: value for name, value in members.items() if value is not None}


def _media(p: Mapping[str, Any]) -> Part:
    return Media(
        p["kind"], p["media_type"], url=p.get("url"), object=p.get("object"), name=p.get("name")
    )


def _lifted(p: Mapping[str, Any]) -> Part:
    return ObjectRef(
        p["part"], p["object"], p["size_bytes"],
        call_id=p.get("call_id"), tool=p.get("tool"), status=p.get("status"),
        excerpt=p.get("excerpt"),
    )  # fmt: skip


_READ: Mapping[str, Callable[[Mapping[str, Any]], Part]] = {
    "text": lambda p: Text(p["text"]),
    "reasoning": lambda p: Reasoning(p["text"], p.get("signature")),
    "image": _media,
    "audio": _media,
    "file": _media,
    "tool_use": lambda p: ToolUse(p["call_id"], p["tool"], p["args"]),
    "tool_result": lambda p: ToolResult(p["call_id"], p["status"], p["output"]),
    "object_ref": _lifted,
}


def line_of(message: Message | ErasedMessage) -> bytes:
    """Return the canonical bytes of a message, its line in a body."""
    if isinstance(message, ErasedMessage):
        return canonical({"erased": message.digest})
    return canonical(cast("Json", to_json(message)))
