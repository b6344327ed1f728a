"""What can be embedded, what lies near it, and how much of it there is. Values only.

Anything with an address and a text may have a vector: a turn, a program. Vectors of two embedders
are never compared, so every answer here is about one of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from turntree.domain.canonical import digest_bytes
from turntree.domain.ids import Digest

TURN: Final = "turn"
"""The kind of a turn; the kinds of programs are theirs to name."""
DESCRIPTION_CHARS_MAX: Final = 4_000


@dataclass(frozen=True, slots=True)
class Described:
    """Something with an address, and the words that say what it is about."""

    id: str
    kind: str
    name: str
    """What people call it: a program's name, a turn's title."""
    text: str
    digest: Digest | None = None
    """What proves it, if it is a turn."""


@dataclass(frozen=True, slots=True)
class Near:
    """What an index found near a vector."""

    id: str
    kind: str
    likeness: float
    """The cosine of the angle between the two, up to 1."""


@dataclass(frozen=True, slots=True)
class Alike:
    """Something that means what was asked for, and how much so."""

    described: Described
    likeness: float


@dataclass(frozen=True, slots=True)
class Embedded:
    """What embedding one thing led to."""

    described: Described
    embedder: str
    dims: int
    is_new: bool
    """False if its vector was there, of the very same text."""


@dataclass(frozen=True, slots=True)
class MeaningStats:
    """How many vectors an embedder has left."""

    embedder: str
    dims: int
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    """By the kind of what they are of."""
    described: int = 0
    """How many of them are of words that somebody gave instead of the thing's own."""
    turns_missing: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.counts.values())


def text_digest(text: str) -> Digest:
    """Return what tells one text from another, so that only a new one is embedded."""
    return digest_bytes(text.encode(errors="replace"))
