"""Removes secrets from messages before they are stored."""

from collections.abc import Iterable

import orjson

from turntree.core.message import Message, ToolResult, from_json, line_of, tool
from turntree.core.redaction import Redactor


def without_secrets(message: Message, redactor: Redactor) -> tuple[Message, int]:
    """Return a message without secrets, and the number removed."""
    line, count = redactor.redact(line_of(message))
    if not count:
        return message, 0
    clean = from_json(orjson.loads(line))
    assert isinstance(clean, Message), "nothing that is said was erased"
    return clean, count


def all_without_secrets(messages: Iterable[Message], redactor: Redactor) -> list[Message]:
    """Return messages without secrets."""
    return [without_secrets(message, redactor)[0] for message in messages]


def result_without_secrets(result: ToolResult, redactor: Redactor) -> ToolResult:
    """Return a tool result without secrets: a model needs none, and a ledger is permanent."""
    (clean,) = without_secrets(tool(result), redactor)[0].tool_results
    assert isinstance(clean, ToolResult), "nothing was lifted yet"
    return clean
