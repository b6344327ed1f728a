"""``tree.archives``: a whole workspace as one file, and back."""

from collections.abc import AsyncGenerator, Callable, Mapping
from pathlib import Path
from typing import IO, Final

import anyio.lowlevel
import anyio.to_thread

from turntree.core.errors import InvalidOperation
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database
from turntree.integrity.fsck import check_structure, fsck
from turntree.resources.snapshots.store import ObjectStore
from turntree.transfer.archive import ArchiveReader, ArchiveWriter
from turntree.transfer.archive_files import FileImport, file_lines, list_needed
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


@value
class Archives:
    """The facet ``tree.archives``."""

    database: Database
    """As the user sees it, who exports no more than that."""
    home: Path
    """The data directory, which holds the files of snapshots."""

    async def export(
        self, write: Callable[[bytes], object], report: Report = lambda _done, _total: None
    ) -> ExportResult:
        """Write the workspace line by line, as its user sees it at one point in time.

        Raises:
            DatabaseUnavailable: The database does not answer.
        """
        writer, store = ArchiveWriter(), ObjectStore(str(self.home / "shadow"))
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
        self, file: IO[bytes], report: Report = lambda _done, _total: None
    ) -> ImportResult:
        """Insert an archive: all of it, or nothing.

        What the ledger has already is skipped, so that it may be repeated. Where both have a
        session or a program, the one with more events wins if they continue the same events.

        Raises:
            InvalidOperation: Something in it was changed, or its rows contradict its events.
            Conflict: The ledger has something else under the same name or id.
        """
        reader, files = ArchiveReader(), FileImport(ObjectStore(str(self.home / "shadow")))
        everything = self.database.seen_by(EVERYTHING)
        async with open_import(everything) as loading:
            async for text in _lines(file, report):
                line = reader.read(text)
                if line.kind == "file":
                    files.add(line)
                else:
                    await loading.add(line, len(text))
            reader.finish()
            await loading.finish()
            await loading.check_objects()
            await anyio.to_thread.run_sync(files.finish)
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
        return ImportResult(reader.lines, added, reader.is_partial)


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
