"""The ports of search: finding turns, and filling the indexes."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.ids import TurnId
from turntree.search.document import SearchDocument
from turntree.search.query import Query
from turntree.search.results import (
    FileUseRecord,
    HitSession,
    IndexBatch,
    SearchableTurn,
    Vector,
)

WORDS = "words"
"""The name of the word index; a semantic index has its embedder's id."""


class SearchReader(Protocol):
    """Proposes turns. It may propose too many; the caller reads and ranks them."""

    async def list_by_words(self, query: Query, *, limit: int) -> list[TurnId]:
        """Return turns that contain the words of a query, best first."""
        ...

    async def list_by_names(self, query: Query, *, limit: int) -> list[TurnId]:
        """Return turns by the operators of a query alone, newest first."""
        ...

    async def list_by_meaning(
        self, query: Query, embedder: str, vector: Vector, *, limit: int
    ) -> list[tuple[TurnId, float]]:
        """Return turns near a vector, nearest first, with their similarity, up to 1."""
        ...

    async def read(self, turns: Sequence[TurnId]) -> list[SearchableTurn]:
        """Return some turns, in their order, with the beginnings of their large parts."""
        ...

    async def list_holders(self, turns: Sequence[TurnId]) -> dict[TurnId, list[HitSession]]:
        """Return the sessions that ever contained each turn, those with it as their head first."""
        ...

    async def list_touches(self, path: str, *, limit: int) -> list[FileUseRecord]:
        """Return the uses of a file, newest turn first, by its path, its end, or a pattern."""
        ...

    async def sees_everything(self) -> bool:
        """Return whether no turn is hidden from this viewer."""
        ...


class SearchWriter(Protocol):
    """Fills an index with what it lacks. Everything it writes can be rebuilt."""

    async def next_batch(self, index: str, *, limit: int) -> IndexBatch:
        """Return turns that an index lacks: existing ones first, then those of the feed."""
        ...

    async def list_missing(self, index: str, *, limit: int) -> IndexBatch:
        """Return turns that an index lacks, regardless of the feed."""
        ...

    async def put_documents(
        self, batch: IndexBatch, documents: Sequence[tuple[TurnId, SearchDocument]]
    ) -> None:
        """Write the documents of a batch and its progress, in one transaction."""
        ...

    async def put_meanings(
        self, batch: IndexBatch, embedder: str, vectors: Sequence[tuple[TurnId, Vector]]
    ) -> None:
        """Write the vectors of a batch and its progress, in one transaction."""
        ...

    async def prepare_meanings(self) -> bool:
        """Create the table of vectors if the database has pgvector; return whether it has."""
        ...

    async def has_meanings(self, embedder: str) -> bool:
        """Return whether an embedder's index was ever filled."""
        ...

    async def clear(self, index: str) -> None:
        """Empty an index."""
        ...
