"""The contract of embedders: turn texts into vectors, so that similar texts are close."""

from collections.abc import Sequence
from typing import Literal, Protocol

from turntree.search.results import Vector

TextKind = Literal["query", "document"]


class Embedder(Protocol):
    """An embedding model. Vectors of two models are never compared."""

    @property
    def id(self) -> str:
        """Identifies its vectors."""
        ...

    @property
    def dims(self) -> int:
        """Number of dimensions of each vector."""
        ...

    async def embed(self, texts: Sequence[str], kind: TextKind) -> list[Vector]:
        """Return the vector of each text, normalized, in their order.

        Raises:
            InvalidOperation: What it needs is not installed, or is not the expected version.
        """
        ...
