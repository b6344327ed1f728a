"""Anthropic's Messages API, as the scripted model speaks it.

Knows the JSON and the events of ``/v1/messages``. Must never know a script's rules.
"""

import json
import re
from collections.abc import Iterator

from turntree.testing.scripted.dialect import (
    Dialect,
    Document,
    Event,
    OutgoingReply,
    arguments_value,
    chunks,
    documents,
    texts,
)
from turntree.testing.scripted.script import (
    MODEL,
    Failure,
    RequestMessage,
    ScriptRequest,
    said_by_user,
)

SIGNATURE = "c2NyaXB0ZWQ="
"""Signature of a thinking block; clients send it back unchecked."""
# Claude Code says so beside the tools that a search of its has found, to some models. The user did
# not type it, and unlike its other notes it stands between no tags.
_LOADED = re.compile(r"Tool loaded\.(\n\[id:[^\]\n]+\])*\n?")


def asked(_: str, body: Document) -> ScriptRequest:
    """Return the request in neutral form."""
    return ScriptRequest(
        model=body.get("model", MODEL),
        system="\n".join(texts(body.get("system"))),
        said=tuple(one for message in documents(body.get("messages")) for one in _said(message)),
        tools=tuple(str(tool.get("name")) for tool in documents(body.get("tools"))),
        streams=bool(body.get("stream")),
    )


def message(sent: OutgoingReply) -> Document:
    """Return the message of a complete reply."""
    return {
        **_opening(sent),
        "content": _blocks(sent),
        "stop_reason": _stop_reason(sent),
        "usage": _usage(sent),
    }


def events(sent: OutgoingReply) -> Iterator[Event]:
    """Yield the events of a streamed reply."""
    # The output tokens are unknown at the first event; real servers send a small number.
    started = {**_opening(sent), "usage": {**_usage(sent), "output_tokens": 1}}
    yield _event({"type": "message_start", "message": started})
    for index, block in enumerate(_blocks(sent)):
        empty, deltas = _deltas(block)
        yield _event({"type": "content_block_start", "index": index, "content_block": empty})
        for delta in deltas:
            yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": _stop_reason(sent), "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": stop, "usage": _usage(sent)})
    yield _event({"type": "message_stop"})


def failure(failed: Failure) -> Document:
    """Return an error response."""
    status = failed.status
    kind = "rate_limit_error" if status == 429 else "api_error"  # noqa: PLR2004 (HTTP's own)
    if status in {400, 404}:
        kind = "invalid_request_error"
    if status == 529:  # noqa: PLR2004 (Anthropic's own)
        kind = "overloaded_error"
    return {"type": "error", "error": {"type": failed.code or kind, "message": failed.message}}


def _said(message: Document) -> Iterator[RequestMessage]:
    content = message.get("content")
    if message.get("role") == "assistant":
        yield RequestMessage("model", "\n".join(texts(content)))
        return
    if message.get("role") != "user":
        return
    typed, has_found_tools = texts(content), False
    for block in documents(content):
        if block.get("type") == "tool_result":
            parts = block.get("content")
            has_found_tools |= any(one.get("type") == "tool_reference" for one in documents(parts))
            yield RequestMessage("tool", "\n".join(texts(parts)), str(block.get("tool_use_id")))
    if has_found_tools:
        typed = [text for text in typed if not _LOADED.fullmatch(text)]
    yield said_by_user(typed)


def _opening(sent: OutgoingReply) -> Document:
    return {
        "id": sent.id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": sent.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _blocks(sent: OutgoingReply) -> list[Document]:
    blocks: list[Document] = []
    if sent.reply.reasoning:
        thought = sent.reply.reasoning
        signature = sent.reply.signature or SIGNATURE
        blocks.append({"type": "thinking", "thinking": thought, "signature": signature})
    if sent.reply.text:
        blocks.append({"type": "text", "text": sent.reply.text})
    blocks += [
        {"type": "tool_use", "id": id, "name": call.tool, "input": arguments_value(call)}
        for id, call in sent.calls(DIALECT.call_prefix)
    ]
    return blocks


def _deltas(block: Document) -> tuple[Document, list[Document]]:
    """Return the start of a block, and its deltas."""
    match block["type"]:
        case "thinking":
            pieces = chunks(block["thinking"])
            thoughts: list[Document] = [
                {"type": "thinking_delta", "thinking": one} for one in pieces
            ]
            signed: Document = {"type": "signature_delta", "signature": block["signature"]}
            return {**block, "thinking": "", "signature": ""}, [*thoughts, signed]
        case "text":
            words = chunks(block["text"])
            return {**block, "text": ""}, [{"type": "text_delta", "text": one} for one in words]
        case _:
            pieces = chunks(json.dumps(block["input"]))
            return {**block, "input": {}}, [
                {"type": "input_json_delta", "partial_json": one} for one in pieces
            ]


def _stop_reason(sent: OutgoingReply) -> str:
    return "tool_use" if sent.reply.calls else "end_turn"


def _usage(sent: OutgoingReply) -> Document:
    usage = sent.reply.usage
    return {
        "input_tokens": usage.input,
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached_input,
        "output_tokens": usage.output,
        "output_tokens_details": {"thinking_tokens": usage.reasoning},
        "service_tier": "standard",
    }


def _event(data: Document) -> Event:
    return data["type"], data


DIALECT = Dialect("anthropic-messages", "toolu_", asked, message, events, failure)
