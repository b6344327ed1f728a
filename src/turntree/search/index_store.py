"""Fill the search indexes: documents and vectors, in batches, by COPY.

An index first processes the existing turns, newest first, and then follows the feed. Its progress
is committed with what it wrote, so an interrupted run continues where it stopped. PostgreSQL
rejects COPY under row-level security, so a batch goes through a temporary table and an ordinary
insert that the policies check.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg import AsyncConnection

from turntree.core.event import FeedPosition
from turntree.core.ids import TurnId
from turntree.core.value import value
from turntree.db.database import Database, Row, fetch, run, translated
from turntree.db.sql import load_statements
from turntree.search.document import RECIPE, SearchDocument
from turntree.search.results import WORDS, IndexBatch, Vector
from turntree.search.store import SearchStore

SQL = load_statements(__file__)

EVENTS_READ_MAX: Final = 5_000
NEWEST: Final = UUID(int=2**128 - 1)
"""Above every id."""


@value
class IndexStore:
    """Fills an index with what it lacks. Everything it writes can be rebuilt."""

    database: Database

    async def next_batch(
        self, index: str, *, limit: int, after: IndexBatch | None = None
    ) -> IndexBatch:
        """Return turns that an index lacks: existing ones first, then those of the feed.

        ``after`` is the batch before this one. A pass over existing turns goes on where it ended.
        """
        if after is not None and after.position is None:
            return await self.list_missing(index, limit=limit, after=after)
        row = await self.database.fetch_one(SQL["search_progress"], index=index)
        if row is None:
            return await self.list_missing(index, limit=limit)
        *position, horizon = row
        return await self._follow(index, FeedPosition(*position), horizon, limit)

    async def list_missing(
        self, index: str, *, limit: int, after: IndexBatch | None = None
    ) -> IndexBatch:
        """Return turns that an index lacks, regardless of the feed, after an earlier batch."""
        epoch, horizon = await self._horizon()
        if after is not None:
            # A turn that came after the pass began may be newer than where it has arrived. The
            # feed has it, from the position that the first batch of the pass saw.
            horizon = after.seen_from
        query = (
            SQL["search_missing_documents"] if index == WORDS else SQL["search_missing_embeddings"]
        )
        before = NEWEST if after is None or after.oldest is None else UUID(after.oldest)
        rows = await self.database.fetch(query, limit=limit, before=before, **_scope(index))
        is_last = len(rows) < limit
        # Everything committed before the horizon was visible to this pass.
        position = FeedPosition(epoch, horizon, -1) if is_last else None
        return await self._batch([id for (id,) in rows], horizon, position, is_last=is_last)

    async def _follow(
        self, index: str, after: FeedPosition, horizon: int, limit: int
    ) -> IndexBatch:
        events = await self.database.fetch(
            SQL["search_feed"],
            epoch=after.epoch,
            xid=str(after.transaction),
            n=after.n,
            limit=min(limit * 2, EVENTS_READ_MAX),
        )
        if not events:
            return IndexBatch((), horizon, None, is_last=True)
        touched = list(dict.fromkeys(turn for *_, turn, _ in events if turn is not None))
        query = (
            SQL["search_pending_documents"] if index == WORDS else SQL["search_pending_embeddings"]
        )
        rows = await self.database.fetch(query, turns=touched, **_scope(index)) if touched else []
        if any(gap_above for _, gap_above in rows):
            # An import stored many turns at once, and the journal names only the last.
            return await self.list_missing(index, limit=limit)
        settled = [FeedPosition(*place) for *place, _, is_settled in events if is_settled]
        position = settled[-1] if settled else after
        is_last = len(events) < min(limit * 2, EVENTS_READ_MAX) or position == after
        return await self._batch([id for id, _ in rows], horizon, position, is_last=is_last)

    async def _horizon(self) -> tuple[int, int]:
        row = await self.database.fetch_one(SQL["search_horizon"])
        assert row is not None, "the shard has one row"
        return row[0], row[1]

    async def _batch(
        self, ids: list[UUID], horizon: int, position: FeedPosition | None, *, is_last: bool
    ) -> IndexBatch:
        turns = [TurnId(str(id)) for id in ids]
        read = await SearchStore(self.database).read(turns) if turns else []
        return IndexBatch(tuple(read), horizon, position, is_last, turns[-1] if turns else None)

    async def put_documents(
        self, batch: IndexBatch, documents: Sequence[tuple[TurnId, SearchDocument]]
    ) -> None:
        """Write the documents of a batch and its progress, in one transaction."""
        rows = [(UUID(id), [*doc.lexemes, *doc.facets, *doc.marks], None) for id, doc in documents]
        await self._put(WORDS, SQL["search_unstage_documents"], batch, rows)

    async def put_meanings(
        self, batch: IndexBatch, embedder: str, vectors: Sequence[tuple[TurnId, Vector]]
    ) -> None:
        """Write the vectors of a batch and its progress, in one transaction."""
        rows = [(UUID(id), None, list(vector)) for id, vector in vectors]
        await self._put(embedder, SQL["search_unstage_embeddings"], batch, rows)

    async def _put(self, index: str, query: bytes, batch: IndexBatch, rows: Sequence[Row]) -> None:
        if not rows and batch.position is None:
            return
        scope: Mapping[str, Any] = {"workspace": self.database.workspace}
        async with self.database.connection() as connection, connection.transaction():
            await run(connection, SQL["search_lock"], scope)
            if rows:
                await run(connection, SQL["search_stage"])
                async with connection.cursor().copy(SQL["search_copy"]) as copy:
                    copy.set_types(["uuid", "text[]", "float4[]"])
                    for row in rows:
                        await copy.write_row(row)
                seen = {"seen_from": str(batch.seen_from)}
                await run(connection, query, {**scope, **seen, **_scope(index)})
            if (at := batch.position) is not None:
                position = {"epoch": at.epoch, "xid": str(at.transaction), "n": at.n}
                await run(
                    connection, SQL["search_save_progress"], {**scope, **position, "index": index}
                )

    async def prepare_meanings(self) -> bool:
        """Create the table of vectors if the database has pgvector; return whether it has."""
        ((exists,),) = await self.database.fetch(SQL["search_embeddings_exist"])
        if exists:
            return True
        # Only the schema's owner may change it, so no role is set here.
        try:
            async with await AsyncConnection[Row].connect(
                self.database.conninfo, autocommit=True
            ) as owner:
                ((created,),) = await fetch(owner, SQL["search_create_embeddings"])
        except psycopg.errors.InsufficientPrivilege:
            # This login may not create tables. An owner has to do it once; until then search works
            # by words.
            return False
        except psycopg.Error as error:
            raise translated(error) from error
        return bool(created)

    async def has_meanings(self, embedder: str) -> bool:
        """Return whether an embedder's index was ever filled."""
        ((exists,),) = await self.database.fetch(SQL["search_embeddings_exist"])
        if not exists:
            return False
        ((filled,),) = await self.database.fetch(SQL["search_has_embeddings"], embedder=embedder)
        return bool(filled)

    async def clear(self, index: str) -> None:
        """Empty an index."""
        async with self.database.connection() as connection, connection.transaction():
            scope = {"workspace": self.database.workspace}
            await run(connection, SQL["search_clear_progress"], {**scope, "index": index})
            if index == WORDS:
                await run(connection, SQL["search_clear_documents"], scope)
            else:
                await run(connection, SQL["search_clear_embeddings"], {**scope, "embedder": index})


def _scope(index: str) -> dict[str, Any]:
    return {"recipe": RECIPE} if index == WORDS else {"embedder": index}
