"""OpenAI's chat completions, as the scripted model speaks them, and completions for tests.

Knows the JSON and the chunks of ``/v1/chat/completions``. Must never know a script's rules, a
socket or a ledger.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from turntree.testing.scripted.dialect import (
    Dialect,
    Document,
    Event,
    OutgoingReply,
    arguments_text,
    chunks,
    documents,
    member,
    texts,
)
from turntree.testing.scripted.responses import CREATED_AT, failure
from turntree.testing.scripted.script import MODEL, RequestMessage, ScriptRequest, said_by_user


def says(text: str, **more: Any) -> Document:
    """Return a completion with a text; ``more`` adds members."""
    return completion({"role": "assistant", "content": text}, "stop", **more)


def calls(*uses: tuple[str, str, str], **more: Any) -> Document:
    """Return a completion with tool calls: (call id, tool, arguments)."""
    message = {"role": "assistant", "content": None, "tool_calls": [_call(*use) for use in uses]}
    return completion(message, "tool_calls", **more)


def completion(message: Mapping[str, Any], finish_reason: str, **more: Any) -> Document:
    """Return a completion with one choice."""
    return {
        "object": "chat.completion",
        "created": CREATED_AT,
        "model": MODEL,
        "choices": [{"index": 0, "message": dict(message), "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        **more,
    }


def asked(_: str, body: Document) -> ScriptRequest:
    """Return the request in neutral form."""
    messages = documents(body.get("messages"))
    functions = [tool.get("function") for tool in documents(body.get("tools"))]
    return ScriptRequest(
        model=body.get("model", MODEL),
        system="\n".join(
            text
            for message in messages
            if message.get("role") in {"system", "developer"}
            for text in texts(message.get("content"))
        ),
        said=tuple(one for message in messages for one in _said(message)),
        tools=tuple(str(member(function, "name")) for function in functions),
        streams=bool(body.get("stream")),
    )


def answer(sent: OutgoingReply) -> Document:
    """Return the completion of a complete reply."""
    message: Document = {"role": "assistant", "content": sent.reply.text or None}
    if sent.reply.reasoning:
        message["reasoning_content"] = sent.reply.reasoning
    if sent.reply.calls:
        message["tool_calls"] = _tool_calls(sent)
    identity = {"id": sent.id("chatcmpl-"), "model": sent.model}
    return completion(message, _finish_reason(sent), **identity, usage=_usage(sent))


def events(sent: OutgoingReply) -> Iterator[Event]:
    """Yield the chunks of a streamed reply; the last one carries the usage."""
    yield None, _chunk(sent, {"role": "assistant", "content": ""})
    for piece in chunks(sent.reply.reasoning):
        yield None, _chunk(sent, {"reasoning_content": piece})
    for piece in chunks(sent.reply.text):
        yield None, _chunk(sent, {"content": piece})
    for index, call in enumerate(_tool_calls(sent)):
        opened = {**call, "function": {**call["function"], "arguments": ""}}
        yield None, _chunk(sent, {"tool_calls": [{"index": index, **opened}]})
        for piece in chunks(call["function"]["arguments"]):
            added = {"index": index, "function": {"arguments": piece}}
            yield None, _chunk(sent, {"tool_calls": [added]})
    yield None, _chunk(sent, {}, _finish_reason(sent))
    yield None, {**_chunk(sent, {}), "choices": [], "usage": _usage(sent)}
    yield None, "[DONE]"


def _said(message: Document) -> Iterator[RequestMessage]:
    content = texts(message.get("content"))
    match message.get("role"):
        case "assistant":
            yield RequestMessage("model", "\n".join(content))
        case "tool":
            yield RequestMessage("tool", "\n".join(content), str(message.get("tool_call_id")))
        case "user":
            yield said_by_user(content)
        case _:
            pass


def _call(id: str, tool: str, arguments: str) -> Document:
    return {"id": id, "type": "function", "function": {"name": tool, "arguments": arguments}}


def _tool_calls(sent: OutgoingReply) -> list[Document]:
    asked = sent.calls(DIALECT.call_prefix)
    return [_call(id, call.tool, arguments_text(call)) for id, call in asked]


def _chunk(sent: OutgoingReply, delta: Document, finish_reason: str | None = None) -> Document:
    return {
        "id": sent.id("chatcmpl-"),
        "object": "chat.completion.chunk",
        "created": CREATED_AT,
        "model": sent.model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


def _finish_reason(sent: OutgoingReply) -> str:
    return "tool_calls" if sent.reply.calls else "stop"


def _usage(sent: OutgoingReply) -> Document:
    usage = sent.reply.usage
    return {
        "prompt_tokens": usage.context,
        "completion_tokens": usage.output,
        "total_tokens": usage.total,
        "prompt_tokens_details": {"cached_tokens": usage.cached_input},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


DIALECT = Dialect("openai-chat", "call_", asked, answer, events, failure)
