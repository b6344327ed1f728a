"""The claim: what means something like a text is found in an instant, however much is embedded.

A workspace is filled with programs and a vector for each (``proofs.vectors`` says how those lie),
through COPY and one build of the index, for what is measured is asking and not filling. Then texts
are compared with them the way ``turntree search --like --text`` does it: the text is embedded by
the model on this machine, if its weights are there, the index is asked, and each result described.
The vector that is asked for is drawn from the same cloud, so that the nearest ten are known by
comparing all. Bars: an answer costs little more than embedding the same text and asking pgvector
itself, and all of ours beside the model at most QUERY_RATIO_MAX bare queries, in the same run and
in turns; 95 of 100 of the nearest ten are found, also among a fifth of the rows. How long an answer
takes is shown: that depends on the machine. Adding one vector must cost no more than twice what it
costs in a tenth of the size. ``just prove similarity`` fills in 1,000,000 vectors; ``--quick``
40,000, of which a fifth is still more than is ever compared one by one.
"""

import statistics
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import psycopg

from proofs import figures
from proofs.figures import DURABLE, Proof, interleave, measure, median_cpu
from proofs.vectors import DIMS, Cloud, Matrix
from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.viewer import EVERYTHING
from turntree.db.database import ensure_database, open_database, prepare_database
from turntree.search.embedder import Embedder, TextKind
from turntree.search.embedders.minilm import find_minilm
from turntree.search.embedding_source import StoredEmbedding
from turntree.search.embedding_store import PROPOSED
from turntree.search.results import Vector
from turntree.system.clock import SystemClock

STATEMENTS = figures.load_statements(Path(__file__).with_name("similarity.sql"))
ID = "drawn"
KINDS = (b"task", b"code")
RARE = 5
"""Every fifth is of the second kind."""
NEAREST = 10
ROWS_A_COPY = 50_000
RATIO_MAX = 1.3
QUERY_RATIO_MAX = 2
RECALL_MIN = 0.95
INSERT_RATIO_MAX = 2
_BEGINNING = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_ROW = np.dtype(
    [
        ("fields", ">i2"), ("n1", ">i4"), ("workspace", "V16"), ("n2", ">i4"), ("id", "V16"),
        ("n3", ">i4"), ("embedder", f"S{len(ID)}"), ("n4", ">i4"), ("kind", "S4"),
        ("n5", ">i4"), ("dims", ">i2"), ("unused", ">i2"), ("vector", ">f2", (DIMS,)),
    ]
)  # fmt: skip


@dataclass(slots=True)
class Drawn:
    """Embeds a text at the price of the real model, and returns what was drawn for it."""

    real: Embedder | None
    vectors: dict[str, Vector] = field(default_factory=dict[str, Vector])
    id: str = ID
    dims: int = DIMS

    async def embed(self, texts: Sequence[str], kind: TextKind) -> list[Vector]:
        """Return what was drawn."""
        if self.real is not None:
            await self.real.embed(texts, kind)
        return [self.vectors[text] for text in texts]


@dataclass(frozen=True, slots=True)
class Filled:
    """A workspace with vectors, and all of them here too, to be compared one by one."""

    tree: Tree
    cloud: Cloud
    embedder: Drawn
    ids: list[str]
    vectors: Matrix
    rare: Matrix
    """Which of them are of the rarer kind."""
    pid: int
    """The backend of its only connection."""
    bare: psycopg.AsyncConnection[Any]
    """A connection that nothing of ours stands before."""
    workspace: UUID


async def prove(proof: Proof) -> None:
    """Fill a small and a large workspace and take every figure."""
    count = 40_000 if proof.quick else 1_000_000
    settings = {**DURABLE, "shared_buffers": "512MB" if proof.quick else "2GB"}
    with figures.temporary_server(settings) as (server, folder):
        async with (
            filled(proof, server, folder, count // 10) as small,
            filled(proof, server, folder, count) as large,
        ):
            proof.note("vectors", count, "vectors")
            await _ask(proof, large)
            await _insert(proof, small, large)


@asynccontextmanager
async def filled(
    proof: Proof, server: str, folder: Path, count: int
) -> AsyncGenerator[Filled, None]:
    """Lend a workspace with so many vectors."""
    conninfo = await ensure_database(server, f"proof_similarity_{count}")
    workspace = await prepare_database(conninfo, "proof", SystemClock().new_id())
    cloud = Cloud(proof.seed, count)
    start = time.perf_counter()
    async with await psycopg.AsyncConnection[Any].connect(conninfo, autocommit=True) as owner:
        ids, vectors = await _load(owner, UUID(workspace), cloud, count)
        size = await (await owner.execute(STATEMENTS["bytes"])).fetchone()
    assert size is not None
    proof.note(f"time to fill in {count:,}", time.perf_counter() - start, "s")
    proof.note(f"index of {count:,}", size[0] / count, "bytes a vector")
    proof.note(f"everything kept of {count:,}", size[1] / count, "bytes a vector")
    embedder = Drawn(find_minilm())
    async with open_database(conninfo, workspace, connections_max=1, sight=EVERYTHING) as database:
        tree = tree_on(database, Settings(folder, user="ana"), SystemClock(), embedder=embedder)
        async with database.connection() as lent:
            pid = lent.info.backend_pid
        rare = np.arange(count) % RARE == 0
        async with await psycopg.AsyncConnection[Any].connect(conninfo, autocommit=True) as bare:
            bare.prepare_threshold = 0
            await bare.execute(STATEMENTS["search_alike"], {"proposed": PROPOSED})
            yield Filled(tree, cloud, embedder, ids, vectors, rare, pid, bare, UUID(workspace))


async def _load(
    owner: psycopg.AsyncConnection[Any], workspace: UUID, cloud: Cloud, count: int
) -> tuple[list[str], Matrix]:
    scope = {"workspace": workspace}
    (made,) = await (await owner.execute(STATEMENTS["index_text"])).fetchall()
    await owner.execute(STATEMENTS["drop_index"])
    vectors = np.concatenate(
        [cloud.draw(min(ROWS_A_COPY, count)) for _ in range(-(-count // ROWS_A_COPY))]
    )
    ids = np.random.default_rng(cloud.seed).bytes(16 * count)
    async with owner.cursor().copy(STATEMENTS["copy_vectors"]) as copy:
        await copy.write(_BEGINNING)
        for first in range(0, count, ROWS_A_COPY):
            await copy.write(_rows(workspace, ids, vectors, first, min(first + ROWS_A_COPY, count)))
        await copy.write(b"\xff\xff")
    await owner.execute(STATEMENTS["build_quickly"])
    await owner.execute(made[0])
    await owner.execute(STATEMENTS["keep_config"], scope)
    await owner.execute(STATEMENTS["make_programs"], scope)
    await owner.execute(STATEMENTS["make_versions"], scope)
    await owner.execute(STATEMENTS["analyze"])
    return [str(UUID(bytes=ids[at : at + 16])) for at in range(0, 16 * count, 16)], vectors


def _rows(workspace: UUID, ids: bytes, vectors: Matrix, first: int, last: int) -> bytes:
    """Return rows as COPY reads them: number by number in Python they would take all day."""
    rows = np.zeros(last - first, _ROW)
    rows["fields"] = 5
    rows["n1"] = rows["n2"] = 16
    rows["n3"], rows["n4"], rows["n5"] = len(ID), 4, 4 + 2 * DIMS
    rows["workspace"] = np.void(workspace.bytes)
    rows["id"] = np.frombuffer(ids[16 * first : 16 * last], "V16")
    rows["embedder"] = ID.encode()
    rows["kind"] = np.where(np.arange(first, last) % RARE == 0, KINDS[1], KINDS[0])
    rows["dims"] = DIMS
    rows["vector"] = vectors[first:last]
    return rows.tobytes()


async def _ask(proof: Proof, large: Filled) -> None:
    times = 100 if proof.quick else 500
    queries = large.cloud.draw(times)
    texts = [f"what was it about the login page, number {place}" for place in range(times)]
    rows = zip(texts, queries.tolist(), strict=True)
    large.embedder.vectors.update({text: tuple(row) for text, row in rows})
    proof.note("a text is embedded by a real model", float(large.embedder.real is not None), "")
    for told, kinds in (("", []), (" among a fifth", [KINDS[1].decode()])):
        exact = _nearest(large, queries, only_rare=bool(kinds))
        for text in texts[:20]:
            await large.tree.meanings.similar_to_text(text, kinds=kinds)
        spent, shares = [], []
        for text, wanted in zip(texts, exact, strict=True):
            start = time.perf_counter()
            found = await large.tree.meanings.similar_to_text(text, limit=NEAREST, kinds=kinds)
            spent.append((time.perf_counter() - start) * 1000)
            shares.append(len({one.described.id for one in found} & wanted) / NEAREST)
        proof.note(f"similar to a text{told}, median", statistics.median(spent), "ms")
        p95 = statistics.quantiles(spent, n=20)[-1]
        proof.note(f"similar to a text{told}, 95 of 100", p95, "ms")
        rounds = 10 if proof.quick else 40
        ours, floor = await _compare(large, texts, kinds, rounds)
        # On a busy machine this is what an answer costs; the rest is waiting for others.
        proof.note(f"similar to a text{told}, processors' time", ours / 1000, "ms")
        proof.note(f"bare pgvector query{told}, processors' time", floor / 1000, "ms")
        figure = f"similar to a text{told} to the bare query, CPU"
        proof.at_most(figure, ours / floor, "x", RATIO_MAX, of="time")
        # The model is most of both sides. Without it, only what we add to pgvector is left.
        model, large.embedder.real = large.embedder.real, None
        ours, floor = await _compare(large, texts, kinds, rounds)
        large.embedder.real = model
        figure = f"similar to a vector{told} to the bare query, CPU"
        proof.at_most(figure, ours / floor, "x", QUERY_RATIO_MAX, of="time")
        recall = statistics.mean(shares)
        proof.at_least(f"nearest {NEAREST} found{told}", recall, "of them", RECALL_MIN)


async def _compare(
    large: Filled, texts: Sequence[str], kinds: list[str], rounds: int
) -> tuple[float, float]:
    """Return what an answer costs, and what the same text and query cost without us."""
    ours, theirs = cycle(texts), cycle(texts)
    asked = {"workspace": large.workspace, "embedder": ID, "limit": NEAREST, "kinds": kinds or None}

    async def ask() -> None:
        assert len(await large.tree.meanings.similar_to_text(next(ours), kinds=kinds)) == NEAREST

    async def ask_bare() -> None:
        (vector,) = await large.embedder.embed([next(theirs)], "query")
        found = await large.bare.execute(
            STATEMENTS["bare_near"], {**asked, "vector": list(vector)}, binary=True
        )
        assert len(await found.fetchall()) == NEAREST

    # Both sides ask for the same texts, and each is measured beside the other.
    costs = await interleave(
        rounds,
        [
            lambda: measure(large.pid, 5, ask),
            lambda: measure(large.bare.info.backend_pid, 5, ask_bare),
        ],
    )
    answer, query = (median_cpu(one) for one in costs)
    return answer, query


def _nearest(large: Filled, queries: Matrix, *, only_rare: bool) -> list[set[str]]:
    """Return the ids of the nearest, by comparing all."""
    kept = np.flatnonzero(large.rare) if only_rare else np.arange(len(large.ids))
    best: list[set[str]] = []
    for first in range(0, len(queries), 50):
        likeness = queries[first : first + 50] @ large.vectors[kept].T
        top = np.argpartition(-likeness, NEAREST, axis=1)[:, :NEAREST]
        best += [{large.ids[kept[place]] for place in row} for row in top]
    return best


async def _insert(proof: Proof, small: Filled, large: Filled) -> None:
    rounds, times = (5, 20) if proof.quick else (9, 50)

    async def put(into: Filled) -> None:
        vector = tuple(into.cloud.draw(1)[0].tolist())
        meaning = StoredEmbedding(SystemClock().new_id(), "task", vector)
        store = into.tree.meanings.store
        await store.put(ID, [meaning], seen_from=await store.horizon())

    costs = await interleave(
        rounds,
        [
            lambda: measure(small.pid, times, lambda: put(small)),
            lambda: measure(large.pid, times, lambda: put(large)),
        ],
    )
    cheap, dear = (median_cpu(one) for one in costs)
    proof.note("adding one vector, a tenth of the size", cheap / 1000, "ms")
    proof.note("adding one vector", dear / 1000, "ms")
    proof.at_most(
        "adding one vector, large by small", dear / cheap, "x", INSERT_RATIO_MAX, of="time"
    )


if __name__ == "__main__":
    figures.run(prove, str(__doc__))
