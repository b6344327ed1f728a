"""Every embedder keeps the contract; the one that understands is tried on what it should."""

from functools import cache
from pathlib import Path

import pytest

from turntree.core.errors import InvalidOperation
from turntree.search.embedders.minilm import DIGESTS, MiniLm, find_minilm
from turntree.testing.contracts.embedder import EmbedderContract
from turntree.testing.hashing_embedder import HashingEmbedder

pytestmark = pytest.mark.anyio

needs_weights = pytest.mark.skipif(find_minilm() is None, reason="the weights are not installed")


@cache
def loaded() -> MiniLm:
    """The weights are read once for all tests."""
    found = find_minilm()
    assert found is not None
    return found


class TestHashing(EmbedderContract):
    @pytest.fixture(params=[8, 384, pytest.param(1000, marks=pytest.mark.slow)])
    def embedder(self, request: pytest.FixtureRequest) -> HashingEmbedder:
        return HashingEmbedder(request.param)


@needs_weights
@pytest.mark.slow
class TestMiniLm(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> MiniLm:
        return loaded()

    async def test_embedder_ranks_paraphrase_without_shared_words(self, embedder: MiniLm) -> None:
        texts = ["the car would not start", "my automobile engine refuses to run", "bake the bread"]
        query, alike, other = await embedder.embed(texts, "query")
        near = sum(a * b for a, b in zip(query, alike, strict=True))
        far = sum(a * b for a, b in zip(query, other, strict=True))
        assert near > 0.4
        assert far < 0.2


@needs_weights
async def test_weights_that_are_not_the_published_ones_are_refused(tmp_path: Path) -> None:
    for name in DIGESTS:
        (tmp_path / name).write_bytes(b"something else")
    with pytest.raises(InvalidOperation, match="sha256"):
        await MiniLm(tmp_path).embed(["hello"], "query")


async def test_missing_weights_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidOperation, match="is missing"):
        await MiniLm(tmp_path).embed(["hello"], "query")
