"""The claim: a machine's whole history comes home at the pace of PostgreSQL, and gets smaller.

A generated corpus is imported as ``turntree import`` does it and compared with a bare COPY of the
same lines in the same run. Then it is imported again, and what lies on the disk is counted, every
index included.
"""

import resource
import time
from pathlib import Path
from typing import Any

import psycopg

from proofs.corpus import Corpus
from proofs.figures import Proof, load_statements, run, temporary_server
from turntree.adapters.worlds.system import SystemWorld
from turntree.boot import importing_on, load_importers
from turntree.ports.importers import Bundle, Importer, Places
from turntree.runtime.imports import Progress
from turntree.store.database import Database, ensure_database, open_database, prepare_database
from turntree.store.fsck import fsck

STATEMENTS = load_statements(Path(__file__).with_name("import_speed.sql"))
MB = 1e6
READ_BYTES = 1 << 20


async def prove(proof: Proof) -> None:
    """Take every figure."""
    sessions, turns = (60, 50) if proof.quick else (2_000, 50)
    with temporary_server() as (server, folder):
        home = folder / "corpus"
        size = Corpus(proof.seed).write(home, sessions, turns)
        proof.note("corpus", size / MB, "MB")
        proof.note("corpus", sessions * turns, "turns")
        conninfo = await ensure_database(server, "proof_import")
        workspace = await prepare_database(conninfo, "proof", SystemWorld().new_id())
        found = _discover(home)
        async with open_database(conninfo, workspace) as database:
            bare = [await _copy_bare(conninfo, found)]
            before = _peak_mb()
            began = time.perf_counter()
            done = await _bring(database, found)
            first = time.perf_counter() - began
            bare.append(await _copy_bare(conninfo, found))
            proof.note("peak memory, before", before, "MB")
            proof.at_most("peak memory", _peak_mb(), "MB", 700)
            assert done.turns_added == sessions * turns, f"{done}"
            proof.note("import", size / MB / first, "MB/s")
            proof.note("bare COPY", size / MB / min(bare), "MB/s")
            proof.at_least("import to a bare COPY, speed", min(bare) / first, "x", 0.25)
            again = min([await _again(database, home) for _ in range(3)])
            proof.at_least("import again, faster", first / again, "x", 50)
            await _take_sizes(proof, conninfo, size)
            if proof.quick:
                assert await fsck(database) == [], "what was imported is sound"


def _discover(home: Path) -> list[tuple[Importer, Bundle]]:
    importer = load_importers()["claude-code"]
    return [(importer, bundle) for bundle in importer.discover(Places(home, {}))]


async def _bring(database: Database, found: list[tuple[Importer, Bundle]]) -> Progress:
    return await importing_on(database, SystemWorld()).run(found)


async def _again(database: Database, home: Path) -> float:
    began = time.perf_counter()
    done = await _bring(database, _discover(home))
    assert done.bundles_read == 0
    return time.perf_counter() - began


async def _copy_bare(conninfo: str, found: list[tuple[Importer, Bundle]]) -> float:
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
        rows = await (await connection.execute(STATEMENTS["sizes"])).fetchall()
    for name, size in rows:
        if size > source / 1000:
            proof.note(f"stored, {name}", size / source, "of the source")
    stored = sum(size for _, size in rows)
    proof.at_most("stored, every index included", stored / source, "of the source", 0.6)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    run(prove, __doc__ or "")
