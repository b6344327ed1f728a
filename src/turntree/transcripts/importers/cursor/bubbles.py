"""Convert Cursor's bubbles, the entries of its conversations, to messages.

Knows a bubble's text, thoughts, calls and times, not rows, the order of bubbles or which of them
make up a turn.
"""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import orjson

from turntree.core.canonical import Json, tidy
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
from turntree.core.usage import ModelCall, Usage
from turntree.transcripts.importers.cursor.context import (
    carried_by,
    context_of,
    files_used,
    path_of,
)
from turntree.transcripts.importers.shared.lenient_json import (
    entries,
    mapping,
    moment,
    number,
    parse,
    text,
    word,
)

PROVIDER: Final = "cursor"
CONTEXT_COMPRESSED: Final = 22
"""The capability of a bubble that marks a summary of what came before."""

_LEXICAL_DEPTH_MAX: Final = 100_000
# Some of these members hold counters: a smaller number is not a time in milliseconds.
_YEAR_2000_MS: Final = 946_684_800_000
_MODES: Final[Mapping[object, str]] = {1: "ask", 2: "agent", 5: "plan"}
_STATUSES: Final[Mapping[str, ToolStatus]] = {
    "completed": "ok",
    "success": "ok",
    "error": "error",
    "cancelled": "canceled",
    "canceled": "canceled",
    "rejected": "canceled",
    "timeout": "timeout",
}
_SUFFIXES: Final = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".gif": "gif", ".webp": "webp"}
_META: Final = (
    "capabilityType", "isAgentic", "thinkingDurationMs", "userResponsesToSuggestedCodeBlocks",
)  # fmt: skip


def is_user(bubble: Mapping[str, Any], header: Mapping[str, Any]) -> bool:
    """Return whether a person wrote it; the list of headers knows where the bubble does not."""
    kind = bubble.get("type", header.get("type"))
    return kind in (1, "user", "human")


def time_of(bubble: Mapping[str, Any], header: Mapping[str, Any]) -> Timestamp | None:
    """Return its timestamp, if it is known.

    A small number among the timings counts from the start of the window, not from 1970.
    """
    timing = mapping(bubble.get("timingInfo"))
    names = ("clientStartTime", "clientRpcSendTime", "clientSettleTime", "clientEndTime")
    for value in (
        bubble.get("createdAt"),
        header.get("createdAt"),
        *(timing.get(name) for name in names),
        bubble.get("startedAtMs"),
        bubble.get("timestamp"),
    ):
        small = isinstance(value, int | float) and value < _YEAR_2000_MS
        if not small and (found := moment(value)) is not None:
            return found
    return None


def model_of(bubble: Mapping[str, Any]) -> str | None:
    """Return the model that a bubble names."""
    return word(mapping(bubble.get("modelInfo")).get("modelName")) or word(bubble.get("modelType"))


def summary_of(bubble: Mapping[str, Any]) -> str:
    """Return the summary of what came before, if the bubble contains one."""
    for name in ("conversationSummary", "cachedConversationSummary"):
        told = bubble.get(name)
        if words := text(told) or text(mapping(told).get("summary")):
            return words
    return text(bubble.get("text")) if bubble.get("capabilityType") == CONTEXT_COMPRESSED else ""


def call_of(bubble: Mapping[str, Any], id: str) -> ModelCall | None:
    """Return the tokens that a bubble counts; nearly all count none."""
    told = mapping(bubble.get("tokenCount"))
    used = Usage(number(told.get("inputTokens")), number(told.get("outputTokens")))
    if not used.total:
        return None
    return ModelCall(model_of(bubble) or "unknown", used, PROVIDER, word(id))


def asked(
    bubble: Mapping[str, Any], at: Timestamp | None, checkpoint: Mapping[str, Any] | None
) -> Message:
    """Return the user message of a bubble, with its attachments."""
    parts: list[Part] = []
    if words := text(bubble.get("text")) or text(bubble.get("rawText")) or _plain(bubble):
        parts.append(Text(words))
    parts += [_image(image) for image in entries(bubble.get("images"))]
    parts += carried_by(bubble)
    context, meta = context_of(bubble, ()), _meta(bubble, checkpoint)
    return Message("user", tuple(parts), "human", at, context, meta)


def answered(
    bubble: Mapping[str, Any],
    at: Timestamp | None,
    taken: set[str],
    checkpoint: Mapping[str, Any] | None,
) -> list[Message]:
    """Return the assistant message of a bubble, and the result of its call as a second message.

    ``taken`` holds the ids of the turn's calls so far and gets this one's.
    """
    parts: list[Part] = [*_thoughts(bubble)]
    words = text(bubble.get("text")) or text(bubble.get("rawText"))
    words = "\n\n".join((*([words] if words else []), *_fences(bubble, words)))
    if words:
        parts.append(Text(words))
    parts += carried_by(bubble)
    tool = mapping(bubble.get("toolFormerData"))
    used: list[TouchedFile] = []
    results: list[Message] = []
    if (name := _tool_name(tool)) is not None:
        id = free = word(tool.get("toolCallId")) or f"call-{len(taken)}"
        while free in taken:
            free = f"{id}#{len(taken)}"
        taken.add(free)
        call_id = free
        args = _args(tool)
        parts.append(ToolUse(call_id, name, args))
        used = files_used(name, args)
        if (result := _result(tool, call_id)) is not None:
            results = [Message("tool", (result,), at=at)]
    if not parts:
        return []
    context, meta = context_of(bubble, used), _meta(bubble, checkpoint)
    return [Message("assistant", tuple(parts), None, at, context, meta), *results]


def tool_of(bubble: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the call in a bubble, or an empty object."""
    tool = mapping(bubble.get("toolFormerData"))
    return tool if _tool_name(tool) is not None else {}


def is_loading(bubble: Mapping[str, Any]) -> bool:
    """Return whether the bubble's call still runs, or never returned."""
    return tool_of(bubble).get("status") == "loading"


def decoded(value: object) -> Json:
    """Return the value of a JSON text, or anything else unchanged."""
    if not isinstance(value, str):
        return tidy(value)
    if value[:1] in ("{", "["):
        try:
            return tidy(orjson.loads(value))
        except ValueError:
            return tidy(value)
    return tidy(value)


def _tool_name(tool: Mapping[str, Any]) -> str | None:
    # Thousands of bubbles contain an empty call, with neither a name nor a number.
    if name := word(tool.get("name")):
        return name
    kind = tool.get("tool")
    return f"tool_{kind}" if isinstance(kind, int) and tool.get("toolCallId") else None


def _args(tool: Mapping[str, Any]) -> Json:
    for name in ("params", "rawArgs"):
        if tool.get(name) not in (None, "", "{}"):
            return decoded(tool[name])
    return {}


def _result(tool: Mapping[str, Any], call_id: str) -> ToolResult | None:
    said = next((tool[n] for n in ("result", "error") if tool.get(n) not in (None, "")), None)
    status = _STATUSES.get(text(tool.get("status")))
    if status is None:
        # Still loading, or an unknown status: if there is a result, it counts.
        return None if said is None else ToolResult(call_id, "ok", decoded(said))
    if status == "error" and tool.get("error"):
        said = tool["error"]
    return ToolResult(call_id, status, decoded(said))


def _thoughts(bubble: Mapping[str, Any]) -> list[Part]:
    told = bubble.get("thinking")
    thinking = mapping(decoded(told) if isinstance(told, str) and told[:1] == "{" else told)
    words = text(thinking.get("text")) or (told if isinstance(told, str) and not thinking else "")
    signature = text(thinking.get("signature")) or None
    parts: list[Part] = [Reasoning(words, signature)] if words or signature else []
    if hidden := thinking.get("redactedThinking"):
        parts.append(OpaquePart({"kind": "cursor/redactedThinking", "value": tidy(hidden)}))
    return parts


def _fences(bubble: Mapping[str, Any], words: str) -> list[str]:
    """Return the code that an answer shows besides its text, as fenced blocks."""
    fences: list[str] = []
    for block in map(mapping, entries(bubble.get("codeBlocks"))):
        content = text(block.get("content"))
        if not content.strip() or content.strip() in words:
            continue
        language = (word(block.get("languageId")) or "").split(" ")[0].strip("`\n")
        path = (path_of(block.get("uri")) or "").replace("`", "").replace("\n", "")
        fences.append(f"```{language}{' ' + path if path else ''}\n{content}\n```")
    return fences


def _image(value: object) -> Part:
    told = mapping(value)
    name = path_of(told.get("path")) or path_of(value)
    if name is None:
        return OpaquePart({"kind": "cursor/image", "value": tidy(value)})
    suffix = PurePosixPath(name).suffix.lower()
    return Media("image", f"image/{_SUFFIXES.get(suffix, '*')}", name=name)


def _meta(
    bubble: Mapping[str, Any], checkpoint: Mapping[str, Any] | None
) -> dict[str, Json] | None:
    """Return a bubble's metadata, without the ids that a copy would not share."""
    meta: dict[str, Json] = {name: tidy(bubble[name]) for name in _META if bubble.get(name)}
    if (mode := bubble.get("unifiedMode")) is not None:
        meta["mode"] = _MODES.get(mode, tidy(mode)) if isinstance(mode, int) else tidy(mode)
    if model := model_of(bubble):
        meta["model"] = model
    tool = tool_of(bubble)
    for name, ours in (("tool", "tool_number"), ("toolIndex", "tool_index")):
        if isinstance(tool.get(name), int):
            meta[ours] = tidy(tool[name])
    if decision := word(tool.get("userDecision")):
        meta["user_decision"] = decision
    if checkpoint is not None:
        meta["checkpoint"] = _checkpoint(checkpoint)
    return {"cursor": meta} if meta else None


def _checkpoint(document: Mapping[str, Any]) -> Json:
    """Return which files a checkpoint holds; their content is in its record."""
    told: dict[str, Json] = {}
    for name in ("files", "nonExistentFiles", "newlyCreatedFolders", "activeInlineDiffs"):
        listed = [
            path_of(mapping(entry).get("uri")) or path_of(entry)
            for entry in entries(document.get(name))
        ]
        if paths := [path for path in listed if path is not None]:
            told[name] = paths
    return told


def _plain(bubble: Mapping[str, Any]) -> str:
    """Return the text of the editor's rich text, for a bubble without plain text."""
    rich = text(bubble.get("richText"))
    document = parse(rich.encode("utf-8", "replace")) if rich[:1] == "{" else None
    if document is None:
        return rich
    words: list[str] = []
    waiting: list[object] = [document.get("root")]
    while waiting and len(words) < _LEXICAL_DEPTH_MAX:
        node = mapping(waiting.pop())
        if node.get("type") == "linebreak":
            words.append("\n")
        elif isinstance(node.get("text"), str):
            words.append(node["text"])
        elif node.get("type") == "paragraph" and words:
            words.append("\n")
        waiting += reversed(entries(node.get("children")))
    return "".join(words)
