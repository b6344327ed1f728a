"""Export a thread as chat messages and as items of OpenAI's Responses API.

Pure: knows the JSON, not a client. Encrypted reasoning is sent back only where OpenAI created it; a
call whose argument is a plain text belongs to a custom tool.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from turntree.core.message import Media, Reasoning, Text, ToolResult, ToolUse
from turntree.models.portable_thread import (
    PortableMessage,
    compact,
    fit,
    note_of,
    pieces_of,
    text_of,
)
from turntree.transcripts.exporters.shared import tool_name

PROVIDER: Final = "openai"
CALL_PREFIX: Final = "call_"


def to_chat(told: Sequence[PortableMessage]) -> list[dict[str, Any]]:
    """Return the messages of a chat-completions request."""
    fitted = fit(told, provider=PROVIDER, call_prefix=CALL_PREFIX)
    return [document for said in fitted for document in _chat(said)]


def to_items(told: Sequence[PortableMessage]) -> list[tuple[PortableMessage, dict[str, Any]]]:
    """Return the input items of a Responses request, each with the message it is from."""
    custom: set[str] = set()
    fitted = fit(told, provider=PROVIDER, call_prefix=CALL_PREFIX)
    return [(said, item) for said in fitted for item in _items(said, custom)]


def _chat(said: PortableMessage) -> Iterator[dict[str, Any]]:
    for part in said.parts:
        if isinstance(part, ToolResult):
            yield {"role": "tool", "tool_call_id": part.call_id, "content": _answer(part)}
    content = [_content(part) for part in said.parts if isinstance(part, Text | Media)]
    calls = [_call(part) for part in said.parts if isinstance(part, ToolUse)]
    if not content and not calls:
        return
    document: dict[str, Any] = {"role": said.role, "content": _joined(content)}
    yield {**document, "tool_calls": calls} if calls else document


def _joined(content: list[dict[str, Any]]) -> str | list[dict[str, Any]] | None:
    """Return text as one string, which every server reads; with images it stays in parts."""
    if all(part["type"] == "text" for part in content):
        return "\n".join(part["text"] for part in content) or None
    return content


def _content(part: Text | Media) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text}
    if part.kind == "image" and part.url is not None:
        return {"type": "image_url", "image_url": {"url": part.url}}
    return {"type": "text", "text": note_of(part)}


def _call(use: ToolUse) -> dict[str, Any]:
    args = {"input": use.args} if isinstance(use.args, str) else use.args
    function = {"name": tool_name(use.tool), "arguments": compact(args)}
    return {"id": use.call_id, "type": "function", "function": function}


def _answer(result: ToolResult) -> str:
    return text_of(result.output) or ("" if result.status == "ok" else f"[{result.status}]")


def _items(said: PortableMessage, custom: set[str]) -> Iterator[dict[str, Any]]:
    words: list[dict[str, Any]] = []
    for part in said.parts:
        match part:
            case Text() | Media():
                words.append(_input(part, "output" if said.role == "assistant" else "input"))
                continue
            case _:
                yield from _message(said, words)
                words = []
        match part:
            case Reasoning(text, signature):
                summary = [{"type": "summary_text", "text": text}] if text else []
                yield {"type": "reasoning", "summary": summary, "encrypted_content": signature}
            case ToolUse(call_id, tool, str(text)):
                custom.add(call_id)
                name = tool_name(tool)
                yield {"type": "custom_tool_call", "name": name, "input": text, "call_id": call_id}
            case ToolUse(call_id, tool, args):
                yield {
                    "type": "function_call",
                    "name": tool_name(tool),
                    "arguments": compact(args),
                    "call_id": call_id,
                }
            case ToolResult(call_id):
                kind = "custom_tool_call_output" if call_id in custom else "function_call_output"
                yield {"type": kind, "call_id": call_id, "output": _output(part)}
    yield from _message(said, words)


def _message(said: PortableMessage, words: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    if words:
        role = "developer" if said.role == "system" else said.role
        yield {"type": "message", "role": role, "content": words}


def _input(part: Text | Media, direction: str) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": f"{direction}_text", "text": part.text}
    if part.kind == "image" and part.url is not None and direction == "input":
        return {"type": "input_image", "image_url": part.url}
    return {"type": f"{direction}_text", "text": note_of(part)}


def _output(result: ToolResult) -> str | list[dict[str, Any]]:
    pieces = pieces_of(result.output)
    if any(isinstance(piece, Media) for piece in pieces):
        return [_input(piece, "input") for piece in pieces]
    return _answer(result)
