"""Vectors of anything that has an address, and who knows the texts they are made of."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.ids import Digest
from turntree.core.value import value
from turntree.search.embedding import EmbeddableText, EmbeddingStats, Neighbor
from turntree.search.results import Vector


@value
class StoredEmbedding:
    """A vector, and what it is of."""

    id: str
    kind: str
    vector: Vector
    digest: Digest | None = None
    """Of the text, where that may change; None for a turn's own, which cannot."""


class Embeddings(Protocol):
    """Keeps one vector for each thing and embedder. Everything it keeps can be made again."""

    async def horizon(self) -> int:
        """Return the oldest transaction still running: say it before reading what is embedded."""
        ...

    async def put(
        self, embedder: str, meanings: Sequence[StoredEmbedding], *, seen_from: int
    ) -> None:
        """Write vectors; one of a turn of which something was erased since is left out."""
        ...

    async def find(self, id: str, embedder: str) -> StoredEmbedding | None:
        """Return the vector of a thing, if it has one."""
        ...

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
        """Return what lies near a vector, nearest first.

        ``kinds`` keeps things of any of them, ``tags`` those that have all; none keep everything.
        """
        ...

    async def list_digests(self, embedder: str, ids: Sequence[str]) -> dict[str, Digest | None]:
        """Return which of some things have a vector, and of which text."""
        ...

    async def list_stats(self) -> list[EmbeddingStats]:
        """Return what each embedder has left, in order of their ids."""
        ...


class EmbeddingSource(Protocol):
    """Knows things that are no turns: what they are called, and the words that say what they are.

    It shows only what whoever asks may see; what it does not return is not shown as alike either.
    """

    async def find(self, name: str) -> EmbeddableText | None:
        """Return what a name, ``@(name)`` or an id stands for."""
        ...

    async def list_by_ids(self, ids: Sequence[str]) -> list[EmbeddableText]:
        """Return those of some things that it knows, in any order."""
        ...

    async def list_after(self, id: str, *, limit: int) -> list[EmbeddableText]:
        """Return everything it knows, page by page, in order of ids; begin with an empty one."""
        ...
