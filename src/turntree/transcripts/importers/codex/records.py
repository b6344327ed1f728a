"""Parse single records of Codex: items of the model's history, and reports about calls.

Every function takes one payload. Which turn it belongs to is decided elsewhere.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import Any, Final

import orjson

from turntree.core.canonical import Json, tidy
from turntree.core.message import Media, OpaquePart, Part, Reasoning, Text, ToolStatus, ToolUse
from turntree.core.message_context import FileUse, TouchedFile
from turntree.core.usage import Usage
from turntree.core.value import value
from turntree.transcripts.importers.shared.lenient_json import entries, mapping, number, text, word

_HARNESS_STARTS: Final = (
    "# AGENTS.md instructions", "<environment_context>", "<user_instructions>", "<skill>",
    "<permissions instructions>", "<user_shell_command>", "<turn_aborted>", "<hook_prompt",
    "<subagent_notification>", "<recommended_plugins>", "<goal_context>", "<external_",
    "<codex_internal_context", "<INSTRUCTIONS>", "<model_switch>", "<collaboration_mode>",
    "Warning: The maximum number of unified exec processes you can keep open is",
    "Warning: apply_patch was requested via ",
)  # fmt: skip
_PATCHED: Final = re.compile(
    r"^\*\*\* (?:(Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE
)
_EXITED: Final = re.compile(r"^Process exited with code (-?\d{1,9})$", re.MULTILINE)
_DECLINED: Final = "declined"


@value
class MessageItem:
    """One message item: its parts, and texts that the harness added to them."""

    parts: tuple[Part, ...]
    harness: tuple[Json, ...]


def said_of(item: Mapping[str, Any]) -> MessageItem:
    """Split a message into a person's text and the harness's.

    Only user messages are checked: a developer's are the harness's anyway.
    """
    is_user = item.get("role") == "user"
    told = mapping(item.get("internal_chat_message_metadata_passthrough"))
    kinds = entries(told.get("content_item_kinds"))
    content = item.get("content")
    pieces = entries(content) or ([{"type": "input_text", "text": content}] if content else [])
    parts: list[Part] = []
    harness: list[Json] = []
    for place, piece in enumerate(pieces):
        kind = text(kinds[place]) if place < len(kinds) else ""
        words = text(mapping(piece).get("text"))
        by_kind = kind and kind != "unknown" and not kind.startswith("user.")
        if is_user and (by_kind or (not kind and words.lstrip().startswith(_HARNESS_STARTS))):
            harness.append({"kind": kind or _kind_by_start(words), "text": words})
        elif (part := content_part(mapping(piece))) is not None:
            parts.append(part)
    return MessageItem(tuple(parts), tuple(harness))


def _kind_by_start(words: str) -> str:
    name = re.match(r"\s*<([A-Za-z_]+)", words)
    return name[1] if name else "notice" if words.startswith("Warning") else "agents_md"


def content_part(piece: Mapping[str, Any]) -> Part | None:
    """Return the part of a piece of content, or None if it is empty."""
    match piece.get("type"):
        case "input_text" | "output_text" | "text":
            return Text(text(piece.get("text"))) if text(piece.get("text")) else None
        case "input_image" if url := text(piece.get("image_url")):
            return Media("image", _media_type(url, "image/*"), url=url)
        case "input_audio" if url := text(piece.get("audio_url")):
            return Media("audio", _media_type(url, "audio/*"), url=url)
        case str(kind) if kind:
            return OpaquePart({"kind": f"codex.{kind}", "content": tidy(dict(piece))})
        case _:
            return None


def _media_type(url: str, otherwise: str) -> str:
    head = url.removeprefix("data:").partition(",")[0] if url.startswith("data:") else ""
    return head.partition(";")[0] or otherwise


def reasoning_parts(item: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the model's reasoning; encrypted reasoning is stored as it is."""
    summary = "\n\n".join(_texts(item.get("summary")))
    content = "\n\n".join(_texts(item.get("content")))
    sealed = text(item.get("encrypted_content")) or None
    if not summary and not content:
        if sealed is None:
            return ()
        return (OpaquePart({"kind": "codex.reasoning", "encrypted_content": sealed}),)
    first = Reasoning(summary or content, sealed)
    return (first, Reasoning(content)) if summary and content else (first,)


def _texts(pieces: object) -> list[str]:
    return [words for piece in entries(pieces) if (words := text(mapping(piece).get("text")))]


@value
class ToolCallItem:
    """A tool call; ``answer`` is set if the provider itself ran it."""

    use: ToolUse
    answer: tuple[ToolStatus, Json] | None = None


def call_of(item: Mapping[str, Any], count: int) -> ToolCallItem | None:
    """Return the call of an item; ``count`` names one that has no id of its own."""
    kind = text(item.get("type"))
    id = word(item.get("call_id")) or word(item.get("id")) or f"{kind}-{count}"
    match kind:
        case "function_call":
            return ToolCallItem(ToolUse(id, _tool_name(item), _arguments(item.get("arguments"))))
        case "custom_tool_call":
            return ToolCallItem(ToolUse(id, _tool_name(item), text(item.get("input"))))
        case "local_shell_call":
            return ToolCallItem(ToolUse(id, "local_shell", tidy(item.get("action"))))
        case "tool_search_call":
            return ToolCallItem(ToolUse(id, "tool_search", _arguments(item.get("arguments"))))
        case "web_search_call":
            # Its id is not always stored, and a copy would have another: it is numbered.
            use = ToolUse(f"{kind}-{count}", "web_search", tidy(item.get("action")))
            return ToolCallItem(use, (_status_word(item), {"status": tidy(item.get("status"))}))
        case "image_generation_call":
            args: Json = {"prompt": tidy(item.get("revised_prompt"))}
            made: Json = {"image": tidy(item.get("result"))}
            return ToolCallItem(ToolUse(id, "image_generation", args), (_status_word(item), made))
        case _:
            return None


def _status_word(item: Mapping[str, Any]) -> ToolStatus:
    return "error" if item.get("status") in ("failed", "incomplete") else "ok"


def _tool_name(item: Mapping[str, Any]) -> str:
    name, space = word(item.get("name")) or "unnamed", word(item.get("namespace"))
    if space is None:
        return name
    return f"{space.rstrip('_')}__{name}" if space.startswith("mcp__") else f"{space}.{name}"


def _arguments(value: object) -> Json:
    """Return JSON arguments as a value; other arguments stay text."""
    if not isinstance(value, str):
        return tidy(value)
    try:
        return tidy(orjson.loads(value))
    except ValueError:
        try:
            return tidy(json.loads(value))
        except (ValueError, RecursionError):
            # Not JSON: a model may stop in the middle of its arguments. The text is what was
            # recorded.
            return value


@value
class ToolReport:
    """What Codex itself reports about a call: its status, its duration, the files it touched."""

    status: ToolStatus | None = None
    meta: Mapping[str, Json] = field(default_factory=dict[str, Json])
    files: tuple[TouchedFile, ...] = ()
    spawned: tuple[str, ...] = ()
    """The threads that it started."""

    def and_then(self, later: "ToolReport") -> "ToolReport":
        """Return both reports merged."""
        return ToolReport(
            later.status or self.status,
            {**self.meta, **later.meta},
            (*self.files, *later.files),
            (*self.spawned, *later.spawned),
        )


def report_of(event: Mapping[str, Any]) -> tuple[str, ToolReport] | None:
    """Return the call that an event or a completed item is about, and its report."""
    item = mapping(event.get("item"))
    kind, told = text(event.get("type")), event
    if kind == "item_completed":
        kind, told = text(item.get("type")), item
    id = word(told.get("id") or told.get("call_id") or told.get("event_id"))
    report = _report(kind, told)
    if id is None or report is None:
        return None
    started, ended = event.get("started_at_ms"), event.get("completed_at_ms")
    if "duration_ms" not in report.meta and isinstance(started, int) and isinstance(ended, int):
        span = number(ended - started)
        report = replace(report, meta={**report.meta, "duration_ms": span})
    return id, report


def _report(kind: str, told: Mapping[str, Any]) -> ToolReport | None:
    status = text(told.get("status"))
    match kind:
        case "CommandExecution" | "exec_command_end":
            code = told.get("exit_code")
            failed = status == "failed" or (isinstance(code, int) and code != 0)
            how: ToolStatus = "canceled" if status == _DECLINED else "error" if failed else "ok"
            return ToolReport(how, _measured(told, exit_code=code), tuple(_files_read(told)))
        case "FileChange" | "patch_apply_end":
            refused = told.get("success") is False or status in ("failed", _DECLINED)
            how = "canceled" if status == _DECLINED else "error" if refused else "ok"
            use: FileUse = "referenced" if refused else "written"
            return ToolReport(how, {}, tuple(_files_changed(mapping(told.get("changes")), use)))
        case "McpToolCall" | "mcp_tool_call_end":
            called = mapping(told.get("invocation")) or told
            failed = status == "failed" or "Err" in mapping(told.get("result"))
            names = {"server": called.get("server"), "tool": called.get("tool")}
            return ToolReport("error" if failed else "ok", _measured(told, mcp=names))
        case "DynamicToolCall":
            return ToolReport("error" if told.get("success") is False else "ok", _measured(told))
        case "WebSearch" | "web_search_end":
            return ToolReport(None, _measured(told, query=told.get("query")))
        case "ImageView":
            return ToolReport(None, {}, tuple(_file("read", told.get("path"))))
        case "CollabAgentToolCall" if told.get("tool") in (None, "spawn_agent"):
            return ToolReport(
                None, {}, (), tuple(map(text, entries(told.get("receiver_thread_ids"))))
            )
        case "collab_agent_spawn_end":
            return ToolReport(None, {}, (), (text(told.get("new_thread_id")),))
        case "SubAgentActivity" | "sub_agent_activity" if told.get("kind") in (None, "started"):
            return ToolReport(None, {}, (), (text(told.get("agent_thread_id")),))
        case _:
            return None


def _measured(told: Mapping[str, Any], **more: object) -> dict[str, Json]:
    meta: dict[str, Json] = {name: tidy(value) for name, value in more.items() if value is not None}
    if span := mapping(told.get("duration")):
        seconds, nanos = number(span.get("secs")), number(span.get("nanos"))
        meta["duration_ms"] = min(seconds, 2**20) * 1000 + nanos // 1_000_000
    return meta


def _files_read(told: Mapping[str, Any]) -> Iterator[TouchedFile]:
    for parsed in entries(told.get("parsed_cmd")):
        if mapping(parsed).get("type") == "read":
            yield from _file("read", mapping(parsed).get("path"))


def _files_changed(changes: Mapping[str, Any], use: FileUse) -> Iterator[TouchedFile]:
    for path in sorted(changes):
        yield from _file(use, path)
        yield from _file(use, mapping(changes[path]).get("move_path"))


def _file(use: FileUse, path: object) -> Iterator[TouchedFile]:
    if found := word(path):
        yield TouchedFile(use, found.removeprefix("file://"))


def files_patched(args: Json, use: FileUse) -> Iterator[TouchedFile]:
    """Yield the files that a patch in a call's arguments names."""
    for words in _strings(args):
        if "*** Begin Patch" in words:
            for found in _PATCHED.finditer(words):
                yield from _file(use, found[2])


def _strings(args: Json) -> Iterator[str]:
    match args:
        case str():
            yield args
        case dict():
            for value in args.values():
                yield from (value,) if isinstance(value, str) else _strings_in(value)
        case _:
            yield from _strings_in(args)


def _strings_in(value: Json) -> Iterator[str]:
    if isinstance(value, list):
        yield from (entry for entry in value if isinstance(entry, str))


def output_of(item: Mapping[str, Any]) -> tuple[ToolStatus, Json, dict[str, Json]]:
    """Return a call's status as far as its output shows it, the output, and measurements."""
    output = item.get("tools") if item.get("type") == "tool_search_output" else item.get("output")
    told = mapping(output)
    if "content" in told:
        status: ToolStatus = "error" if told.get("success") is False else "ok"
        return status, tidy(told["content"]), {}
    if not isinstance(output, str):
        return "ok", tidy(output), {}
    if output.startswith("aborted"):
        return "interrupted", output, {}
    meta: dict[str, Json] = {}
    if found := _EXITED.search(output[:500]):
        meta["exit_code"] = int(found[1])
    elif output.startswith('{"output":'):
        measured = mapping(mapping(_arguments(output)).get("metadata"))
        if isinstance(measured.get("exit_code"), int):
            meta["exit_code"] = tidy(measured["exit_code"])
    return "error" if meta.get("exit_code") else "ok", output, meta


def usage_of(told: Mapping[str, Any]) -> Usage:
    """Return tokens counted once each: Codex's input includes cached tokens."""
    cached = number(told.get("cached_input_tokens"))
    written = number(told.get("cache_write_input_tokens"))
    return Usage(
        input=max(number(told.get("input_tokens")) - cached - written, 0),
        output=number(told.get("output_tokens")),
        cached_input=cached,
        cache_write=written,
        reasoning=number(told.get("reasoning_output_tokens")),
    )
