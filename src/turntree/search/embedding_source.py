"""The port of embeddings, and of the sources that know a node's text."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.ids import Digest
from turntree.core.value import value
from turntree.search.embedding import EmbeddableText, EmbeddingStats, Neighbor
from turntree.search.results import Vector


@value
class StoredEmbedding:
    """A vector and its node."""

    id: str
    kind: str
    vector: Vector
    digest: Digest | None = None
    """Of the text, if that may change; None for a turn's own, which cannot."""


class Embeddings(Protocol):
    """Stores one vector per node and embedder. Everything in it can be rebuilt."""

    async def horizon(self) -> int:
        """Return the oldest running transaction; call this before reading what is embedded."""
        ...

    async def put(
        self, embedder: str, meanings: Sequence[StoredEmbedding], *, seen_from: int
    ) -> None:
        """Write vectors; a turn that was partly erased since is left out."""
        ...

    async def find(self, id: str, embedder: str) -> StoredEmbedding | None:
        """Return the vector of a node, or None."""
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
        """Return the nodes near a vector, nearest first.

        ``kinds`` keeps nodes of any of them, ``tags`` those that have all; empty, all nodes.
        """
        ...

    async def list_digests(self, embedder: str, ids: Sequence[str]) -> dict[str, Digest | None]:
        """Return which of some nodes have a vector, and the digest of its text."""
        ...

    async def list_stats(self) -> list[EmbeddingStats]:
        """Return the statistics of each embedder, in id order."""
        ...


class EmbeddingSource(Protocol):
    """Knows nodes that are not turns: their names and the texts that describe them.

    It returns only nodes that the viewer may see; others are not reported as similar either.
    """

    async def find(self, name: str) -> EmbeddableText | None:
        """Return the node of a name, ``@(name)`` or an id, or None."""
        ...

    async def list_by_ids(self, ids: Sequence[str]) -> list[EmbeddableText]:
        """Return those of some nodes that it knows, in any order."""
        ...

    async def list_after(self, id: str, *, limit: int) -> list[EmbeddableText]:
        """Return all its nodes, page by page, in id order; start with an empty id."""
        ...
