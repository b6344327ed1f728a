"""Google's generateContent, as the scripted model speaks it.

Knows the JSON of ``/v1beta/models/…:generateContent`` and of its stream. Must never know a script's
rules.
"""

from collections.abc import Iterator

from turntree.testing.scripted.dialect import (
    Dialect,
    Document,
    Event,
    OutgoingReply,
    arguments_value,
    chunks,
    documents,
    member,
    texts,
)
from turntree.testing.scripted.script import (
    MODEL,
    Failure,
    RequestMessage,
    ScriptRequest,
    said_by_user,
)

_KINDS = {
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
}


def asked(path: str, body: Document) -> ScriptRequest:
    """Return the request in neutral form; its path names the model and the stream."""
    model, _, method = path.rpartition("/")[2].partition(":")
    system = body.get("systemInstruction") or body.get("system_instruction")
    contents = documents(body.get("contents"))
    return ScriptRequest(
        model=model or MODEL,
        system="\n".join(texts(member(system, "parts"))),
        said=tuple(one for content in contents for one in _said(content)),
        tools=tuple(
            str(declared.get("name"))
            for tool in documents(body.get("tools"))
            for declared in documents(tool.get("functionDeclarations"))
        ),
        streams=method.startswith("stream"),
    )


def content(sent: OutgoingReply) -> Document:
    """Return the document of a complete reply."""
    return _piece(sent, _parts(sent), last=True)


def events(sent: OutgoingReply) -> Iterator[Event]:
    """Yield the documents of a streamed reply."""
    *early, last = _streamed(sent)
    for part in early:
        yield None, _piece(sent, [part])
    yield None, _piece(sent, [last], last=True)


def failure(failed: Failure) -> Document:
    """Return an error response."""
    is_theirs = failed.status < 500  # noqa: PLR2004 (HTTP's own)
    kind = _KINDS.get(failed.status) or ("INVALID_ARGUMENT" if is_theirs else "UNAVAILABLE")
    told = {"code": failed.status, "message": failed.message, "status": failed.code or kind}
    return {"error": told}


def _said(content: Document) -> Iterator[RequestMessage]:
    parts = documents(content.get("parts"))
    if content.get("role") == "model":
        yield RequestMessage("model", "\n".join(texts(parts)))
        return
    for part in parts:
        if "functionResponse" in part:
            returned = part["functionResponse"]
            call = member(returned, "id") or member(returned, "name")
            yield RequestMessage("tool", str(member(returned, "response")), str(call))
    yield said_by_user(texts(parts))


def _parts(sent: OutgoingReply) -> list[Document]:
    parts: list[Document] = []
    if sent.reply.reasoning:
        parts.append({"text": sent.reply.reasoning, "thought": True})
    if sent.reply.text:
        parts.append({"text": sent.reply.text})
    parts += [
        {"functionCall": {"id": id, "name": call.tool, "args": arguments_value(call)}}
        for id, call in sent.calls(DIALECT.call_prefix)
    ]
    if sent.reply.signature is not None and parts:
        # The signature covers the thoughts and is sent with the part that follows them.
        parts[-1]["thoughtSignature"] = sent.reply.signature
    return parts or [{"text": ""}]


def _streamed(sent: OutgoingReply) -> list[Document]:
    return [
        piece
        for part in _parts(sent)
        for piece in (
            [{**part, "text": text} for text in chunks(part["text"])] or [part]
            if "text" in part and "thought" not in part
            else [part]
        )
    ]


def _piece(sent: OutgoingReply, parts: list[Document], *, last: bool = False) -> Document:
    candidate: Document = {"content": {"role": "model", "parts": parts}, "index": 0}
    piece: Document = {
        "candidates": [candidate],
        "modelVersion": sent.model,
        "responseId": sent.id("resp_"),
    }
    if last:
        candidate["finishReason"] = "STOP"
        piece["usageMetadata"] = _usage(sent)
    return piece


def _usage(sent: OutgoingReply) -> Document:
    usage = sent.reply.usage
    return {
        "promptTokenCount": usage.context,
        "cachedContentTokenCount": usage.cached_input,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "thoughtsTokenCount": usage.reasoning,
        "totalTokenCount": usage.total,
    }


DIALECT = Dialect("google-generate-content", "call_", asked, content, events, failure)
