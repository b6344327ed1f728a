"""Read Cursor's databases: which conversations they hold, and the rows of each.

Knows the tables, keys and folders of all versions. A row becomes a record: its key, a line break
and its value unchanged.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import orjson

from turntree.core.canonical import tidy
from turntree.core.value import value
from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.importer import TranscriptRef, stamp_of
from turntree.transcripts.importers.shared.lenient_json import entries, mapping, parse, word
from turntree.transcripts.importers.shared.sqlite_source import (
    KEYS_MAX,
    after,
    is_database,
    load_statements,
    reading,
    value_of,
)

ORIGIN: Final = "cursor"
WORKSPACE_FILE: Final = "workspace.json"
ENTRY: Final = "composer.composerData"
TAB: Final = "workbench.panel.aichat.view.aichat.chatdata"
DATABASE: Final = "state.vscdb"
_SQL: Final = load_statements("cursor")
_FAMILIES: Final = ("bubbleId", "checkpointId", "messageRequestContext", "codeBlockDiff")
"""Rows of a conversation under keys that begin with the composer's id."""


@value
class Workspace:
    """A folder of the editor's ``workspaceStorage``."""

    folder: Path
    composers: frozenset[str]
    """The conversations it names; their rows are in the global database."""
    inline: Mapping[str, bytes]
    """Whole conversations in its own ``ItemTable``, by id."""

    @property
    def files(self) -> tuple[Path, ...]:
        """Its database and the file that names its folder."""
        told = (self.folder / DATABASE, self.folder / WORKSPACE_FILE)
        return tuple(file for file in told if file.is_file())


def bundles_of(database: Path, workspaces: Sequence[Workspace]) -> Iterator[TranscriptRef]:
    """Yield the conversations of a database; a subagent's belongs to the one that started it.

    Raises:
        OSError: It cannot be read.
    """
    homes = {id: place for place in reversed(workspaces) for id in place.composers}
    with reading(database) as connection:
        if "cursorDiskKV" not in _tables(connection):
            return
        by_name = {place.folder.name: place for place in workspaces}
        for id, name in _header_workspaces(connection):
            if name in by_name:
                homes[id] = by_name[name]
        told = {_text(id): f"{row}+{length}" for id, row, length in _ask(connection, "composers")}
        children = _children(connection)
        share = database.stat().st_size / max(1, _ask(connection, "row_count")[0][0])
        for family in _families(list(told), children):
            count, stamp = _span(connection, family, told)
            near = homes[family[0]].files if family[0] in homes else ()
            files = tuple(dict.fromkeys((database, *near)))
            yield TranscriptRef(ORIGIN, family[0], files, stamp, int(count * share))


def inline_bundles_of(workspace: Workspace) -> Iterator[TranscriptRef]:
    """Yield the conversations that a workspace holds whole."""
    for id, data in workspace.inline.items():
        stamp = hashlib.sha256(data).hexdigest()
        yield TranscriptRef(ORIGIN, id, workspace.files, stamp, len(data))


def find_workspace(folder: Path) -> Workspace | None:
    """Return the workspace of a folder of ``workspaceStorage``, or None if it is not one."""
    if not is_database(folder / DATABASE):
        return None
    named: set[str] = set()
    inline: dict[str, bytes] = {}
    with reading(folder / DATABASE) as connection:
        if "ItemTable" not in _tables(connection):
            return None
        for _, key, content in _ask(connection, "items"):
            document = parse(value_of(content) or b"") or {}
            for id, entry in _conversations(document):
                named.add(id)
                if entries(entry.get("conversation")) or entries(entry.get("bubbles")):
                    inline[id] = _entry_record(_text(key), id, entry)
            named |= _strings(document.get("selectedComposerIds"))
            named |= _strings(document.get("lastFocusedComposerIds"))
        for _, content in _ask(connection, "panes"):
            views = parse(value_of(content) or b"") or {}
            prefix = "workbench.panel.aichat.view."
            named |= {name.removeprefix(prefix) for name in views if name.startswith(prefix)}
    return Workspace(folder, frozenset(named), inline)


def rows_of(bundle: TranscriptRef) -> Iterator[RawRecord]:
    """Yield every row that belongs to a conversation or to its subagents.

    Raises:
        OSError: A database cannot be read.
    """
    for file in bundle.files:
        name = _name(file)
        if file.name == WORKSPACE_FILE:
            yield RawRecord(name, 0, file.read_bytes())
            continue
        with reading(file) as connection:
            tables = _tables(connection)
            if "cursorDiskKV" in tables:
                family = next(_families([bundle.id], _children_in(file, _state(file))))
                yield from _disk_rows(connection, f"{name}/cursorDiskKV", family)
                if "composerHeaders" in tables:
                    yield from _header_rows(connection, f"{name}/composerHeaders", family)
            if "ItemTable" in tables:
                yield from _entries(connection, f"{name}/ItemTable", bundle.id)


def _disk_rows(
    connection: sqlite3.Connection, name: str, family: Sequence[str]
) -> Iterator[RawRecord]:
    for start in range(0, len(family), KEYS_MAX):
        keys = [f"composerData:{id}" for id in family[start : start + KEYS_MAX]]
        yield from _records(name, connection.execute(_SQL["rows_named"], (orjson.dumps(keys),)))
    for id in family:
        for kind in _FAMILIES:
            span = after(f"{kind}:{id}:")
            yield from _records(name, connection.execute(_SQL["rows_between"], span))


def _records(name: str, rows: Iterable[tuple[Any, ...]]) -> Iterator[RawRecord]:
    for row, key, content in rows:
        data = value_of(content)
        yield RawRecord(name, row, bytes(key) if data is None else bytes(key) + b"\n" + data)


def _header_rows(
    connection: sqlite3.Connection, name: str, family: Sequence[str]
) -> Iterator[RawRecord]:
    for start in range(0, len(family), KEYS_MAX):
        ids = orjson.dumps(family[start : start + KEYS_MAX])
        asked = connection.execute(_SQL["headers"], (ids,))
        columns = [str(column[0]) for column in asked.description]
        for row in asked:
            told = dict(zip(columns, row, strict=True))
            number, id = told.pop("row"), _text(told["composerId"])
            plain = {k: _text(v) if isinstance(v, bytes) else v for k, v in told.items()}
            data = f"composerHeaders:{id}\n".encode() + orjson.dumps(tidy(plain))
            yield RawRecord(name, number, data)


def _entries(connection: sqlite3.Connection, name: str, wanted: str) -> Iterator[RawRecord]:
    """Yield a conversation's entry from rows that hold those of a whole workspace."""
    for row, key, content in _ask(connection, "items"):
        for id, entry in _conversations(parse(value_of(content) or b"") or {}):
            if id == wanted:
                yield RawRecord(name, row, _entry_record(_text(key), id, entry))
                break


def _conversations(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for entry in map(mapping, entries(document.get("allComposers"))):
        if id := word(entry.get("composerId")):
            yield id, entry
    for tab in map(mapping, entries(document.get("tabs"))):
        if id := word(tab.get("tabId")) or word(tab.get("id")):
            yield id, tab


def _entry_record(key: str, id: str, entry: Mapping[str, Any]) -> bytes:
    # Serialized again, because its row also holds other conversations.
    return f"{key}:{id}\n".encode() + orjson.dumps(tidy(entry))


@lru_cache(maxsize=4)
def _children_in(file: Path, state: str) -> Mapping[str, list[str]]:
    """Return the subagents of a database, cached by the state of the file.

    Every conversation is read on its own, and each would query the subagents of all.
    """
    del state
    with reading(file) as connection:
        return _children(connection)


def _state(file: Path) -> str:
    log = file.with_name(f"{file.name}-wal")
    return stamp_of([file, log] if log.is_file() else [file])[0]


def _children(connection: sqlite3.Connection) -> Mapping[str, list[str]]:
    """Return the subagents of each composer, from either of the two documents."""
    children: dict[str, list[str]] = {}
    for id, content in _ask(connection, "composers_with_subagents"):
        document = parse(value_of(content) or b"") or {}
        for child in entries(document.get("subagentComposerIds")):
            if word(child):
                children.setdefault(_text(id), []).append(child)
        if parent := word(mapping(document.get("subagentInfo")).get("parentComposerId")):
            children.setdefault(parent, []).append(_text(id))
    return children


def _families(ids: Sequence[str], children: Mapping[str, list[str]]) -> Iterator[list[str]]:
    """Yield each conversation with all subagents below it, the conversation first."""
    known = set(ids) | {child for below in children.values() for child in below}
    below = {child for parent in known for child in children.get(parent, ()) if child != parent}
    seen: set[str] = set()
    # Two that name each other as subagents have no root: the second pass finds them.
    for id in (*(id for id in ids if id not in below or len(ids) == 1), *ids):
        if id in seen:
            continue
        family, waiting = list[str](), [id]
        while waiting:
            if (member := waiting.pop(0)) not in seen:
                seen.add(member)
                family.append(member)
                waiting += children.get(member, ())
        yield family


def _span(
    connection: sqlite3.Connection, family: Sequence[str], told: Mapping[str, str]
) -> tuple[int, str]:
    """Return a conversation's number of rows and a fingerprint that changes with each of them."""
    total, words = 0, list[str]()
    for id in family:
        total += 1
        words.append(told.get(id, ""))
        for kind in _FAMILIES:
            count, newest = connection.execute(_SQL["span"], after(f"{kind}:{id}:")).fetchone()
            total += count
            words.append(f"{count}:{newest or 0}")
    return total, ";".join(words)


def _header_workspaces(connection: sqlite3.Connection) -> list[tuple[str, str]]:
    if "composerHeaders" not in _tables(connection):
        return []
    return [(_text(id), _text(name)) for id, name in _ask(connection, "header_workspaces")]


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {_text(name) for (name,) in _ask(connection, "tables")}


def _ask(connection: sqlite3.Connection, statement: str) -> list[Any]:
    return connection.execute(_SQL[statement]).fetchall()


def _strings(value: object) -> set[str]:
    return {entry for entry in entries(value) if isinstance(entry, str)}


def _text(content: object) -> str:
    return (value_of(content) or b"").decode("utf-8", "replace")


def _name(file: Path) -> str:
    """Return a file's path below the editor's folder, the same on every machine."""
    above = [part for part in file.parts[:-1] if part not in ("/", "")]
    start = next((i for i, p in enumerate(above) if p in ("globalStorage", "workspaceStorage")), -1)
    return "/".join((*above[start:], file.name)) if above else file.name
