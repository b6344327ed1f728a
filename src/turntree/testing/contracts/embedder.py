"""The contract of embedders, as tests that any implementation can run.

Inherit from the class in a test module and give it a fixture ``embedder``. The tests are
coroutines: mark the module for AnyIO.

    class TestMyEmbedder(EmbedderContract): ...

This module knows the interface. It must never know an implementation or a test runner.
"""

import math
from typing import Final

from turntree.search.embedder import Embedder

TEXTS: Final = (
    "the login page drops the query string",
    "",
    "the login page loses the query",
    "a recipe for bread with seeds",
    "日本語 \x00 \U0001f600 " + "word " * 2_000,
)
NEAR: Final = 1e-3


class EmbedderContract:
    """The promises of an ``Embedder``."""

    async def test_it_says_who_it_is(self, embedder: Embedder) -> None:
        assert embedder.id.strip() == embedder.id != ""
        assert embedder.dims > 0

    async def test_every_text_has_a_vector_of_length_one(self, embedder: Embedder) -> None:
        vectors = await embedder.embed(TEXTS, "document")
        assert [len(vector) for vector in vectors] == [embedder.dims] * len(TEXTS)
        for vector in vectors:
            assert math.isclose(math.sqrt(sum(x * x for x in vector)), 1.0, abs_tol=NEAR)

    async def test_no_texts_are_no_vectors(self, embedder: Embedder) -> None:
        assert await embedder.embed([], "document") == []

    async def test_the_same_text_means_the_same(self, embedder: Embedder) -> None:
        first = await embedder.embed([TEXTS[0]], "document")
        among = await embedder.embed([*reversed(TEXTS)], "document")
        assert _likeness(first[0], among[-1]) > 1 - NEAR

    async def test_texts_that_are_alike_lie_nearer(self, embedder: Embedder) -> None:
        query, _, alike, other, _ = await embedder.embed(TEXTS, "query")
        assert _likeness(query, alike) > _likeness(query, other)


def _likeness(left: tuple[float, ...], right: tuple[float, ...]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))
