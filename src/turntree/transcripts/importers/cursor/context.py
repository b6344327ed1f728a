"""Read the context of a Cursor bubble: files, lints, rules, chunks of code.

Knows the members of a bubble that are not messages, and no rows, turns or order.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

from turntree.core.canonical import Json, tidy
from turntree.core.message import OpaquePart, Part
from turntree.core.message_context import FileUse, TouchedFile
from turntree.transcripts.importers.shared.lenient_json import entries, mapping, number, text, word

_BESIDE: Final = (
    "cursorRules", "docsReferences", "webReferences", "externalLinks", "notepads", "commits",
    "pullRequests", "attachedFolders", "attachedFoldersNew", "contextWindowStatusAtCreation",
)  # fmt: skip
"""Short ones, stored in the message's context."""
_CARRIED: Final = (
    "attachedCodeChunks", "codebaseContextChunks", "gitDiffs", "diffHistories", "humanChanges",
    "fileDiffTrajectories", "summarizedComposers", "assistantSuggestedDiffs",
    "conversationSummary", "cachedConversationSummary",
)  # fmt: skip
"""Long ones: each becomes a part, which is stored as an object if it is large."""
_CARRIED_CONTEXT: Final = ("selections", "terminalSelections", "selectedDocs")
_SEVERITIES: Final[Mapping[object, str]] = {1: "error", 2: "warning", 3: "information", 4: "hint"}
_READERS: Final = frozenset({"read_file", "read_file_v2", "read", "list_dir", "list_dir_v2"})
_WRITERS: Final = frozenset(
    {
        "edit_file", "edit_file_v2", "search_replace", "write", "write_file", "create_file",
        "delete_file", "reapply", "multiedit", "strreplace", "edit_notebook",
    }
)  # fmt: skip
_PATHS: Final = (
    "target_file", "targetFile", "relativeWorkspacePath", "file_path", "filePath", "path",
    "effectiveUri", "target_notebook", "target_directory", "targetDirectory",
)  # fmt: skip


def context_of(bubble: Mapping[str, Any], used: Sequence[TouchedFile]) -> dict[str, Json] | None:
    """Return a message's context: files, lints and members without a name of ours."""
    context: dict[str, Json] = {}
    if files := [file.to_json() for file in dict.fromkeys((*used, *_files(bubble)))]:
        context["files"] = files
    if lints := list(_lints(bubble)):
        context["lints"] = lints
    if beside := {name: tidy(bubble[name]) for name in _BESIDE if bubble.get(name)}:
        context["cursor"] = beside
    return context or None


def carried_by(bubble: Mapping[str, Any]) -> list[Part]:
    """Return the members of a bubble that are too long for a context."""
    inside = mapping(bubble.get("context"))
    told = [(name, bubble.get(name)) for name in _CARRIED]
    told += [(name, inside.get(name)) for name in _CARRIED_CONTEXT]
    return [
        OpaquePart({"kind": f"cursor/{name}", "value": tidy(value)})
        for name, value in told
        if value and not isinstance(value, bool | int | float)
    ]


def files_used(tool: str, args: object) -> list[TouchedFile]:
    """Return the file that a tool call reads or writes."""
    plain = tool.lower()
    use: FileUse | None = "read" if plain in _READERS else "written" if plain in _WRITERS else None
    told = mapping(args)
    path = next((found for name in _PATHS if (found := path_of(told.get(name)))), None)
    if use is None or path is None:
        return []
    first = _line(told, "startLineOneIndexed", "start_line_one_indexed", "offset")
    last = _line(told, "endLineOneIndexedInclusive", "end_line_one_indexed_inclusive")
    if last is None and first is not None and (limit := _line(told, "limit")):
        last = first + limit - 1
    return [TouchedFile(use, path, first, last)] if use == "read" else [TouchedFile(use, path)]


def path_of(value: object) -> str | None:
    """Return the path in a text or in one of the editor's URIs."""
    if told := mapping(value):
        names = ("fsPath", "_fsPath", "path", "external", "_formatted", "relativeWorkspacePath")
        value = next((told[name] for name in names if told.get(name)), None)
    if isinstance(value, str) and value.startswith("file://"):
        value = unquote(value.removeprefix("file://"), errors="replace")
    return word(value)


def _files(bubble: Mapping[str, Any]) -> Iterator[TouchedFile]:
    inside = mapping(bubble.get("context"))
    for chunk in entries(bubble.get("attachedCodeChunks")):
        yield from _chunk("attached", chunk)
    for chosen in (*entries(inside.get("fileSelections")), *entries(inside.get("selections"))):
        told = mapping(chosen)
        if path := path_of(told.get("uri")) or path_of(chosen):
            span = mapping(told.get("range"))
            first = _line(span, "selectionStartLineNumber", "startLineNumber")
            last = _line(span, "positionLineNumber", "endLineNumber")
            yield TouchedFile("attached", path, first, last)
    for folder in entries(inside.get("folderSelections")):
        yield from _named("attached", folder)
    for name in ("relevantFiles", "suggestedCodeBlocks", "codeBlocks"):
        for file in entries(bubble.get(name)):
            yield from _named("referenced", file)
    for name in ("recentlyViewedFiles", "codebaseContextChunks"):
        for chunk in entries(bubble.get(name)):
            yield from _chunk("referenced", chunk)
    for answer in map(mapping, entries(bubble.get("userResponsesToSuggestedCodeBlocks"))):
        if text(answer.get("userResponseType")).upper() in ("ACCEPT", "MODIFY"):
            yield from _named("written", answer.get("filePath"))


def _named(use: FileUse, value: object) -> Iterator[TouchedFile]:
    told = mapping(value)
    if path := path_of(told.get("uri")) or path_of(value):
        yield TouchedFile(use, path)


def _chunk(use: FileUse, value: object) -> Iterator[TouchedFile]:
    told = mapping(value)
    path = path_of(told.get("relativeWorkspacePath")) or path_of(told.get("uri")) or path_of(value)
    if path is None:
        return
    first, lines = _line(told, "startLineNumber"), entries(told.get("lines"))
    last = first + len(lines) - 1 if first is not None and lines else None
    yield TouchedFile(use, path, first, last)


def _lints(bubble: Mapping[str, Any]) -> Iterator[dict[str, Json]]:
    for file in map(mapping, entries(bubble.get("multiFileLinterErrors"))):
        path = path_of(file.get("relativeWorkspacePath"))
        for error in entries(file.get("errors")):
            yield _lint(error, path)
    for error in entries(bubble.get("approximateLintErrors")):
        yield _lint(error, None)
    for group in map(mapping, entries(bubble.get("lints"))):
        path = path_of(group.get("relativeWorkspacePath")) or path_of(group.get("uri"))
        for error in entries(group.get("lints")):
            yield _lint(error, path)


def _lint(error: object, path: str | None) -> dict[str, Json]:
    told = mapping(error)
    span = mapping(told.get("range"))
    start, end = mapping(span.get("startPosition")), mapping(span.get("endPosition"))
    lint: dict[str, Json] = {
        "path": path,
        "message": tidy(text(told.get("message")) or text(error)),
        "source": word(told.get("source")),
        "line_start": _line(start, "line") or _line(told, "startLine", "startLineNumber"),
        "column_start": _line(start, "column") or _line(told, "startColumn"),
        "line_end": _line(end, "line") or _line(told, "endLine", "endLineNumber"),
        "column_end": _line(end, "column") or _line(told, "endColumn"),
        "severity": _severity(told.get("severity")),
        "value": tidy(told["value"]) if isinstance(told.get("value"), str) else None,
        "stale": True if told.get("isStale") is True else None,
        "related": tidy(told["relatedInformation"]) if told.get("relatedInformation") else None,
    }
    return {name: value for name, value in lint.items() if value is not None}


def _severity(value: object) -> str | None:
    if isinstance(value, str):
        # The protocol's names are long: DIAGNOSTIC_SEVERITY_ERROR.
        return word(value.rpartition("_")[2].lower())
    return _SEVERITIES.get(value) if isinstance(value, int) else None


def _line(told: Mapping[str, Any], *names: str) -> int | None:
    """Return the first of some members that is a number; our column holds nothing else."""
    for name in names:
        value = told.get(name)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return number(value)
    return None
