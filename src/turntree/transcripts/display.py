"""How people read what agents did: the tool by its name, a call by its file or its command.

Pure. Shared by the command line and the exports. It must never change what is stored.
"""

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any, Final, cast

from turntree.core.canonical import Json

TOOLS: Final = {
    "chatgpt": "ChatGPT",
    "claude-ai": "Claude",
    "claude-code": "Claude Code",
    "codex": "Codex",
    "copilot": "Copilot CLI",
    "cursor": "Cursor",
    "gemini": "Gemini CLI",
    "opencode": "opencode",
}
VALUE_CHARS_MAX: Final = 60
"""Longer values of an unknown tool are left out: they are contents, not names."""
_PATCHED: Final = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)
_SHELLS: Final = frozenset({"bash", "sh", "zsh", "fish", "powershell", "pwsh", "cmd"})
_COMMANDS: Final = ("command", "cmd", "shell_command", "script", "chars")
_PATTERNS: Final = ("pattern", "query", "regex", "glob_pattern", "search_term", "q")
_PATHS: Final = (
    "file_path", "filePath", "absolute_path", "notebook_path", "target_file", "path", "filename",
    "file", "dir_path", "target_directory", "directory", "paths", "files",
)  # fmt: skip
_NAMES: Final = (
    "url", "uri", "description", "title", "subject", "skill", "question", "name", "task", "prompt",
    "explanation", "message", "text",
)  # fmt: skip
_OUTPUTS: Final = ("output", "stdout", "content", "text", "result", "error", "message")


def tool_title(name: str) -> str:
    """Return the name of a coding agent as its vendor writes it."""
    return TOOLS.get(name, name)


def summarize_call(args: Json) -> str:
    """Return what a tool call is about: its command, its file, its question.

    Agents name their arguments alike, so the names decide, not the tool. A call of an unknown tool
    is summarized by its short values with their names.
    """
    if isinstance(args, str):
        return _patched_files(args) or args
    if not isinstance(args, Mapping):
        return json.dumps(args, ensure_ascii=False)
    if command := _first(args, _COMMANDS):
        return _patched_files(command) or command
    for value in args.values():
        if isinstance(value, str) and (files := _patched_files(value)):
            return files
    path = _first(args, _PATHS)
    if pattern := _first(args, _PATTERNS):
        return f"{pattern} in {path}" if path else pattern
    if path or (path := _first(args, _NAMES)):
        return path
    if len(args) == 1:
        ((name, value),) = args.items()
        if isinstance(value, list):
            return f"1 {name.removesuffix('s')}" if len(value) == 1 else f"{len(value)} {name}"
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    pairs = [(name, _scalar(value)) for name, value in args.items()]
    return " ".join(f"{name}={text}" for name, text in pairs if 0 < len(text) <= VALUE_CHARS_MAX)


def summarize_result(output: Json) -> str:
    """Return what a tool answered, without the document around it."""
    if isinstance(output, str):
        if not output.startswith("{"):
            return output
        # Codex records its shell's answer as a document in a text.
        try:
            document: Json = json.loads(output)
        except (ValueError, RecursionError):
            # Not a document, or one that is nested too deeply to be read.
            return output
        return summarize_result(document)
    if isinstance(output, Mapping):
        return _file(output) or _first(output, _OUTPUTS) or json.dumps(output, ensure_ascii=False)
    if isinstance(output, list):
        return " ".join(summarize_result(one) for one in output)
    return json.dumps(output, ensure_ascii=False)


def result_text(output: Json) -> str:
    """Return the whole text that a tool answered, as people read it.

    A text stays as it is, because it may be a file's: only the document around an answer is left
    out, which Codex writes as a text too.
    """
    if isinstance(output, str):
        if not output.startswith('{"output":'):
            return output
        try:
            document: Json = json.loads(output)
        except (ValueError, RecursionError):
            return output
        is_envelope = isinstance(document, Mapping) and document.keys() <= {"output", "metadata"}
        return result_text(document) if is_envelope else output
    if isinstance(output, Mapping):
        whole = json.dumps(output, ensure_ascii=False, indent=2)
        return _file(output) or _first(output, _OUTPUTS) or whole
    if isinstance(output, list):
        return "\n".join(result_text(one) for one in output)
    return json.dumps(output, ensure_ascii=False)


def _file(block: Mapping[str, Json]) -> str | None:
    """Return the note for a file in a tool's answer, which is stored as an object."""
    match block:
        case {"type": "image" | "audio" | "file" as kind, "object": str(), "media_type": told}:
            return f"[{kind}: {block.get('name') or told}]"
        case _:
            return None


def _first(values: Mapping[str, Json], names: tuple[str, ...]) -> str:
    """Return the first of these members that has a text, or a list of texts."""
    for name in names:
        value = values.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            words = cast("list[str]", value)
            if name not in _COMMANDS:
                return ", ".join(words)
            # Of a shell that is given a program as text, the text is the command.
            is_shell = words[0].rsplit("/", 1)[-1] in _SHELLS and words[1:2] in (["-c"], ["-lc"])
            return words[2] if is_shell and len(words) > 2 else shlex.join(words)  # noqa: PLR2004
    return ""


def _patched_files(text: str) -> str:
    if "*** Begin Patch" not in text:
        return ""
    return ", ".join(dict.fromkeys(name.strip() for name in _PATCHED.findall(text)))


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, str | int | float) else ""
