"""The claim: a machine's whole history comes home at the pace of PostgreSQL, and gets smaller.

A generated corpus is imported as ``turntree import`` does it and compared with a bare COPY of the
same lines in the same run. Then it is imported again, its words are indexed, what lies on the disk
is counted, every index included, and half-sentences that somebody might remember are looked for.

The quick form imports a tenth as much, at once, so that both sides are under way. Only the size has
no bar there: of so little, the first pages of tables and indexes take up a good part of what is
stored.
"""

import math
import random
import resource
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg

from proofs.corpus import Corpus, remember
from proofs.figures import Proof, backend_ns, load_statements, run, temporary_server
from turntree.api import Tree
from turntree.boot.open import Settings, importing_on, load_importers, tree_on
from turntree.core.ids import WorkspaceId
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, ensure_database, open_database, prepare_database
from turntree.integrity.fsck import fsck
from turntree.search.embedder import Embedder, TextKind
from turntree.search.results import Vector
from turntree.search.service import Search
from turntree.system.clock import SystemClock
from turntree.transcripts.importer import Importer, ToolPaths, TranscriptRef
from turntree.transcripts.imports import Progress

STATEMENTS = load_statements(Path(__file__).with_name("import_speed.sql"))
MB = 1e6
ROUNDS, ROUNDS_QUICK = 3, 1
"""Each round starts the processes that read anew, which is a tenth of a short one."""
SEARCHES = 50
MEANINGS_MAX, MEANINGS_QUICK_MAX = 20_000, 1_000
"""How many turns get meanings: more take longer to index than all the rest."""
SEARCH_MS_MAX = 200
CHILDREN = resource.RUSAGE_CHILDREN


async def prove(proof: Proof) -> None:
    """Take every figure."""
    sessions, turns = (200, 50) if proof.quick else (2_000, 50)
    rounds = ROUNDS_QUICK if proof.quick else ROUNDS
    with temporary_server() as (server, folder):
        home = folder / "corpus"
        size = Corpus(proof.seed).write(home, sessions, turns)
        proof.note("corpus", size / MB, "MB")
        proof.note("corpus", sessions * turns, "turns")
        conninfo = await ensure_database(server, "proof_import")
        workspace = await prepare_database(conninfo, "proof", SystemClock().new_id())
        found = _discover(home)
        async with open_database(conninfo, workspace, sight=EVERYTHING) as database:
            before = _peak_mb()
            bare, first, added = await _compare(conninfo, database, found, rounds)
            proof.note("peak memory, before", before, "MB")
            proof.at_most("peak memory", _peak_mb(), "MB", 700)
            # A child inherits the peak of whoever started it, so this is no more than a limit.
            limit = _peak_mb(CHILDREN)
            proof.at_most("peak memory of a process that reads, at most", limit, "MB", 700)
            assert added == sessions * turns, f"{added}"
            proof.note("import", size / MB / first, "MB/s")
            proof.note("bare COPY", size / MB / bare, "MB/s")
            proof.at_least("import to a bare COPY, speed", bare / first, "x", 0.25, of="time")
            again = min([await _again(database, home) for _ in range(3)])
            proof.at_least("import again, faster", first / again, "x", 50, of="time")
            await _fill(proof, database, size)
            await _take_sizes(proof, conninfo, size)
            await _search_all(proof, conninfo, workspace, home)
            if proof.quick:
                assert await fsck(database) == [], "what was imported is sound"


async def _compare(
    conninfo: str, database: Database, found: list[tuple[Importer, TranscriptRef]], rounds: int
) -> tuple[float, float, int]:
    """Return how long a bare COPY and an import of everything take, and the turns it brought.

    In rounds that take turns: each copies a part before and after it is imported, and the mean of
    the two counts. An import is measured once, so the control may not choose the better of two
    tries: where a machine's speed swings by a third within seconds, that would measure the swing.
    """
    bare, first, added = 0.0, 0.0, 0
    for number in range(rounds):
        part = found[number::rounds]
        before = await _copy_bare(conninfo, part)
        began = time.perf_counter()
        added += (await _bring(database, part)).turns_added
        first += time.perf_counter() - began
        bare += (before + await _copy_bare(conninfo, part)) / 2
    return bare, first, added


def _discover(home: Path) -> list[tuple[Importer, TranscriptRef]]:
    importer = load_importers()["claude-code"]
    return [(importer, bundle) for bundle in importer.discover(ToolPaths(home, {}))]


async def _bring(database: Database, found: list[tuple[Importer, TranscriptRef]]) -> Progress:
    return await importing_on(database, SystemClock()).run(found)


async def _again(database: Database, home: Path) -> float:
    began = time.perf_counter()
    done = await _bring(database, _discover(home))
    assert done.bundles_read == 0
    return time.perf_counter() - began


async def _fill(proof: Proof, database: Database, size: int) -> None:
    began = time.perf_counter()
    await _tree(database).search.fill()
    proof.note("indexing the words", size / MB / (time.perf_counter() - began), "MB/s")


async def _search_all(proof: Proof, conninfo: str, workspace: WorkspaceId, home: Path) -> None:
    """Search by words, and by meanings too if there are weights to make them with."""
    # One connection, so that what it costs the server can be told.
    async with open_database(conninfo, workspace, connections_max=1, sight=EVERYTHING) as database:
        async with database.connection() as connection:
            server = connection.info.backend_pid
        search = _tree(database).search
        await _search(proof, search, home, "words", server)
        if search.embedder is None:
            return
        drawn = await _fill_meanings(proof, search, search.embedder)
        await _search(proof, drawn, home, "words and meanings", server)


async def _fill_meanings(proof: Proof, search: Search, embedder: Embedder) -> Search:
    drawn = replace(search, embedder=_Drawn(embedder, random.Random(proof.seed)))
    began = time.perf_counter()
    turns_max = MEANINGS_QUICK_MAX if proof.quick else MEANINGS_MAX
    filled = await drawn.fill_meanings(turns_max=turns_max)
    proof.note("turns with drawn meanings", filled.turns, "turns")
    proof.note("indexing drawn meanings", filled.turns / (time.perf_counter() - began), "turns/s")
    return drawn


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Asks like an installed embedder; what was said before gets meanings that are drawn.

    To compute them for 100,000 turns would take longer than all the rest, and a search takes as
    long among drawn ones: they lie far apart, which no index likes.
    """

    real: Embedder
    draw: random.Random

    @property
    def id(self) -> str:
        """What tells these vectors from true ones."""
        return f"drawn-{self.real.id}"

    @property
    def dims(self) -> int:
        """How many numbers a vector has."""
        return self.real.dims

    async def embed(self, texts: Sequence[str], kind: TextKind) -> list[Vector]:
        """Return the vector of a question, or one that means nothing."""
        if kind == "query":
            return await self.real.embed(texts, kind)
        drawn = ([self.draw.gauss(0, 1) for _ in range(self.dims)] for _ in texts)
        return [_unit(vector) for vector in drawn]


def _unit(vector: Sequence[float]) -> Vector:
    length = math.hypot(*vector)
    return tuple(number / length for number in vector)


async def _search(proof: Proof, search: Search, home: Path, by: str, server: int) -> None:
    took: list[float] = []
    worked: list[float] = []
    found = 0
    for words in remember(home, proof.seed, SEARCHES):
        before = time.process_time() * 1e9 + backend_ns(server)
        began = time.perf_counter()
        result = await search(words, semantic=by != "words")
        took.append((time.perf_counter() - began) * 1000)
        worked.append((time.process_time() * 1e9 + backend_ns(server) - before) / 1e6)
        found += bool(result.hits)
    proof.note(f"searches by {by} that found something", found / SEARCHES, "of all")
    proof.note(f"search by {by}, median", statistics.median(took), "ms")
    # On a machine that is busy with other things this is what a search would take alone, at most.
    busy, slow = (statistics.quantiles(each, n=20)[-1] for each in (worked, took))
    proof.note(f"search by {by}, 95th percentile of processor time", busy, "ms")
    proof.at_most(f"search by {by}, 95th percentile", slow, "ms", SEARCH_MS_MAX, of="time")


def _tree(database: Database) -> Tree:
    return tree_on(database, Settings.from_environment({}), SystemClock())


async def _copy_bare(conninfo: str, found: list[tuple[Importer, TranscriptRef]]) -> float:
    """Copy every line into a table of one column and return how long it took."""
    connection: psycopg.AsyncConnection[Any]
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
        await connection.execute(STATEMENTS["create_bare"])
        began = time.perf_counter()
        async with connection.cursor().copy(STATEMENTS["copy_bare"]) as copy:
            copy.set_types(["bytea"])
            for _, bundle in found:
                for line in bundle.files[0].read_bytes().splitlines():
                    await copy.write_row((line,))
        took = time.perf_counter() - began
        await connection.execute(STATEMENTS["drop_bare"])
    return took


async def _take_sizes(proof: Proof, conninfo: str, source: int) -> None:
    connection: psycopg.AsyncConnection[Any]
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as connection:
        await connection.execute(STATEMENTS["settle"])
        rows = await (await connection.execute(STATEMENTS["sizes"])).fetchall()
    for name, size in rows:
        if size > source / 1000:
            proof.note(f"stored, {name}", size / source, "of the source")
    stored = sum(size for _, size in rows) / source
    if proof.quick:
        proof.note("stored, every index included", stored, "of the source")
    else:
        proof.at_most("stored, every index included", stored, "of the source", 0.6)


def _peak_mb(whose: int = resource.RUSAGE_SELF) -> float:
    return resource.getrusage(whose).ru_maxrss / 1024


if __name__ == "__main__":
    run(prove, __doc__ or "")
