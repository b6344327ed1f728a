"""Finding turns, and filling what finds them."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.ids import TurnId
from turntree.search.document import SearchDocument
from turntree.search.query import Query
from turntree.search.results import (
    FileUseRecord,
    HoldingSession,
    IndexBatch,
    SearchableTurn,
    Vector,
)

WORDS = "words"
"""The name of the index of words; an index of meanings has its embedder's id."""


class SearchReader(Protocol):
    """Proposes turns. It may propose one too many; whoever asks reads them and judges."""

    async def list_by_words(self, query: Query, *, limit: int) -> list[TurnId]:
        """Return turns that hold the words of a query, best first."""
        ...

    async def list_by_names(self, query: Query, *, limit: int) -> list[TurnId]:
        """Return turns by the operators of a query alone, newest first."""
        ...

    async def list_by_meaning(
        self, query: Query, embedder: str, vector: Vector, *, limit: int
    ) -> list[tuple[TurnId, float]]:
        """Return turns that lie near a vector, nearest first, with how alike they are, up to 1."""
        ...

    async def read(self, turns: Sequence[TurnId]) -> list[SearchableTurn]:
        """Return some turns, in their order, with the beginnings of their large parts."""
        ...

    async def list_holders(self, turns: Sequence[TurnId]) -> dict[TurnId, list[HoldingSession]]:
        """Return the sessions that ever held each turn, those that stand at it first."""
        ...

    async def list_touches(self, path: str, *, limit: int) -> list[FileUseRecord]:
        """Return who used a file, newest turn first: by its path, the end of it, or a pattern."""
        ...

    async def sees_everything(self) -> bool:
        """Say whether no turn is hidden from this viewer."""
        ...


class SearchWriter(Protocol):
    """Fills an index with what it lacks. Everything it writes can be made again."""

    async def next_batch(self, index: str, *, limit: int) -> IndexBatch:
        """Return turns that an index lacks: older ones first gone through, then the feed."""
        ...

    async def list_missing(self, index: str, *, limit: int) -> IndexBatch:
        """Return turns that an index lacks, whatever the feed says of them."""
        ...

    async def put_documents(
        self, batch: IndexBatch, documents: Sequence[tuple[TurnId, SearchDocument]]
    ) -> None:
        """Write the documents of a batch and how far it led; both, or neither."""
        ...

    async def put_meanings(
        self, batch: IndexBatch, embedder: str, vectors: Sequence[tuple[TurnId, Vector]]
    ) -> None:
        """Write the vectors of a batch and how far it led; both, or neither."""
        ...

    async def prepare_meanings(self) -> bool:
        """Make room for vectors if the database can hold them; says whether it can."""
        ...

    async def has_meanings(self, embedder: str) -> bool:
        """Say whether an embedder's index was ever filled."""
        ...

    async def clear(self, index: str) -> None:
        """Empty an index."""
        ...
