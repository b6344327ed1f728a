"""Parse single parts of opencode's messages."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from turntree.core.canonical import Json, tidy
from turntree.core.ids import Timestamp
from turntree.core.message import (
    Media,
    Message,
    Part,
    Reasoning,
    Text,
    ToolResult,
    ToolStatus,
    ToolUse,
)
from turntree.core.message_context import FileUse, TouchedFile
from turntree.core.usage import Usage
from turntree.core.value import value
from turntree.transcripts.importers.shared.lenient_json import (
    entries,
    mapping,
    moment,
    number,
    text,
    word,
)

_WRITERS: Final = ("write", "edit", "multiedit", "patch", "apply_patch")
_READERS: Final = ("read",)
_SIGNATURES: Final = ("signature", "reasoningEncryptedContent", "thoughtSignature")


def said_by_user(part: Mapping[str, Any]) -> Part | None:
    """Return the part of a user message, or None."""
    match part.get("type"):
        case "text" if words := text(part.get("text")):
            return Text(words)
        case "subtask" if words := text(part.get("prompt")):
            return Text(words)
        case "file" if url := text(part.get("url")):
            kind = word(part.get("mime")) or "application/octet-stream"
            return Media(_media_kind(kind), kind, url=url, name=word(part.get("filename")))
        case _:
            return None


def _media_kind(media_type: str) -> Literal["image", "audio", "file"]:
    match media_type.partition("/")[0]:
        case "image" | "audio" as kind:
            return kind
        case _:
            return "file"


def attached(part: Mapping[str, Any]) -> Iterator[TouchedFile]:
    """Yield the file that a person attached, with the selected lines."""
    source = mapping(part.get("source"))
    if part.get("type") == "file" and (path := word(source.get("path"))):
        lines = mapping(source.get("range"))
        first, last = mapping(lines.get("start")), mapping(lines.get("end"))
        if first and last:
            # Lines are counted from 0 there and from 1 here.
            span = number(first.get("line")) + 1, number(last.get("line")) + 1
            yield TouchedFile("attached", path, *span)
        else:
            yield TouchedFile("attached", path)


def said_by_model(part: Mapping[str, Any]) -> Part | None:
    """Return the part of an answer, unless it is a call."""
    words = text(part.get("text"))
    match part.get("type"):
        case "text" if words:
            return Text(words)
        case "reasoning":
            signature = _signature(mapping(part.get("metadata")))
            return Reasoning(words, signature) if words or signature else None
        case "file":
            return said_by_user(part)
        case _:
            return None


def _signature(metadata: Mapping[str, Any]) -> str | None:
    """Return the signature of a provider's reasoning, whatever member holds it."""
    for told in metadata.values():
        for name in _SIGNATURES:
            if found := text(mapping(told).get(name)):
                return found
    return None


def files_written(part: Mapping[str, Any]) -> Iterator[TouchedFile]:
    """Yield the files that a step changed, as opencode's own snapshots show."""
    if part.get("type") == "patch":
        for path in entries(part.get("files")):
            if found := word(path):
                yield TouchedFile("written", found)


@value
class ToolCallPart:
    """A call and its result, which are in one part."""

    use: ToolUse
    result: Message | None
    ended: Timestamp | None
    began: str | None
    """The session that it started."""
    task: str | None


def call_in(part: Mapping[str, Any]) -> ToolCallPart | None:
    """Return the call of a part, or None if it is not one."""
    id = word(part.get("callID"))
    if part.get("type") != "tool" or id is None:
        return None
    state = mapping(part.get("state"))
    use = ToolUse(id, word(part.get("tool")) or "unnamed", tidy(state.get("input")))
    metadata = mapping(state.get("metadata"))
    began = word(metadata.get("sessionId")) or word(metadata.get("sessionID"))
    ended = moment(mapping(state.get("time")).get("end"))
    task = text(mapping(use.args).get("prompt")) or None
    return ToolCallPart(
        use, _result(use, state, ended), ended, began if use.tool == "task" else None, task
    )


def _result(use: ToolUse, state: Mapping[str, Any], ended: Timestamp | None) -> Message | None:
    metadata = mapping(state.get("metadata"))
    code = metadata.get("exit")
    status: ToolStatus
    match state.get("status"):
        case "completed":
            status = "error" if isinstance(code, int) and code else "ok"
            output = tidy(state.get("output"))
            if kept := entries(state.get("attachments")):
                output = {"output": output, "attachments": tidy(kept)}
        case "error":
            output = tidy(state.get("error"))
            status = _why(text(state.get("error")))
        case _:
            return None
    meta: dict[str, Json] = {} if code is None else {"exit_code": tidy(code)}
    times = mapping(state.get("time"))
    if isinstance(times.get("start"), int) and isinstance(times.get("end"), int):
        meta["duration_ms"] = number(times["end"] - times["start"])
    files = list(_files(use, status))
    context: dict[str, Json] = {"files": [file.to_json() for file in files]}
    found = ToolResult(use.call_id, status, output)
    return Message("tool", (found,), None, ended, context if files else None, meta or None)


def _why(error: str) -> ToolStatus:
    said = error.lower()
    if "aborted" in said:
        return "interrupted"
    return "canceled" if "rejected" in said else "error"


def _files(use: ToolUse, status: ToolStatus) -> Iterator[TouchedFile]:
    args = mapping(use.args)
    path = word(args.get("filePath")) or word(args.get("path"))
    if path is None or use.tool not in (*_WRITERS, *_READERS):
        return
    kind: FileUse = "read" if use.tool in _READERS else "written"
    yield TouchedFile(kind if status == "ok" else "referenced", path)


def usage_of(tokens: Mapping[str, Any]) -> Usage:
    """Return tokens counted once each: opencode counts reasoning apart from output."""
    cache = mapping(tokens.get("cache"))
    reasoning = number(tokens.get("reasoning"))
    return Usage(
        input=number(tokens.get("input")),
        output=number(tokens.get("output")) + reasoning,
        cached_input=number(cache.get("read")),
        cache_write=number(cache.get("write")),
        reasoning=reasoning,
    )
