"""Something that turns texts into vectors, so that what means the same lies near."""

from collections.abc import Sequence
from typing import Literal, Protocol

from turntree.search.results import Vector

TextKind = Literal["query", "document"]


class Embedder(Protocol):
    """A model of meanings. Vectors of two of them are never compared."""

    @property
    def id(self) -> str:
        """What tells its vectors from those of all others."""
        ...

    @property
    def dims(self) -> int:
        """How many numbers each vector has."""
        ...

    async def embed(self, texts: Sequence[str], kind: TextKind) -> list[Vector]:
        """Return the vector of each text, of length one, in their order.

        Raises:
            Refused: What it needs is not installed, or is not what it should be.
        """
        ...
