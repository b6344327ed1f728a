"""Convert single messages and items to nodes of a conversation.

Knows the messages of OpenAI's chat completions, the items of its responses and Anthropic's
messages. Does not know files, or which of them make up a turn.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from turntree.core.canonical import Json, tidy
from turntree.core.message import (
    Message,
    Part,
    Reasoning,
    Role,
    Source,
    ToolResult,
    ToolStatus,
    ToolUse,
    assistant,
    tool,
)
from turntree.core.usage import ModelCall
from turntree.transcripts.importers.messages.blocks import (
    Vendor,
    arguments_of,
    content_of,
    opaque,
    result_of,
    usage_of,
    words_of,
)
from turntree.transcripts.importers.shared.lenient_json import entries, mapping, moment, text, word
from turntree.transcripts.importers.shared.message_tree import (
    UNKNOWN_TOOL,
    MessageNode,
    ToolResultNode,
)

_ROLES: Final[Mapping[str, Role]] = {
    "system": "system", "developer": "system", "user": "user", "human": "user",
    "assistant": "assistant", "model": "assistant", "tool": "tool", "function": "tool",
}  # fmt: skip
_OUTPUT: Final = "_output"
_CALLS: Final[Mapping[str, str]] = {
    "function_call": "arguments", "custom_tool_call": "input", "local_shell_call": "action",
    "shell_call": "action", "computer_call": "action", "apply_patch_call": "operation",
    "mcp_call": "arguments",
}  # fmt: skip
"""Items that call a tool, and the member that holds its input."""
_SPOKEN: Final = frozenset(
    {
        "role", "content", "type", "id", "tool_calls", "function_call", "tool_call_id", "usage",
        "model", "reasoning", "reasoning_content", "refusal", "created", "created_at",
        "timestamp", "status",
    }
)  # fmt: skip
_BLOCKS: Final = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "document"})


def is_item(document: Mapping[str, Any]) -> bool:
    """Return whether a document is a message or an item of one of the three shapes."""
    if role_of(document) is not None:
        return "content" in document or "tool_calls" in document or "function_call" in document
    kind = text(document.get("type"))
    known = kind in _CALLS or kind.removesuffix(_OUTPUT) in _CALLS or kind == "reasoning"
    return known and any(name in document for name in ("call_id", "id", "summary"))


def role_of(document: Mapping[str, Any]) -> Role | None:
    """Return the role of a message, as we name it; an item may have none."""
    return _ROLES.get(text(document.get("role")))


def vendor_of(items: list[Mapping[str, Any]]) -> Vendor | None:
    """Return the vendor of such messages, if it is unambiguous."""
    for item in items:
        kinds = {text(mapping(block).get("type")) for block in entries(item.get("content"))}
        if kinds & _BLOCKS or item.get("stop_reason"):
            return "anthropic"
        if item.get("tool_calls") or item.get("tool_call_id") or item.get("call_id"):
            return "openai"
        if "role" not in item or item.get("role") in ("developer", "function"):
            return "openai"
    return None


def nodes_of(
    item: Mapping[str, Any], number: int, before: str | None, place: int, vendor: Vendor
) -> Iterator[MessageNode]:
    """Yield the nodes of one item: one, or two that follow each other.

    Anthropic's user messages hold tool results besides text: those are part of the reply.
    """
    id = f"{place}/{number}"
    role = role_of(item)
    if role is None:
        yield _item(MessageNode(id, before, places=(place,)), item, f"call_{number}", vendor)
        return
    meta = _meta(item)
    at = moment(item.get("created_at") or item.get("timestamp") or item.get("created"))
    blocks = [mapping(block) for block in entries(item.get("content"))]
    results = [result_of(block) for block in blocks if block.get("type") == "tool_result"]
    if results:
        yield MessageNode(
            f"{id}/results", before, messages=(Message("tool", tuple(results), at=at),), at=at,
            places=(place,),
        )  # fmt: skip
        before = f"{id}/results"
        words = [block for block in blocks if block.get("type") != "tool_result"]
        if not words:
            return
        item = {**item, "content": words}
    if role == "tool":
        yield _tool(id, before, item, place, meta)
        return
    # The offset would differ between equal conversations; the index in the conversation does not.
    parts = _parts(item, vendor, f"call_{number}")
    source: Source | None = "human" if role == "user" else None
    if role != "assistant":
        said = Message(role, tuple(parts), source, at, None, meta)
        yield MessageNode(id, before, asks=True, messages=(said,), at=at, places=(place,))
        return
    said = Message("assistant", tuple(parts), None, at, None, meta)
    model = word(item.get("model"))
    calls = call_of(item, vendor)
    yield MessageNode(
        id, before, messages=(said,), at=at, model=model, calls=calls, places=(place,)
    )


def call_of(document: Mapping[str, Any], vendor: Vendor | None) -> tuple[ModelCall, ...]:
    """Return the model call whose tokens a document counts."""
    used = usage_of(mapping(document.get("usage")))
    if not used.total:
        return ()
    model = word(document.get("model")) or "unknown"
    return (ModelCall(model, used, vendor, word(document.get("id"))),)


def _parts(item: Mapping[str, Any], vendor: Vendor, free: str) -> list[Part]:
    parts: list[Part] = []
    for name in ("reasoning_content", "reasoning"):
        if words := text(item.get(name)):
            parts.append(Reasoning(words))
            break
    content = item.get("content")
    parts += content_of([alone] if (alone := mapping(content)) else content, vendor)
    if words := text(item.get("refusal")):
        parts.append(opaque(vendor, "refusal", words))
    if role_of(item) != "assistant":
        return [part for part in parts if not isinstance(part, ToolUse)]
    for number, call in enumerate(map(mapping, entries(item.get("tool_calls")))):
        body = mapping(call.get("function")) or mapping(call.get("custom"))
        given = body.get("arguments") if "arguments" in body else body.get("input")
        name = word(body.get("name")) or UNKNOWN_TOOL
        call_id = word(call.get("id")) or f"{free}_{number}"
        parts.append(ToolUse(call_id, name, arguments_of(given)))
    if old := mapping(item.get("function_call")):
        name = word(old.get("name")) or UNKNOWN_TOOL
        parts.append(ToolUse(free, name, arguments_of(old.get("arguments"))))
    return parts


def _tool(
    id: str,
    before: str | None,
    item: Mapping[str, Any],
    place: int,
    meta: Mapping[str, Json] | None,
) -> MessageNode:
    content = item.get("content")
    output = content if isinstance(content, str) else tidy(content)
    call_id = word(item.get("tool_call_id"))
    if call_id is None:
        # The older shape has only the function's name.
        result = ToolResultNode(word(item.get("name")) or UNKNOWN_TOOL, "ok", output, meta=meta)
        return MessageNode(id, before, result=result, places=(place,))
    said = Message("tool", (ToolResult(call_id, "ok", output),), meta=meta)
    return MessageNode(id, before, messages=(said,), places=(place,))


def _item(node: MessageNode, item: Mapping[str, Any], free: str, vendor: Vendor) -> MessageNode:
    """Return an item that has no role: reasoning, a call or a result."""
    kind = text(item.get("type"))
    call_id = word(item.get("call_id")) or word(item.get("id")) or free
    messages: list[Message] = []
    if kind == "reasoning":
        told = (*entries(item.get("summary")), *entries(item.get("content")))
        secret = text(item.get("encrypted_content")) or None
        messages.append(assistant(Reasoning(words_of(list(told)), secret)))
    elif kind in _CALLS:
        name = word(item.get("name")) or kind.removesuffix("_call")
        messages.append(assistant(ToolUse(call_id, name, arguments_of(item.get(_CALLS[kind])))))
        if kind == "mcp_call" and (item.get("output") or item.get("error")):
            messages.append(tool(_answer(call_id, item)))
    elif kind.removesuffix(_OUTPUT) in _CALLS:
        messages.append(tool(_answer(call_id, item)))
    else:
        messages.append(assistant(opaque(vendor, kind or "item", item)))
    return replace(node, messages=tuple(messages))


def _answer(call_id: str, item: Mapping[str, Any]) -> ToolResult:
    failed = bool(item.get("error")) or item.get("status") in ("failed", "incomplete")
    status: ToolStatus = "error" if failed else "ok"
    return ToolResult(call_id, status, tidy(item.get("error") or item.get("output")))


def _meta(item: Mapping[str, Any]) -> dict[str, Json] | None:
    """Return the members of a message that have no field of their own."""
    rest = {name: tidy(value) for name, value in item.items() if name not in _SPOKEN and value}
    if (role := item.get("role")) in ("developer", "function"):
        rest["role"] = tidy(role)
    return {"messages": rest} if rest else None
