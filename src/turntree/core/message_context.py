"""Context of a message: files that it touched, lints that were visible, text that a tool added.

Importers and file tools write it into a message's ``context``. Code blocks are not part of it: the
view ``ledger.message_codeblocks`` reads them from the assistant's text, so that no importer can
forget to record them.

Coding agents wrap reminders, environment and instructions in tags of their own and send them in the
person's name. They stay in the message as they were sent; ``split_injected`` only tells them apart,
so that a title or a screen begins with what the person wrote.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, Literal, cast, get_args

from turntree.core.canonical import Json
from turntree.core.message import ErasedMessage, Message, Text
from turntree.core.value import value

ChangeKind = Literal["added", "changed", "removed", "mode"]


FileUse = Literal["read", "written", "referenced", "attached"]
FILE_USES = get_args(FileUse)


@value
class TouchedFile:
    """A file that a message read, wrote, named or carried."""

    kind: FileUse
    path: str
    line_start: int | None = None
    line_end: int | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the document for a message's context."""
        document = {
            "kind": self.kind,
            "path": self.path,
            "line_start": self.line_start,
            "line_end": self.line_end,
        }
        return {name: value for name, value in document.items() if value is not None}


def attach(message: Message, files: Mapping[str, str]) -> Message:
    """Return a message with text files by path: its context names them, and the model reads them.

    Each file is a part of its own, marked as not written by the person.
    """
    parts = (
        Text(f'\n<attached_files>\n<file path="{path}">\n{text}\n</file>\n</attached_files>')
        for path, text in files.items()
    )
    named: list[Json] = [TouchedFile("attached", path).to_json() for path in files]
    context = {**(message.context or {}), "files": named}
    return replace(message, parts=(*message.parts, *parts), context=context)


def files_of(message: Message | ErasedMessage) -> Iterator[TouchedFile]:
    """Yield the files a message touched, each once, in the order they were recorded."""
    if isinstance(message, ErasedMessage) or message.context is None:
        return
    seen: set[tuple[object, ...]] = set()
    for document in _documents(message.context.get("files")):
        file = _file(document)
        if file is not None and (key := (file.kind, file.path, file.line_start)) not in seen:
            seen.add(key)
            yield file


def _documents(value: object) -> list[Mapping[str, object]]:
    # Contexts from other tools may hold anything under our names; entries that are not documents
    # are skipped.
    if not isinstance(value, list):
        return []
    entries = cast("list[object]", value)
    return [cast("Mapping[str, object]", entry) for entry in entries if isinstance(entry, dict)]


def _file(document: Mapping[str, object]) -> TouchedFile | None:
    kind, path = document.get("kind"), document.get("path")
    if kind not in FILE_USES or not isinstance(path, str):
        return None
    first, last = _line(document.get("line_start")), _line(document.get("line_end"))
    return TouchedFile(cast("FileUse", kind), path, first, last)


def _line(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# Names that are only ever written by a tool. A tag of the person's own, such as <div>, is theirs.
_TAGS: Final = (
    "additional_data",
    "apps_instructions",
    "attached_files",
    "collaboration_mode",
    "earlier-post",
    "environment_context",
    "environment_details",
    "ide_diagnostics",
    "ide_opened_file",
    "ide_selection",
    "local-command-caveat",
    "local-command-stderr",
    "local-command-stdout",
    "open_and_recently_viewed_files",
    "permissions instructions",
    "plugins_instructions",
    "project_layout",
    "rules",
    "session-start-hook",
    "session_context",
    "skills_instructions",
    "system-reminder",
    "system_reminder",
    "task-notification",
    "turn_aborted",
    "user-prompt-submit-hook",
    "user_info",
    "user_instructions",
)
_BLOCK: Final = re.compile(
    rf"\s*<(?P<tag>{'|'.join(map(re.escape, _TAGS))})>.*?</(?P=tag)>\s*"
    # Codex announces the instructions of a project by a heading.
    r"|\s*# AGENTS\.md instructions for [^\n]*\s*<INSTRUCTIONS>.*?</INSTRUCTIONS>\s*",
    re.DOTALL,
)
_MENTION: Final = re.compile(
    r"@_?\[(?P<name>(?:[^\\\[\]]|\\.)+)\]\((?:user|agent):[A-Za-z0-9_][A-Za-z0-9_.:/+-]*\)"
)
_OPEN_MENTION: Final = re.compile(r"@_?\[(?:(?:[^\\\[\]]|\\.)*\\?|[^\[\]]+\](?:\([^\s()]*)?)\Z")
_ESCAPED: Final = re.compile(r"\\([!-/:-@\[-`{-~])")


@value
class TextSegment:
    """A piece of a message's text."""

    text: str
    is_injected: bool


def split_injected(text: str) -> list[TextSegment]:
    """Return the pieces of a text in order, without blank ones; a tag that is left open is text."""
    if "<" not in text:
        return [TextSegment(text, is_injected=False)]
    segments: list[TextSegment] = []
    at = 0
    for match in _BLOCK.finditer(text):
        segments.append(TextSegment(text[at : match.start()], is_injected=False))
        segments.append(TextSegment(match[0].strip(), is_injected=True))
        at = match.end()
    segments.append(TextSegment(text[at:], is_injected=False))
    return [segment for segment in segments if segment.text.strip()]


def without_injected(text: str) -> str:
    """Return what the person wrote of a text."""
    return "\n".join(one.text for one in split_injected(text) if not one.is_injected)


def as_title(text: str, *, is_cut: bool = False) -> str:
    """Return a text on one line, with ``@Atlas`` for ``@[Atlas](agent:atlas)``.

    The name is the one that the author saw: a title is read without its conversation. Of a text
    that ``is_cut``, half a mention at its end is left out.
    """
    line = " ".join(text.split())
    if "@" not in line:
        return line
    shown = _MENTION.sub(lambda found: "@" + _ESCAPED.sub(r"\1", found["name"]), line)
    return _OPEN_MENTION.sub("", shown).rstrip() if is_cut else shown
