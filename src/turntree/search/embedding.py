"""What can be embedded, what lies near it, and how much of it there is. Values only.

Anything with an address and a text may have a vector: a turn, a program. Vectors of two embedders
are never compared, so every answer here is about one of them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

from turntree.core.canonical import Json, digest_bytes
from turntree.core.ids import Digest
from turntree.core.value import value

TURN: Final = "turn"
"""The kind of a turn; the kinds of programs are theirs to name."""
DESCRIPTION_CHARS_MAX: Final = 4_000
_TELLING: Final = ("description", "title", "system_prompt", "content")
_NO_WORDS: Final = re.compile(r"@\([^()]*\)|\$\{\w+\}")


@value
class EmbeddableText:
    """Something with an address, and the words that say what it is about."""

    id: str
    kind: str
    name: str
    """What people call it: a program's name, a turn's title."""
    text: str
    digest: Digest | None = None
    """What proves it, if it is a turn."""


@value
class Neighbor:
    """What an index found near a vector."""

    id: str
    kind: str
    likeness: float
    """The cosine of the angle between the two, up to 1."""


@value
class SimilarNode:
    """Something that means what was asked for, and how much so."""

    described: EmbeddableText
    likeness: float


@value
class EmbedResult:
    """What embedding one thing led to."""

    described: EmbeddableText
    embedder: str
    dims: int
    is_new: bool
    """False if its vector was there, of the very same text."""


@value
class EmbeddingStats:
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


def program_text(kind: str, name: str, config: Mapping[str, Json]) -> str:
    """Return the words that say what a program is about: its name, its description, the rest.

    References and secrets are names of other things, and say nothing of this one.
    """
    first = [config[member] for member in _TELLING if isinstance(config.get(member), str)]
    rest = [value for member, value in config.items() if member not in _TELLING]
    said = [text for part in (*first, *rest) for text in _strings(part)]
    plain = _NO_WORDS.sub(" ", "\n".join(said))
    return f"{kind} {name}\n{plain}".strip()[:DESCRIPTION_CHARS_MAX]


def _strings(value: Json) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _strings(inner)


def text_digest(text: str) -> Digest:
    """Return what tells one text from another, so that only a new one is embedded."""
    return digest_bytes(text.encode(errors="replace"))
