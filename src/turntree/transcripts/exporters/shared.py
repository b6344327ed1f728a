"""What exporters share: text and names as vendors accept them, JSON lines, and new files.

Knows no single tool.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.ids import derived_id, unix_ms
from turntree.core.message import Text
from turntree.models.portable_thread import PortableMessage
from turntree.transcripts.exporter import HandoffRequest, NewFile

SYSTEM_TEXT: Final = "These instructions were given to the model here:\n\n"
# The tightest limit among the vendors.
TOOL_NAME_CHARS_MAX: Final = 64
MARK_CHARS: Final = 12
# Transcripts hold whatever was said, keys included.
FOLDER_MODE: Final = 0o700
FILE_MODE: Final = 0o600
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_DATA: Final = re.compile(r"data:(?P<media_type>[^;,]+);base64,(?P<data>.+)", re.DOTALL)


def write_new(files: Iterable[NewFile]) -> list[Path]:
    """Write files that do not exist yet, all of them or none.

    Their content may be private, so only their owner can read them. Returns the folders that were
    created for them, deepest first.

    Raises:
        InvalidOperation: One exists already, or cannot be written.
    """
    written: list[Path] = []
    made: list[Path] = []
    try:
        for file in files:
            made = [*(at for at in file.path.parents if not at.exists()), *made]
            file.path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            # O_EXCL instead of a check beforehand: a running tool may create the file meanwhile.
            opened = os.open(file.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE)
            written.append(file.path)
            with os.fdopen(opened, "w", encoding="utf-8", newline="\n") as stream:
                stream.write(file.text)
    except OSError as error:
        for path in written:
            path.unlink(missing_ok=True)
        for folder in made:
            # A running tool may have put a session of its own there.
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
        raise InvalidOperation(f"{error.filename} cannot be written: {error.strerror}") from error
    return made


def marked_id(order: HandoffRequest, place: int) -> str:
    """Return the id of a session's message: a UUID with the suffix of this session."""
    id = derived_id(unix_ms(order.at), order.session, str(place))
    return f"{id[:-MARK_CHARS]}{mark_of(order)}"


def mark_of(order: HandoffRequest) -> str:
    """Return the suffix of a session's message ids; tools keep these when they copy."""
    return order.session[-MARK_CHARS:]


def json_lines(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return documents as JSON lines, each ended by a line break."""
    return "".join(f"{json_line(document)}\n" for document in documents)


def json_line(document: Any) -> str:
    """Return a value as JSON on one line; a lone surrogate is escaped, since UTF-8 has none."""
    line = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    try:
        line.encode()
    except UnicodeEncodeError:
        return json.dumps(document, separators=(",", ":"))
    return line


def spoken(said: PortableMessage) -> PortableMessage:
    """Return instructions as a user's message, for a tool without a system role."""
    if said.role != "system":
        return said
    return replace(said, role="user", parts=(Text(f"{SYSTEM_TEXT}{said.text}"),))


def tool_name(name: str) -> str:
    """Return a tool's name in the characters that every vendor accepts."""
    return _NOT_IN_NAMES.sub("_", name)[:TOOL_NAME_CHARS_MAX] or "_"


def arguments_of(args: Json) -> dict[str, Any]:
    """Return a tool's input as named arguments."""
    return dict(args) if isinstance(args, Mapping) else {"input": args}


def find_data(url: str | None) -> tuple[str, str] | None:
    """Return the media type and the base64 data of a data URL, else None."""
    found = _DATA.fullmatch(url or "")
    return None if found is None else (found["media_type"], found["data"])
