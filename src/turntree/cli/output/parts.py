"""Parts of a turn as text: messages, tool arguments, tool results.

Pure, like ``cli.output.text``. It knows every kind of part, and nothing about where it is shown.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, assert_never

from turntree.cli.hints import command_hint
from turntree.cli.output.text import clean, clean_block, digits
from turntree.core.errors import NotFound
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
    answers_call,
    calls_tool,
    part_to_json,
)
from turntree.core.revision import MessagePart, ToolPart
from turntree.core.turn import Turn
from turntree.core.value import value
from turntree.transcripts.exporters.jsonl import message_document

Level = Literal["short", "normal", "full", "raw"]


@value
class ToolCall:
    """A tool call and its result."""

    number: int
    use: ToolUse | ObjectRef
    result: ToolResult | ObjectRef | None


def list_tool_calls(turn: Turn) -> list[ToolCall]:
    """Return the tool calls of a turn, numbered as they are shown."""
    parts = [part for said in turn.messages for part in said.parts]
    results = {part.call_id: part for part in parts if answers_call(part)}
    uses = [part for part in parts if calls_tool(part)]
    return [ToolCall(n, use, results.get(use.call_id)) for n, use in enumerate(uses, start=1)]


def find_part(turn: Turn, part: ToolPart | MessagePart) -> ToolCall | Message | ErasedMessage:
    """Return the part of a turn that a revision points at.

    Raises:
        NotFound: The turn has no such part.
    """
    show = command_hint(f"turntree show {digits(turn.digest)}")
    match part:
        case ToolPart(n):
            calls = list_tool_calls(turn)
            if not 1 <= n <= len(calls):
                raise NotFound(f"there are {len(calls)} tool calls, and {n} is not one", hint=show)
            return calls[n - 1]
        case MessagePart(n):
            if not 0 <= n < len(turn.messages):
                count = len(turn.messages)
                raise NotFound(f"there are {count} messages, and {n} is not one", hint=show)
            return turn.messages[n]
        case _:
            assert_never(part)


def part_document(part: ToolCall | Message | ErasedMessage) -> dict[str, Any]:
    """Return a part as a JSON document."""
    if isinstance(part, ToolCall):
        result = None if part.result is None else part_to_json(part.result)
        return {"tool_use": part_to_json(part.use), "tool_result": result}
    return message_document(part)


def draw_part(part: ToolCall | Message | ErasedMessage) -> Iterator[str]:
    """Yield the lines of a part, complete."""
    if isinstance(part, ToolCall):
        yield clean(part.use.tool or "")
        yield from _indented(clean_block(_pretty(part.use)))
        if part.result is not None:
            yield clean(str(part.result.status))
            yield from _indented(clean_block(_pretty(part.result)))
    elif isinstance(part, ErasedMessage):
        yield f"erased; its digest was {part.digest}"
    else:
        for one in part.parts:
            yield from clean_block(_whole(one))


def words_of(part: Part, level: Level) -> str:
    """Return what a part adds to the text; tool calls have a table of their own."""
    match part:
        case Text(text):
            return text
        case Media(kind, media_type, url, object_, name):
            return f"[{kind}: {name or url or object_ or media_type}]"
        case ObjectRef(of=of, size=size) if not (calls_tool(part) or answers_call(part)):
            return f"[{of}, {size:,} bytes, kept as an object]"
        case _:
            return _whole(part) if level == "full" else ""


def _whole(part: Part) -> str:
    match part:
        case Text(text):
            return text
        case Reasoning(text):
            return f"[reasoning] {text}"
        case ToolUse(_, tool, _) | ObjectRef(tool=tool) if calls_tool(part):
            return f"[{tool}] {_pretty(part)}"
        case ToolResult(_, status, _):
            return f"[{status}] {_pretty(part)}"
        case OpaquePart(document):
            return json.dumps(document, ensure_ascii=False)
        case _:
            return json.dumps(part_to_json(part), ensure_ascii=False)


def _pretty(part: ToolUse | ToolResult | ObjectRef) -> str:
    match part:
        case ToolUse(args=value) | ToolResult(output=value):
            return (
                value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
            )
        case ObjectRef(object=object_, size=size):
            return f"{size:,} bytes, kept as the object {object_}"


def brief_of(part: ToolUse | ToolResult | ObjectRef) -> str:
    """Return a short text for a tool's arguments or result."""
    match part:
        case ToolUse(args=value) | ToolResult(output=value):
            if isinstance(value, dict):
                return clean(" ".join(str(member) for member in value.values()))
            return clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        case ObjectRef(size=size):
            return f"({size:,} bytes)"


def _indented(lines: Sequence[str]) -> Iterator[str]:
    return (f"    {line}".rstrip() for line in lines)
