"""``tree.archives``: a whole workspace as one file, and back."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final

import anyio.lowlevel
import anyio.to_thread

from turntree.auth.member_store import MemberStore
from turntree.core.canonical import digest_raw, parse_digest
from turntree.core.errors import Conflict, InvalidOperation
from turntree.core.ids import Digest, Timestamp, TurnId
from turntree.core.program import Visibility
from turntree.core.redaction import Redactor
from turntree.core.ref import ExtRef
from turntree.core.session import Session, numbered_labels
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database
from turntree.integrity.fsck import check_structure, fsck
from turntree.resources.driver import TakenSnapshot
from turntree.resources.service import Resources
from turntree.resources.snapshots.store import ObjectStore
from turntree.resources.snapshots.trees import read_state
from turntree.routing.target import MAIN
from turntree.transcripts.store import ImportStore
from turntree.transfer.archive import ArchiveReader, ArchiveWriter, BaseTurn, SharedThread
from turntree.transfer.archive_files import FileImport, file_lines, list_needed
from turntree.transfer.clean_files import CleanFiles
from turntree.transfer.share import ThreadArchive, archive_thread
from turntree.transfer.store import open_import, open_snapshot

Report = Callable[[int, int], None]
REPORTED_LINES: Final = 200
"""Progress is reported once in this many lines."""


@value
class ExportResult:
    """What an archive holds, and what it does not."""

    counts: Mapping[str, int]
    """Lines by kind."""
    is_partial: bool
    """Whether something is hidden from the exporter, and so not in it."""
    unfinished: int
    """Runs, waiting messages and plans that were not finished, which it leaves out."""
    missing_files: int
    """Snapshots whose files are not stored on this machine."""


@value
class ImportResult:
    """What an import added."""

    lines: int
    added: Mapping[str, int]
    """Rows by kind that the ledger did not have."""
    is_partial: bool
    """Whether the archive was written by a viewer from whom something was hidden."""
    session: Session | None = None
    """The session at the head of a shared thread."""
    has_files: bool = False
    """Whether turns of a shared thread have files, new or known."""


@value
class Archives:
    """The facet ``tree.archives``."""

    database: Database
    """As the user sees it, who exports no more than that."""
    home: Path
    """The data directory, which holds the files of snapshots."""
    resources: Resources
    members: MemberStore

    async def export(
        self, write: Callable[[bytes], object], report: Report = lambda _done, _total: None
    ) -> ExportResult:
        """Write the workspace line by line, as its user sees it at one point in time.

        Raises:
            DatabaseUnavailable: The database does not answer.
        """
        writer, store = ArchiveWriter(), self._store
        async with open_snapshot(self.database) as snapshot:
            done = 0
            async for kind, line in snapshot.lines():
                write(writer.add(kind, line))
                done += 1
                if not done % REPORTED_LINES:
                    report(done, max(done, snapshot.total))
            states = await snapshot.states()
            needed, missing = await anyio.to_thread.run_sync(list_needed, store, states)
            for place, line in enumerate(file_lines(store, needed), start=1):
                write(writer.add("file", line))
                if not place % REPORTED_LINES:
                    report(place, len(needed))
            write(writer.end())
            return ExportResult(writer.counts, not snapshot.sees_all, snapshot.unfinished, missing)

    async def share(
        self,
        thread: Sequence[ThreadTurn],
        label: str,
        redactor: Redactor,
        *,
        base: BaseTurn | None = None,
        has_files: bool = True,
    ) -> ThreadArchive:
        """Return the archive of one thread without its secrets: all of it, or after a base.

        Raises:
            InvalidOperation: What cannot be left out holds a secret, such as a path or a tag.
        """
        files = CleanFiles(self._store, redactor) if has_files else None
        by, at = self.resources.by, self.resources.world.now()
        return await archive_thread(self.database, thread, label, redactor, files, by, at, base)

    async def verify(
        self, file: IO[bytes], report: Report = lambda _done, _total: None
    ) -> ArchiveReader:
        """Read an archive and check every digest in it, without storing anything.

        Raises:
            InvalidOperation: It is not an archive, or something in it was changed.
        """
        reader = ArchiveReader()
        async for line in _lines(file, report):
            reader.read(line)
        reader.finish()
        return reader

    async def load(
        self,
        file: IO[bytes],
        report: Report = lambda _done, _total: None,
        *,
        visibility: Visibility | None = None,
        begins_session: bool = True,
    ) -> ImportResult:
        """Insert an archive: all of it, or nothing.

        What the ledger has already is skipped, so that it may be repeated. Where both have a
        session or a program, the one with more events wins if they continue the same events. A
        shared thread gets a session of its own, which belongs to the user and has ``visibility``,
        unless the caller has one for it.

        Raises:
            PermissionDenied: The user is a guest, or was removed.
            InvalidOperation: Something in it was changed, or its rows contradict its events.
            Conflict: The ledger has something else under the same name or id.
        """
        await ImportStore(self.database).require_author()
        reader, files = ArchiveReader(), FileImport(self._store)
        turn_files = list[Mapping[str, Any]]()
        everything = self.database.seen_by(EVERYTHING)
        async with open_import(everything, importer=self.database.sight) as loading:
            # Before its rows are here: it says who worked in the workspace, and the first of them
            # would be taken for its admin.
            async with everything.joining(loading.connection):
                await self.members.ensure(at=self.resources.world.now())
            async for text in _lines(file, report):
                line = reader.read(text)
                if line.kind == "archive" and reader.shared is not None:
                    loading.keeps_ours = True
                    await loading.check_base(reader.shared.base)
                if line.kind == "file":
                    files.add(line)
                elif line.kind == "turn_files":
                    turn_files.append(line.document)
                else:
                    await loading.add(line, len(text))
            reader.finish()
            await loading.finish()
            await loading.check_objects()
            await anyio.to_thread.run_sync(files.finish)
            states = {row[side] for row in turn_files for side in ("before", "after") if row[side]}
            # A folder that lacks a file would otherwise be noticed when it is needed.
            if (await anyio.to_thread.run_sync(list_needed, self._store, states))[1]:
                raise InvalidOperation("the archive lacks files that its turns refer to")
            if any(loading.added.values()) and not reader.is_partial:
                # Rows are proved by the events next to them. References to what is hidden are
                # faults that only the whole ledger could mend, so a partial one is not judged.
                faults = await check_structure(loading.connection, everything.workspace)
                if faults and loading.is_filled:
                    before = set(await fsck(everything, full=False))
                    faults = [fault for fault in faults if fault not in before]
                for fault in faults:
                    raise InvalidOperation(
                        f"the archive contradicts itself: {fault.subject}: {fault.sentence}"
                        f" ({fault.invariant})"
                    )
            added = {**loading.added, **({"file": files.added} if files.added else {})}
            session = None
            if reader.shared is not None:
                # In the same transaction: turns without their files could never get them again.
                async with self.database.joining(loading.connection):
                    known = await self._list_turns_with_files(turn_files)
                    for row in turn_files:
                        if row["turn"] not in known:
                            added["turn_files"] = added.get("turn_files", 0) + await self._pin(row)
        if reader.shared is not None and begins_session:
            session = await self.begin_session(reader.shared, visibility)
        return ImportResult(reader.lines, added, reader.is_partial, session, bool(turn_files))

    async def begin_session(self, shared: SharedThread, visibility: Visibility | None) -> Session:
        """Return the session at the head of a shared thread; importing again finds the same one.

        Raises:
            InvalidOperation: Too many sessions have its name.
        """
        sessions = self.resources.sessions
        for label in numbered_labels(shared.label):
            there = await sessions.ledger.find(label)
            if there is not None and there.head == shared.head:
                return there
            # A session of that name that stands elsewhere is the user's own work and stays as it
            # is. What is said to an agent continues its main session: no page begins that.
            if there is None and not label.endswith(f":{MAIN}"):
                try:
                    return await sessions.fork(shared.head, label, visibility=visibility)
                except Conflict:
                    # Another import has begun it just now, or it is hidden from the user.
                    there = await sessions.ledger.find(label)
                    if there is not None and there.head == shared.head:
                        return there
        raise InvalidOperation(f"too many sessions are named {shared.label!r}")

    @property
    def _store(self) -> ObjectStore:
        return ObjectStore(str(self.home / "shadow"))

    async def _list_turns_with_files(self, rows: Sequence[Mapping[str, Any]]) -> set[str]:
        """Return the turns whose files this ledger has recorded itself: it knows them better."""
        pins = await self.resources.pins.list_pins([TurnId(row["turn"]) for row in rows])
        shared = str(self.home / "shared")
        return {one.pin.turn for one in pins if not one.resource.place.startswith(f"{shared}/")}

    async def _pin(self, row: Mapping[str, Any]) -> bool:
        """Record the files of a shared turn; False if they are recorded already.

        The folder was on another machine. Here it is one that does not exist, so a worktree can be
        created from it, and nothing that is here can be taken for it.
        """
        place = self.home / "shared" / row["resource"] / row["name"]
        folder = await self.resources.ensure(row["of"], str(place))
        before, after = (
            None if row[side] is None else self._taken(parse_digest(row[side]))
            for side in ("before", "after")
        )
        assert after is not None, "the reader has checked it"
        return await self.resources.pin(
            TurnId(row["turn"]),
            folder,
            before,
            after,
            Timestamp(row["began_at"]),
            Timestamp(row["ended_at"]),
            row["mode"],
        )

    def _taken(self, state: Digest) -> TakenSnapshot:
        top = read_state(self._store.get, digest_raw(state))
        return TakenSnapshot(ExtRef("shadow-tree", state), top.size, top.files, 0)


async def _lines(file: IO[bytes], report: Report) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a file, and report the bytes that were read."""
    total = file.seek(0, 2)
    file.seek(0)
    done = 0
    for place, line in enumerate(file, start=1):
        done += len(line)
        if not place % REPORTED_LINES:
            report(done, total)
            # Lets Ctrl-C through: reading a file alone never waits.
            await anyio.lowlevel.checkpoint()
        yield line
    report(total, total)
