"""What a request told a model of earlier tool calls, read in whichever vendor's words it was.

Knows the four dialects of the scripted model's log. Must never know who wrote the session.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turntree.testing.scripted.server import RecordedExchange


@dataclass(slots=True)
class Sent:
    """The calls of a request with their results, and all of its text."""

    text: str
    calls: dict[str, tuple[str, Any]] = field(default_factory=dict[str, tuple[str, Any]])
    """By id, the tool and what it was given."""
    results: dict[str, str] = field(default_factory=dict[str, str])

    def pairs(self) -> list[tuple[str, Any, str]]:
        """Return each call that has its result: tool, arguments, output."""
        return [(*call, self.results[id]) for id, call in self.calls.items() if id in self.results]


def sent_in(exchange: RecordedExchange) -> Sent:
    """Return what a request held."""
    sent = Sent(json.dumps(exchange.body, ensure_ascii=False))
    for entry in READERS[str(exchange.dialect)](exchange.body):
        match entry:
            case (id, tool, arguments):
                sent.calls[id] = (tool, arguments)
            case (id, output):
                sent.results[id] = output
    return sent


Entry = tuple[str, str, Any] | tuple[str, str]
"""A call, or a result."""


def _anthropic(body: Mapping[str, Any]) -> Iterator[Entry]:
    for block in _blocks(body["messages"], "content"):
        if block.get("type") == "tool_use":
            yield block["id"], block["name"], block["input"]
        elif block.get("type") == "tool_result":
            yield block["tool_use_id"], _text(block["content"])


def _responses(body: Mapping[str, Any]) -> Iterator[Entry]:
    for item in body["input"]:
        kind = str(item.get("type"))
        if kind == "function_call":
            yield item["call_id"], item["name"], json.loads(item["arguments"])
        elif kind == "custom_tool_call":
            yield item["call_id"], item["name"], {"input": item["input"]}
        elif kind in ("function_call_output", "custom_tool_call_output"):
            yield item["call_id"], _text(item["output"])


def _chat(body: Mapping[str, Any]) -> Iterator[Entry]:
    for message in body["messages"]:
        for call in message.get("tool_calls") or ():
            function = call["function"]
            yield call["id"], function["name"], json.loads(function["arguments"])
        if message["role"] == "tool":
            yield message["tool_call_id"], _text(message["content"])


def _google(body: Mapping[str, Any]) -> Iterator[Entry]:
    for part in _blocks(body["contents"], "parts"):
        if call := part.get("functionCall"):
            yield call["id"], call["name"], call["args"]
        elif answer := part.get("functionResponse"):
            yield answer["id"], str(next(iter(answer["response"].values())))


def _blocks(messages: Sequence[Mapping[str, Any]], member: str) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        if not isinstance(message[member], str):
            yield from message[member]


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in content)


READERS = {
    "anthropic-messages": _anthropic,
    "openai-responses": _responses,
    "openai-chat": _chat,
    "google-generate-content": _google,
}
