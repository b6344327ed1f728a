"""Parse single messages of Gemini CLI: text, thoughts, calls, results, tokens."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from turntree.core.canonical import Json, tidy
from turntree.core.ids import Timestamp
from turntree.core.message import (
    Media,
    Message,
    OpaquePart,
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

_HARNESS_STARTS: Final = ("<session_context>", "<hook_context>")
_WRITERS: Final = ("write_file", "replace", "edit")
_READERS: Final = ("read_file", "read_many_files")
_TASKS: Final = ("prompt", "objective", "task", "query")
_STATUSES: Final[Mapping[str, ToolStatus]] = {
    "success": "ok", "error": "error", "cancelled": "canceled",
}  # fmt: skip


@value
class UserMessage:
    """The content of a message of type user, which may also hold tool results."""

    parts: tuple[Part, ...]
    harness: tuple[Json, ...]
    responses: tuple[Mapping[str, Any], ...]
    shown: str

    @property
    def is_answer(self) -> bool:
        """Whether it only returns tool results to the model."""
        return bool(self.responses) and not self.parts and not self.harness

    @property
    def text(self) -> str:
        """Its text."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))


def said_by_user(record: Mapping[str, Any]) -> UserMessage:
    """Split a message into a person's text, the harness's, and tool results."""
    parts: list[Part] = []
    harness: list[Json] = []
    responses: list[Mapping[str, Any]] = []
    for piece in _pieces(record.get("content")):
        words = text(piece.get("text"))
        if "functionResponse" in piece:
            responses.append(mapping(piece["functionResponse"]))
        elif words.lstrip().startswith(_HARNESS_STARTS):
            kind = words.lstrip()[1:].partition(">")[0]
            harness.append({"kind": kind, "text": words})
        elif (part := _part(piece)) is not None:
            parts.append(part)
    shown = "".join(text(piece.get("text")) for piece in _pieces(record.get("displayContent")))
    return UserMessage(tuple(parts), tuple(harness), tuple(responses), shown)


def said_by_model(record: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the model's thoughts and text, without its calls."""
    for thought in map(mapping, entries(record.get("thoughts"))):
        subject, words = text(thought.get("subject")), text(thought.get("description"))
        if subject or words:
            yield Reasoning(f"**{subject}** {words}".strip() if subject else words)
    for piece in _pieces(record.get("content")):
        if "functionCall" not in piece and (part := _part(piece)) is not None:
            yield part


def _pieces(content: object) -> list[Mapping[str, Any]]:
    """Return content as pieces: it may be a text, a piece, or a list of both."""
    listed = entries(content) or [content]
    return [{"text": piece} if isinstance(piece, str) else mapping(piece) for piece in listed]


def _part(piece: Mapping[str, Any]) -> Part | None:
    words = text(piece.get("text"))
    if piece.get("thought") is True:
        return Reasoning(words, text(piece.get("thoughtSignature")) or None)
    if words:
        return Text(words)
    for name, field in (("inlineData", "data"), ("fileData", "fileUri")):
        if found := mapping(piece.get(name)):
            kind = word(found.get("mimeType")) or "application/octet-stream"
            value = text(found.get(field))
            url = value if field == "fileUri" else f"data:{kind};base64,{value}"
            return Media(_media_kind(kind), kind, url=url)
    if any(value for name, value in piece.items() if name != "text"):
        return OpaquePart({"kind": "gemini.part", "content": tidy(dict(piece))})
    return None


def _media_kind(media_type: str) -> Literal["image", "audio", "file"]:
    match media_type.partition("/")[0]:
        case "image" | "audio" as kind:
            return kind
        case _:
            return "file"


@value
class GeminiCall:
    """A call as its message records it."""

    use: ToolUse
    record: Mapping[str, Any]
    responses: tuple[Mapping[str, Any], ...]
    at: Timestamp | None
    agent: str | None
    task: str | None


def called(record: Mapping[str, Any]) -> Iterator[GeminiCall]:
    """Yield the calls of a message: those recorded with results, then those only in its content."""
    seen: set[str] = set()
    for told in map(mapping, entries(record.get("toolCalls"))):
        id = word(told.get("id")) or f"call-{len(seen)}"
        if id in seen:
            continue
        seen.add(id)
        pieces = _pieces(told.get("result"))
        found = [mapping(p["functionResponse"]) for p in pieces if "functionResponse" in p]
        if not found and text(told.get("status")) in _STATUSES:
            shown = told.get("resultDisplay")
            found = [{"id": id, "response": {"output": shown}}] if shown else [{"id": id}]
        args = mapping(told.get("args"))
        yield GeminiCall(
            _use(id, told), told, tuple(found), moment(told.get("timestamp")),
            word(told.get("agentId")),
            next((task for name in _TASKS if (task := text(args.get(name)))), None),
        )  # fmt: skip
    for piece in _pieces(record.get("content")):
        made = mapping(piece.get("functionCall"))
        id = word(made.get("id")) or ""
        if made and id and id not in seen:
            seen.add(id)
            yield GeminiCall(_use(id, made), {}, (), None, None, None)


def _use(id: str, told: Mapping[str, Any]) -> ToolUse:
    return ToolUse(id, word(told.get("name")) or "unnamed", tidy(told.get("args")))


def result_of(
    use: ToolUse, response: Mapping[str, Any], record: Mapping[str, Any], at: Timestamp | None
) -> Message:
    """Return the message of a call's result, with the files that it touched."""
    answer = response.get("response")
    failed = "error" in mapping(answer)
    status: ToolStatus = _STATUSES.get(text(record.get("status")), "error" if failed else "ok")
    told = mapping(answer)
    output = told["output"] if list(told) == ["output"] else answer
    files = list(_files(use, record, status))
    context: dict[str, Json] = {"files": [file.to_json() for file in files]}
    result = ToolResult(use.call_id, status, tidy(output))
    return Message("tool", (result,), None, at, context if files else None)


def _files(use: ToolUse, record: Mapping[str, Any], status: ToolStatus) -> Iterator[TouchedFile]:
    kind: FileUse | None = None
    if use.tool in _WRITERS:
        kind = "written" if status == "ok" else "referenced"
    elif use.tool in _READERS:
        kind = "read" if status == "ok" else "referenced"
    if kind is None:
        return
    args = mapping(use.args)
    shown = mapping(record.get("resultDisplay")).get("filePath")
    named = [shown or args.get("file_path") or args.get("absolute_path") or args.get("path")]
    for path in [*named, *entries(args.get("paths"))]:
        if found := word(path):
            yield TouchedFile(kind, found)


def usage_of(tokens: object) -> Usage | None:
    """Return tokens counted once each: cached ones are not input, and thoughts are output."""
    told = mapping(tokens)
    if not told:
        return None
    cached, thoughts = number(told.get("cached")), number(told.get("thoughts"))
    return Usage(
        input=max(number(told.get("input")) - cached, 0) + number(told.get("tool")),
        output=number(told.get("output")) + thoughts,
        cached_input=cached,
        reasoning=thoughts,
    )
