"""Parts of a turn as text: messages, tool arguments, tool results.

Pure, like ``cli.output.text``. It knows every kind of part, and nothing about where it is shown.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal, assert_never

from turntree.cli.command import Terminal
from turntree.cli.hints import command_hint
from turntree.cli.output.text import cells, clean, clean_block, counted, cut, digits
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
from turntree.core.message_context import split_injected
from turntree.core.revision import MessagePart, ToolPart
from turntree.core.turn import Turn
from turntree.core.value import value
from turntree.transcripts.display import summarize_call, summarize_result
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
                there = "is" if len(calls) == 1 else "are"
                calls_made = f"there {there} {counted(len(calls), 'tool call')}"
                raise NotFound(f"{calls_made}, and {n} is not one", hint=show)
            return calls[n - 1]
        case MessagePart(n):
            if not 0 <= n < len(turn.messages):
                there = "is" if len(turn.messages) == 1 else "are"
                messages = f"there {there} {counted(len(turn.messages), 'message')}"
                raise NotFound(f"{messages}, and {n} is not one", hint=show)
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


def fold_injected(said: Message, text: str) -> tuple[str, str]:
    """Return the text of a message that a tool put there, and what the person wrote."""
    if said.role == "system":
        return text, ""
    if said.role != "user":
        return "", text
    segments = split_injected(text)
    injected = "\n".join(one.text for one in segments if one.is_injected)
    return injected, "\n".join(one.text for one in segments if not one.is_injected)


def fold_line(text: str, command: str, width: int, terminal: Terminal) -> str:
    """Return one line for text that a tool put into a message, and the command that shows it."""
    lines = len(text.splitlines())
    more = f" ({counted(lines, 'line')}: {command})"
    shown = cut(clean(text), max(width - cells(more), 10), ellipsis=terminal.spell("…"))
    return terminal.paint(f"{shown}{more}", "dim")


def brief_of(part: ToolUse | ToolResult | ObjectRef) -> str:
    """Return a short text for a tool's arguments or result: a command, a file, an answer."""
    match part:
        case ToolUse(args=args):
            return clean(summarize_call(args))
        case ToolResult(output=output):
            return clean(summarize_result(output))
        case ObjectRef(size=size):
            return f"({size:,} bytes)"


def _indented(lines: Sequence[str]) -> Iterator[str]:
    return (f"    {line}".rstrip() for line in lines)
