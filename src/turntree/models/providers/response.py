"""Converts a vendor's response into a message.

Pure. What Turntree has no name for is kept for its author: ids and details beside the part, unknown
parts as opaque ones. Each token is counted once: cached input is not counted as input.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast

import orjson
from pydantic import TypeAdapter
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.usage import RequestUsage

from turntree.core.canonical import Json, canonical, tidy
from turntree.core.errors import NotCanonical, ProviderError
from turntree.core.message import (
    Message,
    OpaquePart,
    Part,
    Reasoning,
    Text,
    ToolUse,
    calls_tool,
)
from turntree.core.usage import Usage
from turntree.models.provider import ModelReply, ReplyDelta
from turntree.models.providers.vendor_metadata import NATIVE_KIND, ReplyAuthor, native_meta

_BESIDE: Final = ("id", "provider_details")
_NATIVE: Final[TypeAdapter[ModelResponsePart]] = TypeAdapter(ModelResponsePart)


def answer_of(
    response: ModelResponse,
    author: ReplyAuthor,
    asked_model: str,
    tools: Mapping[str, str] = MappingProxyType({}),
) -> ModelReply:
    """Return a complete reply; ``tools`` maps the vendor's names of tools to ours.

    Raises:
        ProviderError: The response is truncated or empty.
    """
    finish_reason = (response.provider_details or {}).get("finish_reason")
    reason = response.finish_reason or (str(finish_reason) if finish_reason else None)
    if reason is None:
        raise ProviderError("the answer ended in the middle", "broken")
    parts: list[Part] = []
    beside: list[Mapping[str, Json]] = []
    for native in response.parts:
        part = _part(native, author)
        if isinstance(part, ToolUse):
            part = ToolUse(part.call_id, tools.get(part.tool, part.tool), part.args)
        if part != Text("") or _beside(native):
            parts.append(part)
            beside.append({} if isinstance(part, OpaquePart) else _beside(native))
    if not parts:
        parts, beside = [Text("")], [{}]
    return ModelReply(
        Message("assistant", tuple(parts), meta=native_meta(author, beside)),
        usage_of(response.usage),
        response.model_name or asked_model,
        # Not every vendor distinguishes a reply that waits for tools from a finished one.
        "tool_call" if reason == "stop" and any(map(calls_tool, parts)) else reason,
        response.provider_response_id,
    )


def usage_of(usage: RequestUsage) -> Usage:
    """Return the tokens of a call, each counted once."""
    cached, written = usage.cache_read_tokens, usage.cache_write_tokens
    details = usage.details
    reasoning = usage.output_reasoning_tokens or details.get("reasoning_tokens", 0)
    return Usage(
        input=max(0, usage.input_tokens - cached - written),
        output=usage.output_tokens,
        cached_input=cached,
        cache_write=written,
        reasoning=min(reasoning or details.get("thoughts_tokens", 0), usage.output_tokens),
    )


class DeltaReader:
    """Turns stream events into deltas, and tracks the call that each belongs to."""

    def __init__(self, tools: Mapping[str, str] = MappingProxyType({})) -> None:
        """Start without events; ``tools`` is that of ``answer_of``."""
        self._calls: dict[int, tuple[str, str]] = {}
        self._tools = tools

    def deltas(self, event: ModelResponseStreamEvent) -> list[ReplyDelta]:
        """Return the deltas of an event; the start of a part carries its first text."""
        if isinstance(event, PartStartEvent):
            return self._begun(event.index, event.part)
        if not isinstance(event, PartDeltaEvent):
            return []
        match event.delta:
            case TextPartDelta(content_delta=text) if text:
                return [ReplyDelta("text", text)]
            case ThinkingPartDelta(content_delta=text) if text:
                return [ReplyDelta("reasoning", text)]
            case ToolCallPartDelta(args_delta=args) if args:
                return [ReplyDelta("tool", _args_text(args), *self._calls.get(event.index, ()))]
            case _:
                return []

    def _begun(self, index: int, part: ModelResponsePart) -> list[ReplyDelta]:
        match part:
            case TextPart(content=text) if text:
                return [ReplyDelta("text", text)]
            case ThinkingPart(content=text) if text:
                return [ReplyDelta("reasoning", text)]
            case ToolCallPart(tool_name=called, args=args, tool_call_id=call_id):
                name = self._tools.get(called, called)
                self._calls[index] = (name, call_id)
                first = ReplyDelta("tool", "", name, call_id)
                return (
                    [first, ReplyDelta("tool", _args_text(args), name, call_id)]
                    if args
                    else [first]
                )
            case _:
                return []


def _part(native: ModelResponsePart, author: ReplyAuthor) -> Part:
    match native:
        case TextPart(content=text):
            return Text(_sound(text))
        case ThinkingPart(content=text, signature=signature):
            return Reasoning(_sound(text), signature)
        case ToolCallPart(tool_name=tool, args=args, tool_call_id=call_id):
            return ToolUse(call_id, tool, _args(args))
        case _:
            document = tidy(_NATIVE.dump_python(native, mode="json"))
            return OpaquePart({"kind": NATIVE_KIND, **author.to_json(), "part": document})


def _beside(native: ModelResponsePart) -> dict[str, Json]:
    """Return what the library needs of a part besides its text, as plain values."""
    if not isinstance(native, TextPart | ThinkingPart | ToolCallPart):
        return {}
    document = cast("dict[str, Any]", _NATIVE.dump_python(native, mode="json"))
    return {name: tidy(document[name]) for name in _BESIDE if document.get(name)}


def _args(args: object) -> Json:
    """Return the arguments of a call; a text that is not JSON stays a text.

    A JSON string also stays as it is, quotes included, so that the two can be distinguished.
    """
    if not args:
        return {}
    text = args if isinstance(args, str) else orjson.dumps(args).decode()
    try:
        value: Json = orjson.loads(text)
        canonical(value)
    except (orjson.JSONDecodeError, NotCanonical):
        # Models send arguments that are not JSON, or numbers that no digest can hold. The text is
        # kept as it came, and the tool refuses it with a message that the model can read.
        return text
    return text if isinstance(value, str) else value


def _sound(text: str) -> str:
    """Return a text without lone surrogates: a stream may be cut inside a character."""
    return cast("str", tidy(text))


def _args_text(args: object) -> str:
    if args is None:
        return ""
    return args if isinstance(args, str) else orjson.dumps(args).decode()
