"""The journal: what was done while the database was stopped, until the ledger has it.

    spool/operations/<plan>.jsonl   one revert or its undo; each line became true at once
    spool/operations/names.json     ids of turns that the ledger did not have yet
    spool/operations/lock           held while an operation is carried out or recorded

A line that a crash cut off counts as not written. Every id in it is the one that the ledger gets,
so that an operation is recorded once, however often recording it is tried.
"""

import base64
import json
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, field
from pathlib import Path
from typing import Any, Final, cast

from turntree.core.canonical import Json
from turntree.core.errors import Conflict
from turntree.core.event import Event
from turntree.core.event import from_json as event_from_json
from turntree.core.event import to_json as event_to_json
from turntree.core.ids import Digest, PlanId, Timestamp
from turntree.core.value import value
from turntree.resources.offline.replica import (
    resource_from_json,
    resource_to_json,
    snapshot_from_json,
    snapshot_to_json,
)
from turntree.resources.plans.plan import Note
from turntree.resources.resource import Resource, Snapshot
from turntree.system.processes import lock_file

FOLDER: Final = "operations"
SUFFIX: Final = ".jsonl"
NAMES: Final = "names.json"


@value
class JournalEntry:
    """What became true at once."""

    resources: tuple[Resource, ...] = ()
    """Resources that the ledger may not have yet."""
    snapshots: tuple[Snapshot, ...] = ()
    objects: Mapping[Digest, bytes] = field(default_factory=dict[Digest, bytes])
    events: tuple[Event, ...] = ()
    notes: tuple[tuple[Timestamp, Note], ...] = ()


@value
class OperationJournal:
    """The operations that the ledger does not have yet."""

    folder: Path

    def list_plans(self) -> list[PlanId]:
        """Return the operations, oldest first: ids of plans begin with a time."""
        try:
            return sorted(PlanId(path.stem) for path in self.folder.glob(f"*{SUFFIX}"))
        except FileNotFoundError:
            return []

    def read(self, plan: PlanId) -> list[JournalEntry]:
        """Return what was written of an operation; nothing, if there is none of that id."""
        return [_from_json(document) for document in self._read_documents(plan)]

    def read_renamed(self, plan: PlanId, names: Mapping[str, str]) -> list[JournalEntry]:
        """Return the same with some ids replaced."""
        return [
            _from_json(cast("dict[str, Any]", _rename(one, names)))
            for one in self._read_documents(plan)
        ]

    def append(self, plan: PlanId, entry: JournalEntry) -> None:
        """Write what has become true; when this returns, it survives a power cut."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._path(plan)
        is_new = not path.exists()
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # A line that was cut off would swallow the next one.
            whole = _whole_bytes(fd)
            os.ftruncate(fd, whole)
            os.pwrite(fd, json.dumps(_to_json(entry)).encode() + b"\n", whole)
            os.fsync(fd)
        finally:
            os.close(fd)
        if is_new:
            _sync(self.folder)

    def remove(self, plan: PlanId) -> None:
        """Forget an operation that the ledger has."""
        self._path(plan).unlink(missing_ok=True)
        if not self.list_plans():
            (self.folder / NAMES).unlink(missing_ok=True)

    def name_turns(self, names: Mapping[str, str]) -> None:
        """Remember under which ids the ledger has turns that had other ids here."""
        mentioned = b"".join(self._path(plan).read_bytes() for plan in self.list_plans())
        named = {old: new for old, new in names.items() if old.encode() in mentioned}
        if not named:
            return
        fresh = self.folder / f"{NAMES}.new"
        with fresh.open("w", encoding="utf-8") as file:
            json.dump({**self.read_names(), **named}, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.folder / NAMES)
        _sync(self.folder)

    def read_names(self) -> dict[str, str]:
        """Return the ids of turns in the ledger, by those that they had here."""
        try:
            names: dict[str, str] = json.loads((self.folder / NAMES).read_bytes())
        except FileNotFoundError:
            return {}
        return names

    @contextmanager
    def alone(self) -> Generator[bool]:
        """Keep other processes from carrying out or recording operations; False if one does."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.folder / "lock").open("a") as file:
            yield lock_file(file.fileno())

    def check_next(self, events: Sequence[Event]) -> None:
        """Refuse events that do not follow what is written of their plan.

        Raises:
            Conflict: Another process was faster.
        """
        first = events[0]
        written = [one for entry in self.read(PlanId(first.stream)) for one in entry.events]
        if len(written) != first.seq:
            raise Conflict(f"another process is executing plan {first.stream}")

    def _path(self, plan: PlanId) -> Path:
        return self.folder / f"{plan}{SUFFIX}"

    def _read_documents(self, plan: PlanId) -> list[dict[str, Any]]:
        try:
            data = self._path(plan).read_bytes()
        except FileNotFoundError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        return [json.loads(line) for line in whole.splitlines()]


def _whole_bytes(fd: int) -> int:
    """Return the length of a file up to its last complete line."""
    with os.fdopen(os.dup(fd), "rb") as file:
        return file.read().rfind(b"\n") + 1


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _rename(told: Json, names: Mapping[str, str]) -> Json:
    match told:
        case str():
            return names.get(told, told)
        case list():
            return [_rename(item, names) for item in told]
        case dict():
            return {key: _rename(item, names) for key, item in told.items()}
        case _:
            return told


def _to_json(entry: JournalEntry) -> dict[str, Any]:
    objects = {digest: base64.b64encode(data).decode() for digest, data in entry.objects.items()}
    return {
        "resources": [resource_to_json(one) for one in entry.resources],
        "snapshots": [snapshot_to_json(one) for one in entry.snapshots],
        "objects": objects,
        "events": [event_to_json(one) for one in entry.events],
        "notes": [{"at": at, **asdict(note)} for at, note in entry.notes],
    }


def _from_json(told: Mapping[str, Any]) -> JournalEntry:
    return JournalEntry(
        tuple(map(resource_from_json, told["resources"])),
        tuple(map(snapshot_from_json, told["snapshots"])),
        {Digest(digest): base64.b64decode(data) for digest, data in told["objects"].items()},
        tuple(map(event_from_json, told["events"])),
        tuple(
            (one["at"], Note(one["resource"], one["kind"], one["data"])) for one in told["notes"]
        ),
    )
