"""Store embeddings in PostgreSQL with pgvector.

Without pgvector, searches return nothing and nothing can be stored.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from turntree.core.canonical import digest_from_raw, digest_raw
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Digest
from turntree.core.value import value
from turntree.db.database import Database, as_uuid, as_uuids
from turntree.db.sql import load_statements
from turntree.search.embedding import TURN, EmbeddingStats, Neighbor
from turntree.search.embedding_source import StoredEmbedding
from turntree.search.index_store import SQL as INDEX_SQL
from turntree.search.results import Vector

SQL = load_statements(__file__)

EXACT_MAX: Final = 5_000
"""Up to this many vectors are compared exactly, without the index."""
PROPOSED: Final = 260
"""Candidates the index keeps during a search: the more, the fewer of the nearest it misses."""
PROPOSED_A_RESULT: Final = 4
PROPOSED_MAX: Final = 1_000
"""The maximum that the index accepts."""


@value
class EmbeddingStore:
    """Stores one vector per node and embedder. Everything in it can be rebuilt."""

    database: Database
    exact_max: int = EXACT_MAX

    async def horizon(self) -> int:
        """Return the oldest running transaction; call this before reading what is embedded."""
        row = await self.database.fetch_one(INDEX_SQL["search_horizon"])
        assert row is not None, "the shard has one row"
        return int(row[1])

    async def put(
        self, embedder: str, meanings: Sequence[StoredEmbedding], *, seen_from: int
    ) -> None:
        """Write vectors; a turn that was partly erased since is left out.

        Raises:
            InvalidOperation: The database has no pgvector.
        """
        if not await self._holds_vectors():
            raise InvalidOperation("this database holds no vectors: install pgvector 0.8 or later")
        digests = [
            None if meaning.digest is None else digest_raw(meaning.digest) for meaning in meanings
        ]
        await self.database.run(
            SQL["put_embeddings"],
            embedder=embedder,
            ids=as_uuids([meaning.id for meaning in meanings]),
            vectors=[_numbers(meaning.vector) for meaning in meanings],
            kinds=[meaning.kind for meaning in meanings],
            digests=digests,
            seen_from=str(seen_from),
        )

    async def find(self, id: str, embedder: str) -> StoredEmbedding | None:
        """Return the vector of a node, or None."""
        if not await self._holds_vectors():
            return None
        row = await self.database.fetch_one(SQL["find_embedding"], id=UUID(id), embedder=embedder)
        if row is None:
            return None
        kind, vector, digest = row
        return StoredEmbedding(id, kind, tuple(vector), _digest(digest))

    async def list_near(
        self,
        embedder: str,
        vector: Vector,
        *,
        limit: int,
        kinds: Sequence[str] = (),
        tags: Sequence[str] = (),
        without: str | None = None,
    ) -> list[Neighbor]:
        """Return the nodes near a vector, nearest first.

        ``kinds`` keeps nodes of any of them, ``tags`` those that have all; empty, all nodes.
        """
        if not await self._holds_vectors():
            return []
        rows = await self.database.fetch(
            SQL["list_nearest"],
            embedder=embedder,
            vector=_numbers(vector),
            kinds=list(kinds) or None,
            tags=list(tags) or None,
            without=as_uuid(without),
            exact_max=self.exact_max,
            proposed=min(max(PROPOSED, limit * PROPOSED_A_RESULT), PROPOSED_MAX),
            limit=limit,
        )
        return [Neighbor(*row) for row in rows]

    async def list_digests(self, embedder: str, ids: Sequence[str]) -> dict[str, Digest | None]:
        """Return which of some nodes have a vector, and the digest of its text."""
        if not ids or not await self._holds_vectors():
            return {}
        rows = await self.database.fetch(
            SQL["list_embedding_digests"], embedder=embedder, ids=as_uuids(ids)
        )
        return {id: _digest(digest) for id, digest in rows}

    async def list_stats(self) -> list[EmbeddingStats]:
        """Return the statistics of each embedder, in id order."""
        if not await self._holds_vectors():
            return []
        stats: dict[str, EmbeddingStats] = {}
        for embedder, kind, vectors, described, dims, turns in await self.database.fetch(
            SQL["embedding_stats"]
        ):
            known = stats.get(embedder) or EmbeddingStats(embedder, dims, turns_missing=turns)
            stats[embedder] = EmbeddingStats(
                embedder,
                dims,
                {**known.counts, kind: vectors},
                known.described + described,
                turns - vectors if kind == TURN else known.turns_missing,
            )
        return list(stats.values())

    async def _holds_vectors(self) -> bool:
        ((exists,),) = await self.database.fetch(INDEX_SQL["search_embeddings_exist"])
        return bool(exists)


def _numbers(vector: Vector) -> str:
    """Return a vector as the text of an array, which is faster than number by number."""
    return "{" + ",".join(map(str, vector)) + "}"


def _digest(raw: bytes | None) -> Digest | None:
    return None if raw is None else digest_from_raw(bytes(raw))
