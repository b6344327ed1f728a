"""OpenAI's Responses API, as the scripted model speaks it.

Knows the JSON and the events of ``/v1/responses``. Must never know a script's rules, nor store a
response: clients have to send the complete input.
"""

from collections.abc import Iterator

from turntree.testing.scripted.dialect import (
    Dialect,
    Document,
    Event,
    OutgoingReply,
    arguments_text,
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

CREATED_AT = 1_790_000_000


def asked(_: str, body: Document) -> ScriptRequest:
    """Return the request in neutral form."""
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else documents(given)
    return ScriptRequest(
        model=body.get("model", MODEL),
        system="\n".join(_instructions(body, items)),
        said=tuple(one for item in items for one in _said(item)),
        tools=tuple(_tool_names(body)),
        streams=bool(body.get("stream")),
    )


def response(sent: OutgoingReply) -> Document:
    """Return the response of a complete reply."""
    return {
        **_opening(sent),
        "status": "completed",
        "output": _items(sent),
        "usage": _usage(sent),
    }


def events(sent: OutgoingReply) -> Iterator[Event]:
    """Yield the events of a streamed reply, numbered as clients expect."""
    for place, data in enumerate(_unnumbered(sent)):
        yield data["type"], {**data, "sequence_number": place}


def failure(failed: Failure) -> Document:
    """Return an error response."""
    is_theirs = failed.status < 500  # noqa: PLR2004 (HTTP's own)
    kind = "invalid_request_error" if is_theirs else "server_error"
    told = {"message": failed.message, "type": kind, "param": None, "code": failed.code}
    return {"error": told}


def _instructions(body: Document, items: list[Document]) -> Iterator[str]:
    yield from texts(body.get("instructions"))
    for item in items:
        if item.get("role") in {"system", "developer"}:
            yield from texts(item.get("content"))


def _tool_names(body: Document) -> Iterator[str]:
    for tool in documents(body.get("tools")):
        yield str(tool.get("name") or tool.get("type"))
        # A namespace contains tools of its own.
        for inner in documents(tool.get("tools")):
            yield str(inner.get("name"))


def _said(item: Document) -> Iterator[RequestMessage]:
    kind = str(item.get("type", "message"))
    if kind.endswith("_output"):
        output = item.get("output")
        yield RequestMessage("tool", "\n".join(texts(output)), str(item.get("call_id")))
    elif kind != "message" or item.get("role") == "assistant":
        yield RequestMessage("model", "\n".join(texts(item.get("content"))))
    elif item.get("role") == "user":
        yield said_by_user(texts(item.get("content")))


def _opening(sent: OutgoingReply) -> Document:
    return {
        "id": sent.id("resp_"),
        "object": "response",
        "created_at": CREATED_AT,
        "status": "in_progress",
        "model": sent.model,
        "output": [],
        "usage": None,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
    }


def _items(sent: OutgoingReply) -> list[Document]:
    items: list[Document] = []
    if sent.reply.reasoning:
        summary = [{"type": "summary_text", "text": sent.reply.reasoning}]
        item: Document = {"type": "reasoning", "id": sent.id("rs_"), "summary": summary}
        if sent.reply.signature is not None:
            item["encrypted_content"] = sent.reply.signature
        items.append(item)
    if sent.reply.text:
        content: list[Document] = [
            {"type": "output_text", "text": sent.reply.text, "annotations": []}
        ]
        items.append(
            {
                "type": "message",
                "id": sent.id("msg_"),
                "role": "assistant",
                "status": "completed",
                "content": content,
            }
        )
    for place, (id, call) in enumerate(sent.calls(DIALECT.call_prefix)):
        called: Document = {
            "type": "function_call",
            "id": sent.id("fc_", place),
            "call_id": id,
            "name": call.tool,
            "arguments": arguments_text(call),
            "status": "completed",
        }
        if call.namespace is not None:
            called["namespace"] = call.namespace
        items.append(called)
    return items


def _unnumbered(sent: OutgoingReply) -> Iterator[Document]:
    yield {"type": "response.created", "response": _opening(sent)}
    yield {"type": "response.in_progress", "response": _opening(sent)}
    for index, item in enumerate(_items(sent)):
        at: Document = {"output_index": index}
        added: Document = {**item, "status": "in_progress"}
        match item["type"]:
            case "reasoning":
                added["summary"] = []
                body = _reasoning(item, {**at, "item_id": item["id"]})
            case "message":
                added["content"] = []
                body = _message(item, {**at, "item_id": item["id"], "content_index": 0})
            case _:
                added["arguments"] = ""
                body = _call(item, {**at, "item_id": item["id"]})
        yield {"type": "response.output_item.added", **at, "item": added}
        yield from body
        yield {"type": "response.output_item.done", **at, "item": item}
    yield {"type": "response.completed", "response": response(sent)}


def _reasoning(item: Document, at: Document) -> Iterator[Document]:
    (part,) = item["summary"]
    at = {**at, "summary_index": 0}
    prefix = "response.reasoning_summary"
    yield {"type": f"{prefix}_part.added", **at, "part": {**part, "text": ""}}
    for piece in chunks(part["text"]):
        yield {"type": f"{prefix}_text.delta", **at, "delta": piece}
    yield {"type": f"{prefix}_text.done", **at, "text": part["text"]}
    yield {"type": f"{prefix}_part.done", **at, "part": part}


def _message(item: Document, at: Document) -> Iterator[Document]:
    (part,) = item["content"]
    yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
    for piece in chunks(part["text"]):
        yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **at, "part": part}


def _call(item: Document, at: Document) -> Iterator[Document]:
    prefix = "response.function_call_arguments"
    for piece in chunks(item["arguments"]):
        yield {"type": f"{prefix}.delta", **at, "delta": piece}
    done = {"name": item["name"], "arguments": item["arguments"]}
    yield {"type": f"{prefix}.done", **at, **done}


def _usage(sent: OutgoingReply) -> Document:
    usage = sent.reply.usage
    return {
        "input_tokens": usage.context,
        "input_tokens_details": {"cached_tokens": usage.cached_input},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.total,
    }


DIALECT = Dialect("openai-responses", "call_", asked, response, events, failure)
