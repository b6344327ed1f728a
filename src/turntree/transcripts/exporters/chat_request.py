"""Export a thread as the messages of a chat-completions request.

The inverse of ``openai_chat``, and pure like it: knows the JSON, not a client. A history may come
from another provider or have erased messages; ``settle`` ensures what every server checks first:
each call has one result, and each result belongs to a call.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Digest
from turntree.core.message import (
    Media,
    Message,
    ObjectRef,
    OpaquePart,
    Part,
    Reasoning,
    Text,
    ToolResult,
    ToolUse,
    part_from_json,
)
from turntree.core.thread import ThreadTurn
from turntree.models.messages import settle

META = "openai_chat"
"""The name in a message's ``meta`` of members that only chat completions have."""
PART = "openai_chat.part"
"""The kind of an opaque part that is a content part of chat completions."""


def to_chat(
    thread: Iterable[ThreadTurn], objects: Mapping[Digest, bytes] | None = None
) -> list[dict[str, Any]]:
    """Return a thread as the messages of a chat-completions request.

    Erased content is marked as such, and every call keeps a result, so that the request is
    accepted. Parts that only another provider understands are left out.

    Raises:
        InvalidOperation: A part is an object whose bytes are not in ``objects``, or chat
            completions cannot express it.
    """
    chat: list[dict[str, Any]] = []
    for placed in thread:
        turn = placed.turn
        # A tool's message may have members of its own, such as its name.
        fields = {
            part.call_id: _members(_members(message.meta or {}, META), "fields")
            for message in turn.messages
            if isinstance(message, Message)
            for part in message.tool_results
        }
        for message in (*settle(turn.query, "user"), *settle(turn.reply, "assistant")):
            chat += _documents(message, fields, objects or {})
    return chat


def _documents(
    message: Message,
    tool_fields: Mapping[str | None, Mapping[str, Any]],
    objects: Mapping[Digest, bytes],
) -> list[dict[str, Any]]:
    """Return one message as chat messages: several results are several messages there."""
    parts = [_whole(part, objects) for part in message.parts]
    results = [part for part in parts if isinstance(part, ToolResult)]
    if results:
        return [
            {
                "role": "tool",
                "tool_call_id": part.call_id,
                "content": _output(part.output),
                **tool_fields.get(part.call_id, {}),
            }
            for part in results
        ]
    meta = _members(message.meta or {}, META)
    fields = _members(meta, "fields")
    document: dict[str, Any] = {"role": meta.get("role") or message.role}
    content = [_part_to(part) for part in parts if _is_content(part)]
    if content or meta.get("content") == "parts" or message.role == "assistant":
        document["content"] = _content(content, as_parts=meta.get("content") == "parts")
    thoughts = "".join(part.text for part in parts if isinstance(part, Reasoning))
    if thoughts and meta.get("reasoning"):
        document[meta["reasoning"]] = thoughts
    calls = [
        _call_to(part, _members(_members(meta, "calls"), part.call_id))
        for part in parts
        if isinstance(part, ToolUse)
    ]
    return [{**document, **({"tool_calls": calls} if calls else {}), **fields}]


def _whole(part: Part, objects: Mapping[Digest, bytes]) -> Part:
    if not isinstance(part, ObjectRef):
        return part
    if part.object not in objects:
        raise InvalidOperation(
            f"a {part.of} stands as the object {part.object}; its bytes are needed"
        )
    return part_from_json(json.loads(objects[part.object]))


def _is_content(part: Part) -> bool:
    return isinstance(part, Text | Media) or (
        isinstance(part, OpaquePart) and part.document.get("kind") == PART
    )


def _part_to(part: Part) -> Any:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Media("image", _, str(url)):
            return {"type": "image_url", "image_url": {"url": url}}
        case OpaquePart(document):
            return document["part"]
        case _:
            raise InvalidOperation(f"chat completions have no shape for {part}")


def _content(content: Sequence[Mapping[str, Any]], *, as_parts: bool) -> Any:
    only_words = all(part["type"] == "text" for part in content)
    if as_parts or not only_words:
        return list(content)
    return "".join(part["text"] for part in content) if content else None


def _call_to(use: ToolUse, more: Mapping[str, Any]) -> dict[str, Any]:
    rest = dict(more)
    kind = str(rest.pop("type", "function"))
    args = use.args if isinstance(use.args, str) else _compact(use.args)
    asked = {"arguments" if kind == "function" else "input": args}
    body = {"name": use.tool, **asked, **_members(rest, kind)}
    return {**rest, "id": use.call_id, "type": kind, kind: body}


def _output(output: Json) -> Any:
    """Return a result as text, or as the list of parts that it came as."""
    if output is None or isinstance(output, str):
        return output or ""
    if isinstance(output, Sequence) and all(isinstance(p, Mapping) and "type" in p for p in output):
        return list(output)
    return _compact(output)


def _compact(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _members(document: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return document.get(name) or {}
