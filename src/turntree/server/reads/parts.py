"""Messages as documents: what a part is about, and how much of a long one is sent.

Pure. It must never drop text without saying so: ``is_cut`` is set, and the whole text of a part can
be asked for.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, assert_never

from turntree.core.canonical import Json
from turntree.core.ids import Digest
from turntree.core.message import (
    ErasedMessage,
    Media,
    Message,
    ObjectRef,
    OpaquePart,
    Part,
    Reasoning,
    Text,
    ToolResult,
    ToolUse,
    beginning_of_part,
    part_from_json,
)
from turntree.core.message_context import split_injected
from turntree.core.value import value
from turntree.transcripts.display import result_text, summarize_call, summarize_result
from turntree.wire.threads import MessageDocument, PartDocument

TEXT_BYTES_MAX: Final = 64 * 1024
"""Of a longer text only the beginning is sent."""
ABOUT_CHARS_MAX: Final = 200
TITLE_CHARS_MAX: Final = 300
_EMBEDDED: Final = "data:"


@value
class PartObjects:
    """Objects of large parts: their first bytes, and their sizes."""

    read: Mapping[Digest, tuple[bytes, int]]

    def restore(self, part: Part) -> tuple[Part, bool]:
        """Return the part that an object holds, and whether it is only a beginning."""
        if not isinstance(part, ObjectRef) or part.object not in self.read:
            return part, False
        data, size = self.read[part.object]
        if len(data) < size:
            return beginning_of_part(part, data), True
        return part_from_json(json.loads(data)), False


def one_line(text: str, chars_max: int = TITLE_CHARS_MAX) -> str:
    """Return the beginning of a text as one line."""
    # Splitting ten megabytes to show one line would take longer than everything else.
    words = " ".join(text[: chars_max * 4].split())
    return words if len(words) <= chars_max else f"{words[: chars_max - 1]}…"


def cut_text(text: str) -> tuple[str, bool]:
    """Return a text, or its beginning up to a whole character, and whether it was cut."""
    # A character has four bytes at most: a short text need not be encoded.
    if len(text) * 4 <= TEXT_BYTES_MAX:
        return text, False
    data = text.encode("utf-8", "replace")
    if len(data) <= TEXT_BYTES_MAX:
        return text, False
    return data[:TEXT_BYTES_MAX].decode(errors="ignore"), True


def message_document(
    message: Message | ErasedMessage,
    number: int,
    objects: PartObjects,
    spawned: Mapping[str, str],
) -> MessageDocument:
    """Return a message; ``spawned`` has the label of the session that each call spawned."""
    if isinstance(message, ErasedMessage):
        return MessageDocument(number, "erased", None, None, (), erased=True)
    parts = tuple(
        document
        for place, part in enumerate(message.parts)
        for document in _part_documents(message, part, place, objects, spawned)
    )
    return MessageDocument(number, message.role, message.source, message.at, parts, erased=False)


def _part_documents(
    message: Message, stored: Part, number: int, objects: PartObjects, spawned: Mapping[str, str]
) -> list[PartDocument]:
    part, is_beginning = objects.restore(stored)
    match part:
        case Text(text):
            shown, is_cut = cut_text(text)
            segments = split_injected(shown) if message.role == "user" else []
            is_cut = is_cut or is_beginning
            if not any(segment.is_injected for segment in segments):
                return [PartDocument("text", number, shown, is_cut)]
            return [
                PartDocument("text", number, segment.text, is_cut, segment.is_injected)
                for segment in segments
            ]
        case Reasoning(text):
            shown, is_cut = cut_text(text)
            return [PartDocument("reasoning", number, shown, is_cut or is_beginning)]
        case ToolUse(call_id, tool, args):
            shown_args, is_cut = cut_args(args)
            return [
                PartDocument(
                    "tool_use", number, is_cut=is_cut or is_beginning, call_id=call_id, tool=tool,
                    args=shown_args, about=one_line(summarize_call(args), ABOUT_CHARS_MAX),
                    spawned=spawned.get(call_id),
                )
            ]  # fmt: skip
        case ToolResult(call_id, status, output):
            shown, is_cut = cut_text(result_text(output))
            return [
                PartDocument(
                    "tool_result", number, is_cut=is_cut or is_beginning, call_id=call_id,
                    status=status, output=shown,
                    about=one_line(summarize_result(output), ABOUT_CHARS_MAX),
                )
            ]  # fmt: skip
        case Media(kind, media_type, url, object_, name):
            # An address on the network is shown, never loaded: only an embedded image is sent.
            address = url if url is not None and len(url) <= TEXT_BYTES_MAX * 4 else None
            is_shown = kind == "image" and address is not None and address.startswith(_EMBEDDED)
            return [
                PartDocument(
                    "image" if is_shown else "other", number, media_type=media_type, url=address,
                    text=name or (None if is_shown else address or object_ or kind),
                    is_cut=address is not url,
                )
            ]  # fmt: skip
        case ObjectRef():
            # The object is gone: erased, or not copied with the ledger.
            text = part.excerpt or f"{part.of}, {part.size:,} bytes, no longer stored"
            return [
                PartDocument(
                    "other", number, text, is_cut=True, call_id=part.call_id, tool=part.tool,
                    status=part.status,
                )
            ]  # fmt: skip
        case OpaquePart(document):
            shown, is_cut = cut_text(json.dumps(document, ensure_ascii=False, indent=2))
            return [PartDocument("other", number, shown, is_cut, about=str(document.get("kind")))]
        case _:
            assert_never(part)


def cut_args(args: Json) -> tuple[Any, bool]:
    """Return the arguments of a call with long texts in them cut, and whether any was."""
    if isinstance(args, str):
        return cut_text(args)
    if isinstance(args, Mapping):
        members = {name: cut_args(member) for name, member in args.items()}
        shown = {name: member for name, (member, _) in members.items()}
        return shown, any(is_cut for _, is_cut in members.values())
    if isinstance(args, list):
        items = [cut_args(item) for item in args]
        return [item for item, _ in items], any(is_cut for _, is_cut in items)
    return args, False


def whole_text(part: Part) -> str:
    """Return everything that a part says."""
    match part:
        case Text(text) | Reasoning(text):
            return text
        case ToolUse(args=args):
            return args if isinstance(args, str) else json.dumps(args, ensure_ascii=False, indent=2)
        case ToolResult(output=output):
            return result_text(output)
        case Media():
            return part.url or part.name or part.media_type
        case ObjectRef():
            return part.excerpt or ""
        case OpaquePart(document):
            return json.dumps(document, ensure_ascii=False, indent=2)
        case _:
            assert_never(part)
