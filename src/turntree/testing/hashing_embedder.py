"""A fast, small, deterministic embedder, for tests of code that uses one.

A text's vector is the sum of a direction per lexeme, so texts that share words are close. It
understands nothing; it can be given a few synonyms.
"""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from turntree.core.value import value
from turntree.search.embedder import TextKind
from turntree.search.results import Vector
from turntree.search.tokenizer import lexemes_of

DIMS_DEFAULT: Final = 384
_SIGNS_A_DIGEST: Final = 256


@value
class HashingEmbedder:
    """Derives directions from the digests of words. See ``search.embedder``."""

    dims: int = DIMS_DEFAULT
    synonyms: Mapping[str, str] = field(default_factory=dict[str, str])
    """Synonyms: lexemes that map to another lexeme."""

    @property
    def id(self) -> str:
        """Identifies its vectors."""
        return f"hashing-{self.dims}"

    async def embed(self, texts: Sequence[str], kind: TextKind) -> list[Vector]:
        """Return the vector of each text."""
        del kind
        return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> Vector:
        sums = [0] * self.dims
        # The empty word gives a text without words a direction too.
        for lexeme in lexemes_of(text) if any(lexemes_of(text)) else ("",):
            for place, sign in enumerate(self._signs(self.synonyms.get(lexeme, lexeme))):
                sums[place] += sign
        length = math.sqrt(sum(number * number for number in sums)) or 1.0
        return tuple(number / length for number in sums)

    def _signs(self, lexeme: str) -> list[int]:
        signs: list[int] = []
        for block in range(math.ceil(self.dims / _SIGNS_A_DIGEST)):
            digest = hashlib.sha256(f"{block}:{lexeme}".encode()).digest()
            bits = int.from_bytes(digest, "big")
            signs += [1 if bits >> place & 1 else -1 for place in range(_SIGNS_A_DIGEST)]
        return signs[: self.dims]
