"""Import plain files of messages, as programs dump them before they call a model.

A transcript is one file. Knows the lists, objects and lines of such files; ``items`` reads a
message. Nothing is discovered, and a file of another tool is left alone.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from turntree.core.canonical import Json, tidy
from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.drafts import DraftSession, DraftTurn, Projection
from turntree.transcripts.importer import ToolPaths, TranscriptRef, stamp_of
from turntree.transcripts.importers.messages.items import call_of, is_item, nodes_of, vendor_of
from turntree.transcripts.importers.shared.export_files import elements
from turntree.transcripts.importers.shared.lenient_json import (
    entries,
    mapping,
    moment,
    parse,
    read_lines,
    word,
)
from turntree.transcripts.importers.shared.message_tree import NEVER, MessageNode, MessageTree

ORIGIN: Final = "messages"
_LISTS: Final = frozenset({".json"})
_LINES: Final = frozenset({".jsonl", ".ndjson"})
_DETAILS: Final = ("model", "tools", "metadata", "temperature", "max_tokens", "tool_choice")


class MessagesImporter:
    """Reads files of OpenAI's and Anthropic's messages, detected by their shape."""

    origin: Final = ORIGIN
    version: Final = 1

    def discover(self, places: ToolPaths) -> Iterator[TranscriptRef]:
        """Yield nothing: such files have no default folder."""
        del places
        return iter(())

    def open(self, path: Path) -> Iterable[TranscriptRef]:
        """Yield a file of messages, or those of a folder."""
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        for file in files:
            if file.is_file() and _is_ours(file):
                stamp, size = stamp_of([file])
                yield TranscriptRef(ORIGIN, str(file.absolute()), (file,), stamp, size)

    def read(self, bundle: TranscriptRef) -> Iterator[RawRecord]:
        """Yield the lines of a file, or the members of its list.

        Raises:
            OSError: The file cannot be read.
        """
        return _records(bundle.files[0])

    def project(self, bundle: TranscriptRef, records: Sequence[RawRecord]) -> Projection:
        """Return a session for the file, or one for each line that is a conversation."""
        turns: list[DraftTurn] = []
        sessions: list[DraftSession] = []
        unknown: dict[str, int] = {}
        broken = 0
        alone: list[tuple[int, Mapping[str, Any]]] = []
        for place, record in enumerate(records):
            if (document := parse(record.data)) is None:
                broken += 1
            elif (items := _items(document)) is not None:
                told = [(place, item) for item in items]
                _add(bundle, f"{bundle.id}:{place}", document, told, turns, sessions)
            elif is_item(document):
                alone.append((place, document))
            else:
                kind = word(document.get("type")) or word(document.get("role")) or "no message"
                unknown[kind[:80]] = unknown.get(kind[:80], 0) + 1
        _add(bundle, bundle.id, {}, alone, turns, sessions)
        return Projection(turns, sessions, unknown, broken=broken)


def _is_ours(file: Path) -> bool:
    """Return whether a file starts with a message or an object that holds some."""
    try:
        first = next(iter(_records(file)), None)
    except OSError:
        return False
    document = None if first is None else parse(first.data)
    return document is not None and (is_item(document) or _items(document) is not None)


def _records(file: Path) -> Iterator[RawRecord]:
    if file.suffix.lower() in _LINES:
        yield from read_lines(file, file.name)
    elif file.suffix.lower() in _LISTS:
        with file.open("rb") as stream:
            for offset, data in elements(stream):
                yield RawRecord(file.name, offset, data)


def _items(document: Mapping[str, Any]) -> list[Mapping[str, Any]] | None:
    """Return the messages of a request, a response or both; None if it is neither."""
    told: list[Any] = [
        {"role": "system", "content": document[name]}
        for name in ("system", "instructions")
        if document.get(name)
    ]
    begun = len(told)
    told += entries(document.get("messages"))
    asked = document.get("input")
    told += [{"role": "user", "content": asked}] if isinstance(asked, str) else entries(asked)
    told += entries(document.get("output"))
    told += [mapping(choice).get("message") for choice in entries(document.get("choices"))[:1]]
    items = [mapping(item) for item in told]
    is_told = [item for item in items[begun:] if is_item(item)]
    return items if is_told and "role" not in document else None


def _add(
    bundle: TranscriptRef,
    id: str,
    document: Mapping[str, Any],
    items: Sequence[tuple[int, Mapping[str, Any]]],
    turns: list[DraftTurn],
    sessions: list[DraftSession],
) -> None:
    """Add the turns and the session of one conversation."""
    found = vendor_of([item for _, item in items])
    vendor = found or ("anthropic" if document.get("system") else "openai")
    nodes: dict[str, MessageNode] = {}
    before: str | None = None
    model = word(document.get("model"))
    for number, (place, item) in enumerate(items):
        for node in nodes_of(item, number, before, place, vendor):
            spoken = any(said.role == "assistant" for said in node.messages)
            nodes[node.id] = replace(node, model=node.model or model) if spoken else node
            before = node.id
    if before is not None:
        nodes[before] = replace(nodes[before], calls=nodes[before].calls + call_of(document, found))
    start = moment(document.get("created_at") or document.get("created")) or NEVER
    tree = MessageTree(nodes, start, before, found)
    if tree.head is None:
        return
    turns += tree.turns
    details: dict[str, Json] = {n: tidy(document[n]) for n in _DETAILS if document.get(n)}
    # The id is the file's path; what is projected again from the ledger has no files any more.
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", Path(bundle.id).stem).strip("-")[:60] or "unnamed"
    label = f"messages/{stem}" if id == bundle.id else f"messages/{stem}-{len(sessions)}"
    sessions.append(DraftSession(id, label, tree.head, details=details))
