"""Context of a message: files that it touched, and lints that were visible.

Importers and file tools write it into a message's ``context``. Code blocks are not part of it: the
view ``ledger.message_codeblocks`` reads them from the assistant's text, so that no importer can
forget to record them.
"""

from collections.abc import Iterator, Mapping
from typing import Literal, cast, get_args

from turntree.core.canonical import Json
from turntree.core.message import ErasedMessage, Message
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
