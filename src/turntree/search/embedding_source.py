"""A vector with its node, and the port of sources that know the texts of nodes."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.ids import Digest
from turntree.core.value import value
from turntree.search.embedding import EmbeddableText
from turntree.search.results import Vector


@value
class StoredEmbedding:
    """A vector and its node."""

    id: str
    kind: str
    vector: Vector
    digest: Digest | None = None
    """Of the text, if that may change; None for a turn's own, which cannot."""


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
