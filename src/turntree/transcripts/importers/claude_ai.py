"""Import Claude.ai's export: a list of messages for each conversation, a tree if parents are named.

A transcript is one conversation. ``hosted_chat`` does what all exports have in common.
"""

from collections.abc import Mapping
from typing import Any, Final

from turntree.core.canonical import tidy
from turntree.core.ids import Timestamp
from turntree.core.message import (
    Media,
    Message,
    OpaquePart,
    Part,
    Reasoning,
    Text,
    ToolResult,
    ToolStatus,
    ToolUse,
)
from turntree.core.message_context import TouchedFile
from turntree.transcripts.importers.shared.hosted_chat import ExportImporter
from turntree.transcripts.importers.shared.lenient_json import entries, mapping, moment, text, word
from turntree.transcripts.importers.shared.message_tree import NEVER, MessageNode, MessageTree

PROVIDER: Final = "anthropic"
_DETAILS: Final[Mapping[str, str]] = {
    "created_at": "created", "updated_at": "updated", "summary": "summary", "project": "project",
    "is_starred": "starred", "settings": "settings", "model": "model",
}  # fmt: skip


class ClaudeAiImporter(ExportImporter):
    """Reads Claude.ai's data export."""

    origin = "claude-ai"
    hint = b'"chat_messages"'
    title = "name"
    details = _DETAILS

    @staticmethod
    def identify(document: Mapping[str, Any]) -> str | None:
        """Return a conversation's id, or None if the document has no list of messages."""
        if not isinstance(document.get("chat_messages"), list):
            return None
        return word(document.get("uuid"))

    def tree(
        self, document: Mapping[str, Any], place: int, beside: Mapping[str, int]
    ) -> tuple[MessageTree, dict[str, int]]:
        """Return the messages of a conversation, and the number of each unknown kind."""
        del beside
        said = [mapping(message) for message in entries(document.get("chat_messages"))]
        # Older exports name no parents: there a message follows the one before it.
        linked = any(message.get("parent_message_uuid") for message in said)
        nodes: dict[str, MessageNode] = {}
        counted: dict[str, int] = {}
        before: str | None = None
        for number, message in enumerate(said):
            id = word(message.get("uuid")) or f"message-{number}"
            above = word(message.get("parent_message_uuid")) if linked else before
            nodes[id] = _node(id, None if above == id else above, message, place, counted)
            before = id
        current = word(document.get("current_leaf_message_uuid")) or before
        start = moment(document.get("created_at")) or NEVER
        return MessageTree(nodes, start, current, PROVIDER), counted


def _node(
    id: str, parent: str | None, message: Mapping[str, Any], place: int, counted: dict[str, int]
) -> MessageNode:
    at = moment(message.get("created_at"))
    if (sender := text(message.get("sender"))) not in ("human", "assistant"):
        counted[f"sender {sender[:40]}"] = counted.get(f"sender {sender[:40]}", 0) + 1
        return MessageNode(id, parent)
    asks = sender == "human"
    messages = (_asked(message, at),) if asks else _answered(id, message, at)
    until = None if asks else _until(message)
    return MessageNode(id, parent, asks, messages, at=at, until=until, places=(place,))


def _asked(message: Mapping[str, Any], at: Timestamp | None) -> Message:
    parts: list[Part] = []
    files: list[str] = []
    if words := _words(message):
        parts.append(Text(words))
    for attached in map(mapping, entries(message.get("attachments"))):
        name = word(attached.get("file_name")) or "attachment"
        files.append(name)
        parts.append(OpaquePart({"kind": "claude-ai/attachment", "value": tidy(attached)}))
    for file in map(mapping, entries(message.get("files"))):
        if called := word(file.get("file_name")) or word(file.get("file_uuid")):
            files.append(called)
            parts.append(Media("file", "application/*", name=called))
    touched = [TouchedFile("attached", name).to_json() for name in dict.fromkeys(files)]
    return Message("user", tuple(parts), "human", at, {"files": touched} if touched else None)


def _words(message: Mapping[str, Any]) -> str:
    blocks = (mapping(block) for block in entries(message.get("content")))
    said = [text(block.get("text")) for block in blocks if block.get("type") == "text"]
    return "\n\n".join(words for words in said if words) or text(message.get("text"))


def _answered(id: str, message: Mapping[str, Any], at: Timestamp | None) -> tuple[Message, ...]:
    """Return the model's messages; each tool result is a message of its own."""
    told: list[Message] = []
    parts: list[Part] = []
    waiting: list[ToolUse] = []
    taken: set[str] = set()
    for block in map(mapping, entries(message.get("content"))):
        if block.get("type") != "tool_result":
            parts += _block(block, waiting, taken, f"call_{id}_{len(taken)}")
            continue
        result, extra = _result(block, waiting, f"call_{id}_{len(taken)}")
        taken.add(result.call_id)
        parts += extra
        if parts:
            told.append(Message("assistant", tuple(parts), at=at))
        told.append(Message("tool", (result,), at=at))
        parts = []
    if not told and not parts and (words := text(message.get("text"))):
        parts = [Text(words)]
    if parts:
        told.append(Message("assistant", tuple(parts), at=at))
    return tuple(told)


def _block(
    block: Mapping[str, Any], waiting: list[ToolUse], taken: set[str], free: str
) -> list[Part]:
    match block.get("type"):
        case "text":
            parts: list[Part] = [Text(words)] if (words := text(block.get("text"))) else []
            if block.get("citations"):
                cited = tidy(block["citations"])
                parts.append(OpaquePart({"kind": "claude-ai/citations", "value": cited}))
            return parts
        case "thinking":
            return [Reasoning(text(block.get("thinking")), text(block.get("signature")) or None)]
        case "tool_use":
            id = word(block.get("id"))
            call_id = free if id is None or id in taken else id
            taken.add(call_id)
            use = ToolUse(call_id, word(block.get("name")) or "tool", tidy(block.get("input")))
            waiting.append(use)
            return [use]
        case kind:
            name = (word(kind) or "block")[:80]
            return [OpaquePart({"kind": f"claude-ai/{name}", "value": tidy(block)})]


def _result(
    block: Mapping[str, Any], waiting: list[ToolUse], free: str
) -> tuple[ToolResult, list[Part]]:
    """Return a result and, if it has no call, the call it must have answered."""
    named = [use for use in waiting if use.call_id == block.get("tool_use_id")]
    alike = [use for use in waiting if use.tool == block.get("name")]
    use = next(iter((*named, *alike, *waiting)), None)
    extra: list[Part] = []
    if use is None:
        use = ToolUse(free, word(block.get("name")) or "tool", {})
        extra = [use]
    else:
        waiting.remove(use)
    status: ToolStatus = "error" if block.get("is_error") is True else "ok"
    return ToolResult(use.call_id, status, tidy(block.get("content"))), extra


def _until(message: Mapping[str, Any]) -> Timestamp | None:
    told = [mapping(block).get("stop_timestamp") for block in entries(message.get("content"))]
    times = [at for value in (*told, message.get("updated_at")) if (at := moment(value))]
    return max(times, default=None)
