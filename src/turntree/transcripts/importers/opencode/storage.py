"""Read opencode's storage: a database, or in older versions a folder of files.

Both become the same records: documents of sessions, messages and parts. This module knows tables,
columns and file names, not the content.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from turntree.core.value import value
from turntree.ledger.raw_codec import RECORD_BYTES_MAX, RawRecord
from turntree.transcripts.importer import TranscriptRef, stamp_of
from turntree.transcripts.importers.shared.lenient_json import mapping, parse, text
from turntree.transcripts.importers.shared.sqlite_source import (
    is_database,
    load_statements,
    reading,
)

ORIGIN: Final = "opencode"
DATABASE: Final = "opencode.db"
KINDS: Final = ("session", "message", "part")
_STATEMENTS: Final = load_statements("opencode")
_JSON_COLUMNS: Final = ("data", "revert", "model", "permission", "metadata", "summary_diffs")


@value
class Document:
    """A session, a message or a part, from either kind of storage."""

    place: int
    kind: str
    id: str
    session: str
    message: str
    told: Mapping[str, Any]


def list_bundles(folder: Path) -> Iterator[TranscriptRef]:
    """Yield a transcript for each session that no other one in the folder has spawned."""
    known: set[str] = set()
    for database in sorted(folder.glob("opencode*.db")):
        for bundle in bundles_in_database(database):
            known.add(bundle.id)
            yield bundle
    # Sessions that were migrated to the database stay in the files as well.
    for bundle in bundles_in_files(folder / "storage"):
        if bundle.id not in known:
            yield bundle


def bundles_in_database(path: Path) -> list[TranscriptRef]:
    """Return the sessions in a database; none if opencode did not write it."""
    try:
        rows = _session_rows(path) if is_database(path) else []
    except OSError:
        # A database that cannot be read now must not stop the discovery of the others.
        return []
    families = _families({row[0]: row[1] for row in rows})
    by_id = {row[0]: row for row in rows}
    bundles: list[TranscriptRef] = []
    for root, members in families.items():
        stamp = ";".join(":".join(map(str, by_id[id][2:5])) for id in members)
        size = sum(int(by_id[id][5] or 0) for id in members)
        bundles.append(TranscriptRef(ORIGIN, root, (path,), stamp, size))
    return bundles


def _session_rows(path: Path) -> list[tuple[Any, ...]]:
    with reading(path) as connection:
        tables = {_plain(row[0]) for row in connection.execute(_STATEMENTS["tables"])}
        if not tables.issuperset(KINDS):
            return []
        rows = connection.execute(_STATEMENTS["sessions"])
        return [tuple(_plain(value) for value in row) for row in rows]


def _families(parents: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Return the sessions without a parent, each with all its descendants."""
    families: dict[str, list[str]] = {}
    for id in sorted(parents):
        root, seen = id, {id}
        while (parent := parents[root]) is not None and parent in parents and parent not in seen:
            seen.add(parent)
            root = parent
        families.setdefault(root, []).append(id)
    return families


def bundles_in_files(storage: Path) -> Iterator[TranscriptRef]:
    """Yield the sessions in a folder of the older format."""
    told: dict[str, tuple[Path, str | None]] = {}
    for path in sorted(storage.glob("session/*/*.json")):
        found = parse(path.read_bytes()) or {}
        if id := text(found.get("id")):
            told[id] = path, text(found.get("parentID")) or None
    for root, members in _families({id: parent for id, (_, parent) in told.items()}).items():
        own = [told[root][0], *(told[id][0] for id in members if id != root)]
        messages = [p for id in members for p in sorted((storage / "message" / id).glob("*.json"))]
        parts = [p for m in messages for p in sorted((storage / "part" / m.stem).glob("*.json"))]
        files = (*own, *messages, *parts)
        stamp, size = stamp_of(files)
        yield TranscriptRef(ORIGIN, root, files, stamp, size)


def read_bundle(bundle: TranscriptRef) -> Iterator[RawRecord]:
    """Yield the rows or files of a session and of its descendants.

    Raises:
        OSError: The database cannot be read.
    """
    first = bundle.files[0]
    if first.suffix == ".db":
        yield from _read_rows(first, bundle.id)
        return
    storage = first.parents[2]
    for path in bundle.files:
        with path.open("rb") as file:
            yield RawRecord(path.relative_to(storage).as_posix(), 0, file.read(RECORD_BYTES_MAX))


def _read_rows(path: Path, root: str) -> Iterator[RawRecord]:
    parents = {row[0]: row[1] for row in _session_rows(path)}
    members = json.dumps(_families(parents).get(root, []))
    with reading(path) as connection:
        for kind in KINDS:
            rows = connection.execute(_STATEMENTS[f"{kind}_rows"], (members,))
            names = [column[0] for column in rows.description]
            for number, *values in rows:
                row = dict(zip(names[1:], map(_plain, values), strict=True))
                yield RawRecord(f"{path.name}/{kind}", number, orjson.dumps(row))


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def documents_in(records: Sequence[RawRecord]) -> tuple[list[Document], int]:
    """Return the records in one shape, and how many are malformed."""
    found: list[Document] = []
    broken = 0
    for place, record in enumerate(records):
        row = parse(record.data)
        if row is None:
            broken += 1
            continue
        told = _opened(row)
        within = record.file.split("/")
        kind = within[-1] if within[-1] in KINDS else within[0]
        session = text(told.get("session_id")) or text(told.get("sessionID"))
        message = text(told.get("message_id")) or text(told.get("messageID"))
        document = Document(place, kind, text(told.get("id")), session, message, told)
        found.append(document)
    return found, broken


def _opened(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row with the JSON in its columns parsed, as a file would hold it."""
    told = dict(row)
    for name in _JSON_COLUMNS:
        if isinstance(row.get(name), str):
            told[name] = parse(row[name].encode("utf-8", "replace")) or row[name]
    return {**told, **mapping(told.pop("data", None))}


def of_kind(documents: Iterable[Document], kind: str) -> list[Document]:
    """Return the documents of one kind."""
    return [document for document in documents if document.kind == kind]
