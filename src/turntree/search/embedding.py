"""Values of embeddings: what can be embedded, similar nodes, statistics.

Any node with an address and a text may have a vector: a turn, a program. Vectors of two embedders
are never compared, so every value here is about one of them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Final

from turntree.core.canonical import Json, digest_bytes
from turntree.core.ids import Digest
from turntree.core.value import value

TURN: Final = "turn"
"""The kind of a turn; programs have their own kinds."""
DESCRIPTION_CHARS_MAX: Final = 4_000
_TELLING: Final = ("description", "title", "system_prompt", "content")
_NO_WORDS: Final = re.compile(r"@\([^()]*\)|\$\{\w+\}")


@value
class EmbeddableText:
    """A node, and the text that describes it."""

    id: str
    kind: str
    name: str
    """Its display name: a program's name, a turn's title."""
    text: str
    digest: Digest | None = None
    """Its digest, if it is a turn."""


@value
class Neighbor:
    """A node that an index found near a vector."""

    id: str
    kind: str
    likeness: float
    """The cosine similarity of the two, up to 1."""


@value
class SimilarNode:
    """A similar node, and how similar it is."""

    described: EmbeddableText
    likeness: float


@value
class EmbedResult:
    """The result of embedding one node."""

    described: EmbeddableText
    embedder: str
    dims: int
    is_new: bool
    """False if the vector of the same text existed already."""


@value
class EmbeddingStats:
    """The number of vectors of an embedder."""

    embedder: str
    dims: int
    counts: Mapping[str, int] = field(default_factory=dict[str, int])
    """By the kind of node."""
    described: int = 0
    """Number of vectors of a custom text instead of the node's own."""
    turns_missing: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.counts.values())


def program_text(kind: str, name: str, config: Mapping[str, Json]) -> str:
    """Return the text that describes a program: its name, its description, other strings.

    References and secrets are names of other things, so they are left out.
    """
    first = [config[member] for member in _TELLING if isinstance(config.get(member), str)]
    rest = [value for member, value in config.items() if member not in _TELLING]
    texts = [text for part in (*first, *rest) for text in _strings(part)]
    plain = _NO_WORDS.sub(" ", "\n".join(texts))
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
    """Return the digest of a text, so that only a changed one is embedded."""
    return digest_bytes(text.encode(errors="replace"))
