"""Converts a thread into vendor-neutral messages, for a handoff to another tool.

A thread records everything that happened. The next model needs less, and in order: offloaded parts
restored, each call followed by its results, nothing that only another vendor understands. These are
pure functions over values; the exporters write their result in the format of each tool.

This module must never know a format, a file or a tool's name.
"""

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from turntree.core.canonical import Json, digest_bytes
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Digest, Timestamp, TurnId
from turntree.core.message import (
    ErasedMessage,
    Media,
    Message,
    ObjectRef,
    Part,
    Reasoning,
    Role,
    Text,
    ToolResult,
    ToolUse,
    list_objects,
    part_from_json,
)
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Turn
from turntree.core.value import value
from turntree.models.messages import ERASED_TEXT, SUMMARY_TEXT, settle

# OpenAI's limit, the tightest of the vendors.
CALL_ID_CHARS_MAX = 64
CALL_DIGITS = 24

Piece: TypeAlias = Text | Reasoning | Media | ToolUse | ToolResult
"""A part with its content in place, in a form that more than one vendor understands."""


@value
class PortableMessage:
    """One message of a handoff."""

    role: Role
    parts: tuple[Piece, ...]
    turn: TurnId
    at: Timestamp
    model: str | None = None
    provider: str | None = None
    """The provider that wrote it, and the only one that understands its reasoning."""
    is_summary: bool = False
    """Whether it summarizes turns that are not part of the handoff."""

    @property
    def text(self) -> str:
        """The text of the message, without reasoning."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))


def hand_over(
    thread: Iterable[ThreadTurn], objects: Mapping[Digest, bytes]
) -> list[PortableMessage]:
    """Return a thread as portable messages; the summary, if any, comes first.

    Every call has a result in the next message and every result has a call, even where messages
    have been erased. A compaction becomes a user message with its summary, because the model that
    continues did not write it.

    Raises:
        InvalidOperation: A part is stored as an object that is not among ``objects``.
    """
    messages = [message for entry in thread for message in _turn(entry.turn, objects)]
    return [message for message in messages if message.parts]


def objects_of(thread: Iterable[ThreadTurn]) -> list[Digest]:
    """Return the digests of the objects that ``hand_over`` needs for a thread."""
    digests = (
        digest
        for entry in thread
        for message in entry.turn.messages
        for part in message.parts
        for digest in list_objects(part)
    )
    return list(dict.fromkeys(digests))


def fit(
    told: Iterable[PortableMessage], *, provider: str, call_prefix: str
) -> list[PortableMessage]:
    """Return messages that a vendor accepts: only its own reasoning, and call ids in its format.

    A call and its result share one id, and no two calls of the thread have the same id. The ledger
    guarantees unique ids only within a turn.
    """
    calls = _Calls(call_prefix)
    fitted = [
        replace(message, parts=tuple(_fit_parts(message, provider, calls))) for message in told
    ]
    return [message for message in fitted if message.parts]


def flatten(told: Iterable[PortableMessage]) -> list[PortableMessage]:
    """Return the thread with calls and results as text, for a reader without tools."""
    return [_flat(message) for message in told]


def without_system(told: Iterable[PortableMessage]) -> list[PortableMessage]:
    """Return the thread without the system messages that one tool gave to its own model."""
    return [message for message in told if message.role != "system"]


def pieces_of(output: Json) -> list[Text | Media]:
    """Return a tool's output as text and images, whichever shape it was recorded in."""
    if output is None or output == "":
        return []
    if isinstance(output, str):
        return [Text(output)]
    if isinstance(output, Sequence) and output and all(_is_block(entry) for entry in output):
        return [piece for entry in output for piece in _block(entry)]
    return [Text(compact(output))]


def text_of(output: Json) -> str:
    """Return a tool's output as text; an image becomes a note."""
    return "\n".join(
        piece.text if isinstance(piece, Text) else note_of(piece) for piece in pieces_of(output)
    )


def note_of(media: Media) -> str:
    """Return the text that replaces media which the target cannot take."""
    address = media.url if media.url and not media.url.startswith("data:") else None
    return f"[{media.kind}: {media.name or address or media.object or media.media_type}]"


def compact(value: Json) -> str:
    """Return a value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _turn(turn: Turn, objects: Mapping[Digest, bytes]) -> Iterator[PortableMessage]:
    header = turn.header
    query = PortableMessage("user", (), turn.id, header.started_at)
    reply = PortableMessage(
        "assistant", (), turn.id, header.sealed_at, header.model, header.provider
    )
    if header.compaction is not None:
        # Restored first: most summaries are long enough to be stored as objects.
        texts = (
            _said(message, reply, objects).text
            for message in turn.reply
            if isinstance(message, Message)
        )
        summary = "\n\n".join(text for text in texts if text)
        if summary:
            yield replace(query, parts=(Text(SUMMARY_TEXT + summary),), is_summary=True)
        return
    for message in turn.query:
        yield _said(message, query, objects)
    for message in settle(turn.reply, "assistant"):
        yield _said(message, reply, objects)


def _said(
    message: Message | ErasedMessage, frame: PortableMessage, objects: Mapping[Digest, bytes]
) -> PortableMessage:
    if isinstance(message, ErasedMessage):
        return replace(frame, parts=(Text(ERASED_TEXT),))
    parts = tuple(_whole(message.parts, objects))
    return replace(frame, role=message.role, parts=parts, at=message.at or frame.at)


def _whole(parts: Iterable[Part], objects: Mapping[Digest, bytes]) -> Iterator[Piece]:
    for part in parts:
        match part:
            case ObjectRef(of, digest):
                if digest not in objects:
                    raise InvalidOperation(
                        f"a {of} is stored as object {digest}; its bytes are needed"
                    )
                yield from _whole([part_from_json(json.loads(objects[digest]))], objects)
            case Media(object=digest) if digest is not None and digest in objects:
                data = base64.b64encode(objects[digest]).decode()
                yield replace(part, url=f"data:{part.media_type};base64,{data}")
            case ToolResult(output=[*blocks]) if list_objects(part):
                yield replace(part, output=[_embedded(block, objects) for block in blocks])
            case Text(text) if not text.strip():
                continue  # Vendors refuse empty text.
            case Text() | Reasoning() | Media() | ToolUse() | ToolResult():
                yield part
            case _:
                continue  # Only the provider that sent it can read it.


def _embedded(block: Json, objects: Mapping[Digest, bytes]) -> Json:
    """Return an image of a tool's output with its bytes, as other tools record it."""
    match block:
        case {"type": "image", "media_type": kind, "object": str(digest)} if digest in objects:
            data = base64.b64encode(objects[Digest(digest)]).decode()
            source: dict[str, Json] = {"type": "base64", "media_type": kind, "data": data}
            return {"type": "image", "source": source}
        case _:
            return block


@dataclass(slots=True)
class _Calls:
    """The call ids assigned so far."""

    prefix: str
    ids: dict[tuple[TurnId, str], str] = field(default_factory=dict[tuple[TurnId, str], str])
    taken: set[str] = field(default_factory=set[str])

    def name(self, turn: TurnId, call_id: str) -> str:
        """Return the id of a new call: its own, if it is unused and in the vendor's format."""
        named = call_id
        if not self._is_theirs(call_id) or call_id in self.taken:
            seed = digest_bytes(f"{turn} {call_id}".encode()).removeprefix("sha256:")
            named = self.prefix + seed[:CALL_DIGITS]
        self.ids[turn, call_id] = named
        self.taken.add(named)
        return named

    def _is_theirs(self, call_id: str) -> bool:
        return (
            call_id.startswith(self.prefix)
            and len(call_id) <= CALL_ID_CHARS_MAX
            and call_id.isascii()
            and call_id.replace("_", "").replace("-", "").isalnum()
        )


def _fit_parts(message: PortableMessage, provider: str, calls: _Calls) -> Iterator[Piece]:
    for part in message.parts:
        match part:
            case Reasoning(signature=signature):
                if message.provider == provider and signature:
                    yield part
            case ToolUse(call_id):
                yield replace(part, call_id=calls.name(message.turn, call_id))
            case ToolResult(call_id):
                yield replace(part, call_id=calls.ids[message.turn, call_id])
            case _:
                yield part


def _flat(message: PortableMessage) -> PortableMessage:
    parts = tuple(_flat_part(part) for part in message.parts)
    return replace(message, role="user" if message.role == "tool" else message.role, parts=parts)


def _flat_part(part: Piece) -> Piece:
    match part:
        case ToolUse(_, tool, args):
            return Text(
                f"\n[tool call: {tool} {args if isinstance(args, str) else compact(args)}]\n"
            )
        case ToolResult(_, status, output):
            how = "" if status == "ok" else f" ({status})"
            return Text(f"[tool result{how}]\n{text_of(output)}\n")
        case _:
            return part


def _is_block(entry: Json) -> bool:
    return isinstance(entry, Mapping) and isinstance(entry.get("type"), str)


def _block(entry: Json) -> Iterator[Text | Media]:
    assert isinstance(entry, Mapping), "asked before"
    block: Mapping[str, Any] = entry
    match block:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)}:
            yield Text(text)
        case {"type": "image", "source": {"type": "base64", "media_type": str(kind), "data": data}}:
            yield Media("image", kind, url=f"data:{kind};base64,{data}")
        case {"type": "input_image", "image_url": str(url)}:
            yield Media("image", "image/*", url=url)
        case {
            "type": "image" | "audio" | "file" as kind,
            "media_type": str(media_type),
            "object": str(digest),
        }:
            name = entry.get("name")
            yield Media(
                kind, media_type, object=Digest(digest), name=None if name is None else str(name)
            )
        case _:
            yield Text(compact(entry))
