"""The claim: nothing in a transcript breaks an import, loses a record or leaves a fault.

The records of every importer are changed at random, from a printed seed: members of other types,
missing, doubled or nested beyond reason, parents that point anywhere, lines that are cut, numbers
nobody can read, NULs and halves of surrogate pairs. Most cases are read, projected and sealed; some
are files that are damaged on the disk; and some go the whole way into PostgreSQL, where what is
kept is compared with what was read, ``fsck`` looks at everything, and all of it is imported again.
"""

import random
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from proofs.figures import Proof, run, temporary_server
from proofs.transcripts.claude_code import Tape, save
from proofs.transcripts.mutations import mutated, mutated_bytes
from proofs.transcripts.samples import SAMPLES
from turntree.boot.open import importing_on, load_importers
from turntree.core.errors import InvalidOperation, NotCanonical
from turntree.core.principal import Principal
from turntree.core.redaction import redact
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, ensure_database, open_database, prepare_database
from turntree.integrity.fsck import fsck
from turntree.ledger.raw_codec import RawRecord
from turntree.system.clock import SystemClock
from turntree.testing.contracts.importer import check_sessions
from turntree.transcripts.drafts import Projection, seal_drafts
from turntree.transcripts.importer import Importer, ToolPaths, TranscriptRef
from turntree.transcripts.imports import Progress
from turntree.transcripts.store import ImportStore

CRASHES = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, RecursionError,
    TypeError, UnicodeError, ValueError,
)  # fmt: skip
"""What a program raises that met something it did not expect."""

TOLD_MAX = 5
LONG_LINE_CHARS = 250_000_000
Base = tuple[Importer, TranscriptRef, list[RawRecord]]


@dataclass(slots=True)
class Tally:
    """What came of the cases."""

    cases: int = 0
    turns: int = 0
    refused: int = 0
    """Those whose records cannot be sealed; an import keeps the records and says so."""
    unreadable: int = 0
    crashed: int = 0

    def crash(self, where: str) -> None:
        """Count a case that must not be, and tell the first few."""
        self.crashed += 1
        if self.crashed <= TOLD_MAX:
            print(f"{where}\n{traceback.format_exc()}", file=sys.stderr)


@dataclass(frozen=True, slots=True)
class Staged:
    """An importer that is given its records: what it makes of them is the real one's doing."""

    real: Importer
    records: Mapping[str, Sequence[RawRecord]]
    ids: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the real one calls a bundle, where many are made from one."""
    version: int = field(init=False)
    origin: str = field(init=False)

    def __post_init__(self) -> None:
        """Go by the real one's name."""
        object.__setattr__(self, "version", self.real.version)
        object.__setattr__(self, "origin", self.real.origin)

    def discover(self, places: ToolPaths) -> Iterator[TranscriptRef]:
        """Find what the real one finds."""
        return self.real.discover(places)

    def open(self, path: Path) -> Iterator[TranscriptRef]:
        """Find what the real one finds."""
        yield from self.real.open(path)

    def read(self, bundle: TranscriptRef) -> Iterator[RawRecord]:
        """Yield the records that were staged."""
        yield from self.records[bundle.id]

    def project(self, bundle: TranscriptRef, records: Sequence[RawRecord]) -> Projection:
        """Project as the real one does."""
        return self.real.project(replace(bundle, id=self.ids.get(bundle.id, bundle.id)), records)


async def prove(proof: Proof) -> None:
    """Take every figure."""
    proof.note("seed", proof.seed, "")
    folder = Path(tempfile.mkdtemp(prefix="turntree-fuzz-"))
    try:
        importers = {n: one for n, one in sorted(load_importers().items()) if proof.wants(n)}
        assert importers.keys() <= SAMPLES.keys(), "every importer has a sample"
        bases = {name: _bases(folder / name, one) for name, one in importers.items()}
        for name, found in bases.items():
            dice = random.Random(f"{proof.seed} {name}")
            _take_projections(proof, name, found, dice)
            _take_files(proof, folder / name, importers[name], dice)
        with temporary_server() as (server, _):
            for name, found in bases.items():
                await _take_imports(proof, server, name, found)
            if not proof.quick and proof.wants("long line"):
                await _take_long_line(proof, server, folder / "long")
    finally:
        shutil.rmtree(folder)


def _bases(folder: Path, importer: Importer) -> list[Base]:
    path = SAMPLES[importer.origin](folder)
    return [(importer, bundle, list(importer.read(bundle))) for bundle in importer.open(path)]


def _take_projections(proof: Proof, name: str, bases: list[Base], dice: random.Random) -> None:
    tally, cases = Tally(), 350 if proof.quick else 12_500
    began = time.perf_counter()
    for number in range(cases):
        importer, bundle, records = dice.choice(bases)
        told = mutated(records, dice)
        try:
            _try_projection(tally, importer, bundle, told)
        except CRASHES:
            tally.crash(f"{name}, case {number}")
    proof.note(f"{name}, records changed", tally.cases, "cases")
    proof.note(f"{name}, records changed", tally.cases / (time.perf_counter() - began), "cases/s")
    proof.note(f"{name}, turns they told of", tally.turns, "turns")
    proof.note(f"{name}, refused", tally.refused, "cases")
    proof.at_most(f"{name}, crashes", tally.crashed, "cases", 0)


def _try_projection(
    tally: Tally, importer: Importer, bundle: TranscriptRef, told: Sequence[RawRecord]
) -> None:
    tally.cases += 1
    projection = importer.project(bundle, told)
    check_sessions(projection)
    assert all(0 <= place < len(told) for turn in projection.turns for place in turn.records)
    by = Principal("agent", importer.origin)
    try:
        sealed = [turn.sealed.turn.id for turn in seal_drafts(projection, by)]
    except (InvalidOperation, NotCanonical):
        tally.refused += 1
        return
    tally.turns += len(sealed)
    if tally.cases % 10 == 0:
        again = seal_drafts(importer.project(bundle, told), by)
        assert [turn.sealed.turn.id for turn in again] == sealed, "the same gives the same"


def _take_files(proof: Proof, home: Path, importer: Importer, dice: random.Random) -> None:
    """Damage the files of a sample on the disk, and read what is left."""
    tally, cases = Tally(), 30 if proof.quick else 1_000
    files = {file: file.read_bytes() for file in sorted(home.rglob("*")) if file.is_file()}
    for number in range(cases):
        file = dice.choice([*files])
        file.write_bytes(mutated_bytes(files[file], dice))
        try:
            for bundle in [*importer.open(home), *importer.open(file)]:
                _try_projection(tally, importer, bundle, list(importer.read(bundle)))
        except OSError:
            tally.unreadable += 1
        except CRASHES:
            tally.crash(f"{importer.origin}, file {number}, {file.name}")
        file.write_bytes(files[file])
    proof.note(f"{importer.origin}, files damaged", cases, "cases")
    proof.note(f"{importer.origin}, files that cannot be read", tally.unreadable, "cases")
    proof.at_most(f"{importer.origin}, crashes on files", tally.crashed, "cases", 0)


async def _take_imports(proof: Proof, server: str, name: str, bases: list[Base]) -> None:
    """Import batches of cases, some of them as later versions of what was imported before."""
    dice = random.Random(f"{proof.seed} {name} imports")
    batches, size = (2, 12) if proof.quick else (8, 60)
    failed = added = lost = faults = again = 0
    async with _database(server, name) as database:
        for batch in range(batches):
            staged, bundles = _staged(bases, batch, size, dice)
            done = await _bring(database, staged, bundles)
            failed += len(done.failed)
            added += done.turns_added
            lost += await _lost(database, staged)
            found = await fsck(database)
            for fault in found[:TOLD_MAX]:
                print(fault, file=sys.stderr)
            faults += len(found)
            again += await _added_again(database, staged, bundles)
    proof.note(f"{name}, imported", batches * size, "transcripts")
    proof.note(f"{name}, turns imported", added, "turns")
    proof.note(f"{name}, transcripts without turns, and told", failed, "transcripts")
    proof.at_most(f"{name}, records lost", lost, "records", 0)
    proof.at_most(f"{name}, faults", faults, "faults", 0)
    proof.at_most(f"{name}, added by importing again", again, "turns and sessions", 0)


def _staged(
    bases: list[Base], batch: int, size: int, dice: random.Random
) -> tuple[Staged, list[TranscriptRef]]:
    records: dict[str, list[RawRecord]] = {}
    ids: dict[str, str] = {}
    bundles: list[TranscriptRef] = []
    for number in range(size):
        _, bundle, read = dice.choice(bases)
        # The first few have been there before, and have changed since.
        id = f"{bundle.id}-{number}" if number < size // 3 else f"{bundle.id}-{batch}-{number}"
        ids[id], records[id] = bundle.id, mutated(read, dice)
        bundles.append(replace(bundle, id=id, stamp=f"{batch}"))
    return Staged(bases[0][0], records, ids), bundles


@asynccontextmanager
async def _database(server: str, name: str) -> AsyncGenerator[Database, None]:
    conninfo = await ensure_database(server, f"fuzz_{name.replace('-', '_')}")
    workspace = await prepare_database(conninfo, "proof", SystemClock().new_id())
    async with open_database(conninfo, workspace, sight=EVERYTHING) as database:
        yield database


async def _bring(database: Database, staged: Staged, bundles: Sequence[TranscriptRef]) -> Progress:
    return await importing_on(database, SystemClock()).run([(staged, one) for one in bundles])


async def _lost(database: Database, staged: Staged) -> int:
    """Return how many records are kept otherwise than they were read."""
    imports = ImportStore(database)
    cursors = {cursor.bundle: cursor for cursor in await imports.list_cursors(staged.origin)}
    lost = 0
    for id, told in staged.records.items():
        kept = await imports.read_records(cursors[id].blocks) if id in cursors else []
        wanted = [replace(record, data=redact(record.data)[0]) for record in told]
        lost += sum(a != b for a, b in zip(kept, wanted, strict=False))
        lost += abs(len(kept) - len(wanted))
    return lost


async def _added_again(database: Database, staged: Staged, bundles: Sequence[TranscriptRef]) -> int:
    """Import the same twice more, the second time as if all had changed."""
    same = await _bring(database, staged, bundles)
    touched = await _bring(database, staged, [replace(b, stamp="touched") for b in bundles])
    added = sum(done.turns_added + done.sessions_begun for done in (same, touched))
    return added + same.bundles_read


async def _take_long_line(proof: Proof, server: str, folder: Path) -> None:
    tape = Tape()
    tape.exchange("before")
    tape.prompt("long?", random.Random(proof.seed).randbytes(LONG_LINE_CHARS // 2).hex())
    tape.answer("long!", "msg_long", "That was long.")
    save(folder, tape)
    importer = load_importers()["claude-code"]
    bundles = list(importer.open(folder))
    async with _database(server, "long_line") as database:
        began = time.perf_counter()
        done = await importing_on(database, SystemClock()).run([(importer, b) for b in bundles])
        proof.note("a line of 250 MB", time.perf_counter() - began, "s")
        records = {bundle.id: list(importer.read(bundle)) for bundle in bundles}
        lost = await _lost(database, Staged(importer, records))
        proof.at_most("a line of 250 MB, records lost", lost, "records", 0)
        proof.at_least("a line of 250 MB, turns", done.turns_added, "turns", 2)
        proof.at_most("a line of 250 MB, faults", len(await fsck(database)), "faults", 0)


if __name__ == "__main__":
    run(prove, __doc__ or "")
