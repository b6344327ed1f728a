"""One thread as an archive without secrets: what a person hands to a colleague.

A message that holds a secret is given away as if it had been erased: the turn's digest still proves
the rest. Files are cleaned in place. Reads the ledger; must never change it.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import PurePath
from typing import Any, Final

import anyio.to_thread
import orjson

from turntree.core.canonical import Json, canonical, digest_bytes, digest_from_raw
from turntree.core.errors import InvalidOperation, NotCanonical, NotFound
from turntree.core.event import Event, record
from turntree.core.ids import Digest, Timestamp, TurnId
from turntree.core.principal import Principal
from turntree.core.redaction import Redactor
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.db.database import Database
from turntree.resources.file_diff import FileDiff
from turntree.transfer.archive import (
    BY_KIND,
    FORMAT,
    SHARED,
    ArchiveWriter,
    BaseTurn,
    SharedThread,
    bytes_line,
    event_line,
    is_file_name,
    line_of,
    row_to_line,
    turn_line,
)
from turntree.transfer.clean_files import CleanFiles
from turntree.transfer.store import LedgerSnapshot, open_snapshot

REASON: Final = "it held a secret when the thread was shared"
ERASED_PATH: Final = "(erased)"
UNNAMED: Final = "files"
"""The folder of a resource whose name cannot be one of a folder."""


@value
class RemovedMessage:
    """A message that was left out because it holds a secret."""

    turn: Digest
    message: int
    """Its place in the turn, from 0."""
    secrets: int


@value
class RedactionReport:
    """What is not in a shared thread."""

    messages: tuple[RemovedMessage, ...] = ()
    files: tuple[tuple[str, int], ...] = ()
    """Files whose secrets were taken out, and how many."""
    files_left_out: tuple[str, ...] = ()
    """Files that could not be cleaned: too large, or binary with a secret."""
    turns_without_events: tuple[TurnId, ...] = ()
    """Turns whose events hold a secret: their words are here, their model calls are not."""
    states_missing: int = 0
    """Snapshots whose files are not stored on this machine."""

    @property
    def secrets(self) -> int:
        """How many secrets were taken out."""
        return sum(one.secrets for one in self.messages) + sum(count for _, count in self.files)

    def __add__(self, other: "RedactionReport") -> "RedactionReport":
        """Return what is missing in two parts of a thread."""
        files = dict(self.files)
        for path, count in other.files:
            files[path] = max(count, files.get(path, 0))
        return RedactionReport(
            (*self.messages, *other.messages),
            tuple(sorted(files.items())),
            tuple(sorted({*self.files_left_out, *other.files_left_out})),
            (*self.turns_without_events, *other.turns_without_events),
            self.states_missing + other.states_missing,
        )

    def document(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {
            "messages": [
                {"turn": one.turn, "message": one.message, "secrets": one.secrets}
                for one in self.messages
            ],
            "files": [{"path": path, "secrets": count} for path, count in self.files],
            "files_left_out": list(self.files_left_out),
            "turns_without_events": list(self.turns_without_events),
            "snapshots_missing": self.states_missing,
        }


@value
class ThreadArchive:
    """One thread, ready to be written."""

    data: bytes
    """The archive."""
    report: RedactionReport
    objects: Mapping[Digest, bytes]
    """Large parts of messages, without secrets."""
    changes: Mapping[TurnId, Sequence[FileDiff]]
    """The files that each turn changed, without secrets."""


async def archive_thread(
    database: Database,
    thread: Sequence[ThreadTurn],
    label: str,
    redactor: Redactor,
    files: CleanFiles | None,
    by: Principal,
    at: Timestamp,
    base: BaseTurn | None = None,
) -> ThreadArchive:
    """Return the archive of a whole thread, which ``by`` gives away, or of its turns after a base.

    Without ``files`` it has none.

    Raises:
        InvalidOperation: What cannot be left out holds a secret, such as a path or a tag.
    """
    turns = [placed.turn.id for placed in thread]
    async with open_snapshot(database, turns) as snapshot:
        archiver = _ThreadArchiver(snapshot, redactor, files, by, at)
        await archiver.read()
    shared = SharedThread(turns[-1], label, base)
    return await anyio.to_thread.run_sync(archiver.write, shared)


class _ThreadArchiver:
    """Collects the lines of a thread without its secrets, and then writes them."""

    def __init__(
        self,
        snapshot: LedgerSnapshot,
        redactor: Redactor,
        files: CleanFiles | None,
        by: Principal,
        at: Timestamp,
    ) -> None:
        self._snapshot, self._redactor, self._files = snapshot, redactor, files
        self._by, self._at = str(by), at
        self._lines = list[tuple[str, bytes]]()
        self._objects = dict[Digest, bytes]()
        self._tainted = set[Digest]()
        """Objects that hold a secret: a message that refers to one is left out as well."""
        self._removed = dict[tuple[str, int], None]()
        """Each message that is left out: its turn, and its place there."""
        self._erased_turns = set[str]()
        self._changes = dict[TurnId, list[FileDiff]]()
        self._messages, self._muted, self._missing = list[RemovedMessage](), list[TurnId](), 0

    async def read(self) -> None:
        """Read everything that belongs to the thread."""
        objects = list[tuple[str, bytes]]()
        async for digest, data in self._snapshot.objects():
            clean, count = self._redactor.redact(data)
            self._objects[digest] = clean
            if count:
                self._tainted.add(digest)
            else:
                objects.append(("object", bytes_line("object", digest, data)))
        turns = [self._turn(*row) async for row in self._snapshot.rows("turn")]
        self._lines += [*await self._read_events(), *turns, *objects]
        for kind in SHARED:
            async for (text,) in self._snapshot.rows(kind):
                self._add_row(kind, orjson.loads(text))
        if self._files is not None:
            await self._read_files(self._files)

    def write(self, shared: SharedThread) -> ThreadArchive:
        """Return the archive; it reads the files, so it may take a while."""
        report = RedactionReport(
            tuple(self._messages),
            tuple(sorted(self._files.redacted.items())) if self._files else (),
            tuple(self._files.left_out) if self._files else (),
            tuple(self._muted),
            self._missing,
        )
        writer, out = ArchiveWriter(), BytesIO()
        share: dict[str, Json] = {
            "head": shared.head,
            "label": shared.label,
            "removed": report.document(),
        }
        if shared.base is not None:
            base = shared.base
            share["base"] = {"id": base.id, "digest": base.digest, "depth": base.depth}
        first = {"turntree": FORMAT, "partial": True, "share": share}
        out.write(writer.add("archive", line_of("archive", first)))
        for kind, line in self._lines:
            out.write(writer.add(kind, line))
        for line in self._files.lines() if self._files else ():
            out.write(writer.add("file", line))
        out.write(writer.end())
        return ThreadArchive(out.getvalue(), report, self._objects, self._changes)

    async def _read_events(self) -> list[tuple[str, bytes]]:
        """Return the events of the turns, and a receipt for each message that is left out.

        If one event of a turn holds a secret, none is returned: a stream has no gaps.
        """
        found, muted = dict[str, list[bytes]](), dict[str, None]()
        async for id, body in self._snapshot.rows("event"):
            stream = orjson.loads(body)["stream"]
            found.setdefault(stream, []).append(event_line(digest_from_raw(id), body))
            if self._redactor.redact(body.encode())[1]:
                muted[stream] = None
        self._muted = [TurnId(stream) for stream in muted]
        found.update((stream, []) for stream in muted)
        # The check of a ledger accepts a missing message only with a receipt that says who removed
        # it. It is in the copy alone: the message is still in this ledger.
        for turn, place in self._removed:
            told: dict[str, Json] = {"by": self._by, "reason": REASON, "sequence": place}
            lines = found.setdefault(turn, [])
            receipt = record(Event(turn, len(lines), "message.erased", self._at, told))
            lines.append(event_line(receipt.id, receipt.body))
        return [("event", line) for lines in found.values() for line in lines]

    def _turn(
        self, id: str, parent: str | None, depth: int, digest: bytes, header: str, said: str
    ) -> tuple[str, bytes]:
        # Unlike a message, a header cannot be replaced by its digest: it is what the digest covers.
        if self._redactor.redact(header.encode())[1]:
            raise InvalidOperation(
                f"the header of turn {id} holds a secret, so the thread cannot be shared"
            )
        proof, lines = digest_from_raw(digest), list[str]()
        for place, text in enumerate(said.split("\n") if said else ()):
            line = text.encode()
            secrets = self._redactor.redact(line)[1]
            # An object that is left out would make the import fail, so its message goes with it.
            secrets += sum(tainted in text for tainted in self._tainted)
            if secrets:
                self._messages.append(RemovedMessage(proof, place, secrets))
                self._removed[id, place] = None
                line = canonical({"erased": digest_bytes(line)})
            if line.startswith(b'{"erased":'):
                self._erased_turns.add(id)
            lines.append(line.decode())
        return "turn", turn_line(id, parent, depth, proof, header, "\n".join(lines))

    def _add_row(self, kind: str, row: dict[str, Any]) -> None:
        if kind in ("erased_call", "erased_file") and row["turn_id"] not in self._erased_turns:
            return
        if kind == "run":
            # The session that it ran in stays here.
            row["session_id"] = None
        elif kind == "erased_file" and (row["turn_id"], row["message"]) in self._removed:
            row["path"] = ERASED_PATH
        self._add_line(kind, row_to_line(BY_KIND[kind], row))

    def _add_line(self, kind: str, line: bytes) -> None:
        if self._redactor.redact(line)[1]:
            what = f"a {kind.replace('_', ' ')}"
            raise InvalidOperation(f"{what} holds a secret, so the thread cannot be shared")
        self._lines.append((kind, line))

    async def _read_files(self, files: CleanFiles) -> None:
        """Clean the states before and after each turn, and compare them."""
        for row in await self._snapshot.files():
            try:
                states = {
                    side: await anyio.to_thread.run_sync(files.clean, Digest(row[side]))
                    for side in ("before", "after")
                    if row[side] is not None
                }
            except (NotFound, NotCanonical):
                # Another machine has it, or it is damaged.
                self._missing += 1
                continue
            before, after = states.get("before"), states["after"]
            shown = {**row, **states, "name": _file_name(row["name"])}
            self._add_line("turn_files", line_of("turn_files", shown))
            # Without a state before, all files would look as if the turn had written them.
            if before is not None:
                diffs = await anyio.to_thread.run_sync(files.diff, before, after)
                self._changes.setdefault(TurnId(row["turn"]), []).extend(diffs)


def _file_name(name: str) -> str:
    """Return the last part of a resource's name, which may be a whole path of this machine."""
    last = PurePath(name).name
    return last if is_file_name(last) else UNNAMED
