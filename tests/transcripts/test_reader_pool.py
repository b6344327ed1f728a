"""Readers: what another process read is what this one would have read."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from proofs.corpus import Corpus
from turntree.boot.open import READER, importing_on, load_importers
from turntree.core.errors import DatabaseUnavailable
from turntree.db.database import Database
from turntree.integrity.fsck import fsck
from turntree.testing.fakes import FakeClock
from turntree.transcripts import imports
from turntree.transcripts.importer import Importer, ToolPaths, TranscriptRef
from turntree.transcripts.packing import Packer
from turntree.transcripts.pipeline import ReadTask, read_bundle
from turntree.transcripts.reader_pool import Readers

pytestmark = pytest.mark.anyio


@pytest.fixture
def found(tmp_path: Path) -> list[tuple[Importer, TranscriptRef]]:
    """Three transcripts of two turns; sample data."""
    Corpus(7).write(tmp_path, 3, 2)
    importer = load_importers()["claude-code"]
    return [(importer, bundle) for bundle in importer.discover(ToolPaths(tmp_path, {}))]


@pytest.fixture
def readers() -> Iterator[Readers]:
    """One other process."""
    started = Readers(Packer(), READER, 1)
    yield started
    started.close()


@pytest.mark.parametrize(
    "command", [READER, ("/nonexistent/reader",), (sys.executable, "-c", "raise SystemExit")]
)
async def test_whoever_reads_finds_the_same(
    found: list[tuple[Importer, TranscriptRef]], command: Sequence[str]
) -> None:
    readers = Readers(Packer(), command, 2)
    try:
        for importer, bundle in found:
            task = ReadTask(bundle, redacting=True, hold_open=False)
            here = read_bundle(importer, task, Packer())
            assert len(here.turns) == 2
            assert readers.read(importer, task) == here
    finally:
        readers.close()


async def test_what_is_wrong_with_a_file_is_raised_here(
    found: list[tuple[Importer, TranscriptRef]], readers: Readers
) -> None:
    importer, bundle = found[0]
    bundle.files[0].unlink()
    with pytest.raises(FileNotFoundError):
        readers.read(importer, ReadTask(bundle, redacting=True, hold_open=False))


async def test_an_importer_that_only_this_process_knows_reads_here(
    found: list[tuple[Importer, TranscriptRef]], readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    importer, bundle = found[0]
    task = ReadTask(bundle, redacting=True, hold_open=False)

    class Local(type(importer)):  # type: ignore[misc]
        """Cannot be sent, because it is defined inside a function."""

    assert len(readers.read(Local(), task).turns) == 2
    unknown = ModuleType("only_here")
    unknown.Elsewhere = type("Elsewhere", (type(importer),), {"__module__": "only_here"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "only_here", unknown)
    assert len(readers.read(unknown.Elsewhere(), task).turns) == 2
    assert readers.count == 1
    assert len(readers.read(importer, task).turns) == 2


async def test_closed_readers_read_no_more(
    found: list[tuple[Importer, TranscriptRef]], readers: Readers
) -> None:
    importer, bundle = found[0]
    readers.close()
    with pytest.raises(DatabaseUnavailable):
        readers.read(importer, ReadTask(bundle, redacting=True, hold_open=False))


async def test_an_import_by_processes_is_an_import(
    database: Database,
    found: list[tuple[Importer, TranscriptRef]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(imports, "PROCESSES_FROM_BYTES", 0)
    done = await importing_on(database, FakeClock(99)).run(found)
    assert (done.turns_added, done.sessions_begun, done.failed) == (6, 3, {})
    again = await importing_on(database, FakeClock(98)).run(found)
    assert (again.bundles_read, again.bundles_unchanged) == (0, 3)
    assert await fsck(database) == []
