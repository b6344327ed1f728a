"""Convert blocks of Anthropic's messages to parts, with the files and lints they mention.

An unknown block is stored as it came, so that it can be sent back. A block is converted from itself
alone and from the structured result that the tool stores with it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal
from urllib.parse import unquote

from turntree.core.canonical import Json, tidy
from turntree.core.message import (
    Media,
    OpaquePart,
    Part,
    Reasoning,
    Text,
    ToolResult,
    ToolStatus,
    ToolUse,
)
from turntree.core.message_context import TouchedFile
from turntree.transcripts.importers.claude_code.records import blocks_of, words_of
from turntree.transcripts.importers.shared.lenient_json import (
    entries,
    mapping,
    number,
    parse,
    text,
    word,
)

BLOCK: Final = "anthropic.block"
CITATIONS: Final = "anthropic.citations"
FILES_MAX: Final = 200
"""Most files of a search in a message's context; its result holds them all."""

_REFUSED: Final = ("The user doesn't want to ", "Permission to use ")
_STOPPED: Final = "[Request interrupted"
_TIMED_OUT: Final = "Command timed out"
_WRITERS: Final = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_READERS: Final = frozenset({"Read", "NotebookRead"})
_LINT_LINE: Final = re.compile(
    r"^\s*\S* ?\[Line (\d+):(\d+)\] (.*?)(?: \[[^\]]*\])?(?: \(([^)]*)\))?$"
)


def part_of(block: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the parts of a block: text, thinking, images or calls."""
    # Not a match of the block: for every case it would look up all keys of the pattern again.
    kind = block.get("type")
    if kind == "text" and isinstance(words := block.get("text"), str):
        if words:
            yield Text(words)
        if block.get("citations"):
            yield OpaquePart({"kind": CITATIONS, "citations": tidy(block["citations"])})
    elif kind == "thinking":
        signature = text(block.get("signature")) or None
        # Its text may be withheld; its signature is still needed to send it again.
        yield Reasoning(text(block.get("thinking")), signature)
    elif (
        kind == "tool_use"
        and (call_id := word(block.get("id"))) is not None
        and (name := word(block.get("name"))) is not None
    ):
        yield ToolUse(call_id, name, tidy(block.get("input")))
    elif kind in ("image", "document") and isinstance(block.get("source"), dict):
        yield _media(block)
    else:
        yield OpaquePart({"kind": BLOCK, "block": tidy(block)})


def _media(block: Mapping[str, Any]) -> Part:
    kind: Literal["image", "file"] = "image" if block["type"] == "image" else "file"
    name = word(block.get("title"))
    match block["source"]:
        case {"type": "base64", "data": str(data), **rest}:
            media_type = word(rest.get("media_type")) or "application/octet-stream"
            return Media(kind, media_type, url=f"data:{media_type};base64,{data}", name=name)
        case {"type": "url", "url": str(url)}:
            return Media(kind, "image/*" if kind == "image" else "application/pdf", url, name=name)
        case {"type": "text", "data": str(words)}:
            return Text(words)
        case _:
            return OpaquePart({"kind": BLOCK, "block": tidy(block)})


def result_of(block: Mapping[str, Any], told: object) -> ToolResult:
    """Return a tool's result; ``told`` is the structured result stored with the block."""
    content = block.get("content")
    blocks = blocks_of(content)
    plain = isinstance(content, str) or all(b.get("type") == "text" for b in blocks)
    output: Json = words_of(blocks) if plain else tidy(content)
    failed = block.get("is_error") is True
    return ToolResult(word(block.get("tool_use_id")) or "", _status(output, told, failed), output)


def _status(output: Json, told: object, failed: bool) -> ToolStatus:  # noqa: FBT001
    words = output if isinstance(output, str) else ""
    if words.startswith(_STOPPED) or mapping(told).get("interrupted") is True:
        return "interrupted"
    if not failed:
        return "ok"
    if words.startswith(_REFUSED):
        return "canceled"
    return "timeout" if words.startswith(_TIMED_OUT) else "error"


def files_in(call: ToolUse | None, result: ToolResult, told: object) -> list[TouchedFile]:
    """Return the files that a call touched, from its structured result or its arguments."""
    name = "" if call is None else call.tool
    if result.status != "ok":
        return []
    found = mapping(told)
    match found:
        case {"file": {"filePath": str(path), **rest}}:
            return [
                _ranged("read", path, number(rest.get("startLine")), number(rest.get("numLines")))
            ]
        case {"filePath": str(path)} if name in _WRITERS or "structuredPatch" in found:
            return [_written(path, found)]
        case {"notebook_path": str(path)}:
            return [TouchedFile("written", _path(path))]
        case {"filenames": names}:
            paths = [_path(name) for name in entries(names)[:FILES_MAX] if word(name)]
            return [TouchedFile("referenced", path) for path in paths]
        case _:
            return [] if call is None else _asked(name, mapping(call.args))


def _asked(name: str, args: Mapping[str, Any]) -> list[TouchedFile]:
    # Subagents' records leave the structured result out.
    path = text(args.get("file_path")) or text(args.get("notebook_path"))
    if path and name in _READERS:
        return [_ranged("read", path, number(args.get("offset")), number(args.get("limit")))]
    return [TouchedFile("written", _path(path))] if path and name in _WRITERS else []


def _written(path: str, found: Mapping[str, Any]) -> TouchedFile:
    hunks = [mapping(hunk) for hunk in entries(found.get("structuredPatch"))]
    starts = [number(hunk.get("newStart")) for hunk in hunks]
    ends = [number(h.get("newStart")) + max(number(h.get("newLines")) - 1, 0) for h in hunks]
    if not hunks or not all(starts):
        return TouchedFile("written", _path(path))
    return TouchedFile("written", _path(path), min(starts), max(ends))


def _ranged(kind: Literal["read", "attached"], path: str, start: int, count: int) -> TouchedFile:
    if not count:
        return TouchedFile(kind, _path(path), start or None)
    return TouchedFile(kind, _path(path), start or 1, (start or 1) + count - 1)


def _path(value: str) -> str:
    return word(value) or "?"


def attached_files(attachment: Mapping[str, Any]) -> list[TouchedFile]:
    """Return the files that an attachment contains or names."""
    content = mapping(mapping(attachment.get("content")).get("file"))
    path = next(
        (
            found
            for found in (
                text(attachment.get("filename")),
                text(attachment.get("path")),
                text(content.get("filePath")),
            )
            if found
        ),
        "",
    )
    match attachment.get("type"):
        case "file" | "already_read_file" | "pdf_reference" if path:
            start, count = number(content.get("startLine")), number(content.get("numLines"))
            return [_ranged("attached", path, start, count)]
        case "compact_file_reference" | "edited_text_file" | "opened_file_in_ide" if path:
            return [TouchedFile("referenced", _path(path))]
        case "selected_lines_in_ide" if path:
            first, last = number(attachment.get("lineStart")), number(attachment.get("lineEnd"))
            return [TouchedFile("attached", _path(path), first or None, last or None)]
        case _:
            return []


def lints_in(files: object) -> Iterator[Json]:
    """Yield the lints of files as editors report them, with lines and columns from 0."""
    for file in map(mapping, entries(files)):
        uri = text(file.get("uri"))
        path = unquote(uri.removeprefix("file://")) if uri.startswith("file://") else uri
        for lint in map(mapping, entries(file.get("diagnostics"))):
            span = mapping(lint.get("range"))
            start, end = mapping(span.get("start")), mapping(span.get("end"))
            yield _present(
                path=_path(path),
                message=tidy(text(lint.get("message"))),
                source=word(lint.get("source")),
                severity=word(lint.get("severity")),
                line_start=_counted(start.get("line")),
                column_start=_counted(start.get("character")),
                line_end=_counted(end.get("line")),
                column_end=_counted(end.get("character")),
            )


def lints_in_words(words: str) -> Iterator[Json]:
    """Yield the lints in a text between ``<new-diagnostics>`` and its end."""
    _, opened, rest = words.partition("<new-diagnostics>")
    if not opened:
        return
    path = ""
    for line in rest.partition("</new-diagnostics>")[0].splitlines():
        found = _LINT_LINE.match(line)
        if found is not None and path:
            yield _present(
                path=_path(path), message=tidy(found[3]), source=found[4],
                line_start=number(int(found[1][:9])), column_start=number(int(found[2][:9])),
            )  # fmt: skip
        elif line.endswith(":") and not line.startswith((" ", "\t")):
            path = line[:-1]


def lints_of_call(call: ToolUse | None, result: ToolResult) -> list[Json]:
    """Return the lints that an editor returned for a diagnostics call."""
    if (
        call is None
        or call.tool != "mcp__ide__getDiagnostics"
        or not isinstance(result.output, str)
    ):
        return []
    told = parse(b'{"files":' + result.output.encode("utf-8", "replace") + b"}")
    return [*lints_in(mapping(told).get("files"))]


def _counted(place: object) -> int | None:
    return place + 1 if isinstance(place, int) and 0 <= place < 2**31 - 1 else None


def _present(**members: Json) -> dict[str, Json]:
    return {name: value for name, value in members.items() if value is not None}
