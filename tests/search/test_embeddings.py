"""What is like what: embedding things, and finding their likes."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from turntree.api import Tree
from turntree.boot.open import Settings, tree_on
from turntree.core.errors import Conflict, Hint, InvalidOperation, InvalidQuery, NotFound
from turntree.core.message import assistant, user
from turntree.db.database import Database
from turntree.search.embedder import TextKind
from turntree.search.embedding import EmbeddableText, SimilarNode
from turntree.testing.fakes import FakeClock
from turntree.testing.hashing_embedder import HashingEmbedder

pytestmark = pytest.mark.anyio

SYNONYMS = {"automobil": "car", "vehicl": "car"}


@dataclass(slots=True)
class Counting:
    """An embedder that counts the texts it was given."""

    inner: HashingEmbedder = field(default_factory=lambda: HashingEmbedder(synonyms=SYNONYMS))
    texts: list[str] = field(default_factory=list[str])

    @property
    def id(self) -> str:
        return self.inner.id

    @property
    def dims(self) -> int:
        return self.inner.dims

    async def embed(self, texts: Sequence[str], kind: TextKind) -> list[tuple[float, ...]]:
        self.texts += texts
        return await self.inner.embed(texts, kind)


@dataclass(slots=True)
class Shelf:
    """Knows a few things that are no turns."""

    things: dict[str, EmbeddableText]

    async def find(self, name: str) -> EmbeddableText | None:
        wanted = name.removeprefix("@(").removesuffix(")")
        return next((t for t in self.things.values() if wanted in (t.name, t.id)), None)

    async def list_by_ids(self, ids: Sequence[str]) -> list[EmbeddableText]:
        return [self.things[id] for id in ids if id in self.things]

    async def list_after(self, id: str, *, limit: int) -> list[EmbeddableText]:
        return [self.things[key] for key in sorted(self.things) if key > id][:limit]


@pytest.fixture
def embedder() -> Counting:
    return Counting()


@pytest.fixture
def tree(database: Database, world: FakeClock, place: Path, embedder: Counting) -> Tree:
    settings = Settings(place, user="ana", session="main")
    return tree_on(database, settings, world, embedder=embedder)


@pytest.fixture
def shelf(world: FakeClock) -> Shelf:
    things = [
        EmbeddableText(world.new_id(), "agent", "atlas", "drives the car to the garage"),
        EmbeddableText(world.new_id(), "task", "bake", "bake bread in the oven"),
    ]
    return Shelf({thing.id: thing for thing in things})


def with_shelf(tree: Tree, shelf: Shelf) -> Tree:
    return tree.with_facets(meanings=replace(tree.meanings, describers=(shelf,)))


def names(alike: Sequence[SimilarNode]) -> list[str]:
    return [one.described.name for one in alike]


async def record(tree: Tree, said: str, session: str = "main") -> str:
    return (await tree.turns.record(session, [user(said)], [assistant("done")])).turn.id


async def test_search_finds_turn_by_similarity(tree: Tree) -> None:
    await record(tree, "the car broke down")
    await record(tree, "bake some bread")
    assert (await tree.meanings.fill()).turns == 2
    first, second = await tree.meanings.similar_to_text("a broken automobile")
    assert first.described.name == "the car broke down"
    assert first.likeness > second.likeness
    assert first.described.digest is not None


async def test_similar_excludes_the_node_itself(tree: Tree) -> None:
    await record(tree, "the car broke down")
    await record(tree, "a vehicle of mine")
    await record(tree, "bake some bread")
    await tree.meanings.fill()
    assert names(await tree.meanings.similar_to("HEAD~2"))[0] == "a vehicle of mine"
    assert len(await tree.meanings.similar_to("HEAD~2", limit=1)) == 1


async def test_a_turn_is_embedded_once(tree: Tree, embedder: Counting) -> None:
    await record(tree, "the car broke down")
    assert (await tree.meanings.embed("main")).is_new
    again = await tree.meanings.embed("HEAD")
    assert (again.is_new, again.embedder, again.dims) == (False, embedder.id, 384)
    assert (await tree.meanings.fill()).turns == 0
    assert len(embedder.texts) == 1


async def test_concurrent_fill_raises_conflict(tree: Tree, embedder: Counting) -> None:
    await record(tree, "the car broke down")
    async with tree.search.filling():
        with pytest.raises(Conflict, match="another process is embedding") as refused:
            await tree.meanings.fill()
        assert refused.value.hint == Hint("index.status")
        with pytest.raises(Conflict):
            await tree.search.fill_meanings()
    assert embedder.texts == []
    assert (await tree.meanings.fill()).turns == 1


async def test_similar_embeds_missing_node_first(tree: Tree) -> None:
    await record(tree, "the car broke down")
    assert await tree.meanings.similar_to("main") == []
    assert [one.total for one in await tree.meanings.list_stats()] == [1]


async def test_custom_text_represents_turn_until_reembedded(tree: Tree) -> None:
    await record(tree, "it does not work")
    await tree.meanings.embed("main", text="the automobile")
    await tree.meanings.fill(everything=True)
    await tree.search.forget()
    await tree.search.fill_meanings(everything=True)
    (found,) = await tree.meanings.similar_to_text("car")
    assert found.likeness > 0.5
    (stats,) = await tree.meanings.list_stats()
    assert (stats.described, stats.turns_missing) == (1, 0)
    assert (await tree.meanings.embed("main")).is_new
    (found,) = await tree.meanings.similar_to_text("car")
    assert found.likeness < 0.5


async def test_programs_are_embedded_and_found_with_turns(
    tree: Tree, shelf: Shelf, embedder: Counting
) -> None:
    await record(tree, "the car broke down")
    tree = with_shelf(tree, shelf)
    assert (await tree.meanings.fill()).turns == 3
    found = await tree.meanings.similar_to_text("vehicle")
    assert {one.described.kind for one in found[:2]} == {"agent", "turn"}
    assert names(await tree.meanings.similar_to_text("car", kinds=["agent", "task"])) == [
        "atlas", "bake",
    ]  # fmt: skip
    assert names(await tree.meanings.similar_to("@(atlas)", kinds=["turn"])) == [
        "the car broke down"
    ]
    (stats,) = await tree.meanings.list_stats()
    assert stats.counts == {"agent": 1, "task": 1, "turn": 1}
    before = len(embedder.texts)
    assert (await tree.meanings.fill()).turns == 0
    assert len(embedder.texts) == before


async def test_only_changed_texts_are_embedded_again(tree: Tree, shelf: Shelf) -> None:
    tree = with_shelf(tree, shelf)
    await tree.meanings.fill()
    (bake,) = [thing for thing in shelf.things.values() if thing.name == "bake"]
    shelf.things[bake.id] = replace(bake, text="repair an automobile")
    assert (await tree.meanings.fill()).turns == 1
    assert "bake" in names(await tree.meanings.similar_to_text("car repair", limit=1))


async def test_similar_excludes_hidden_nodes(tree: Tree, shelf: Shelf) -> None:
    tree = with_shelf(tree, shelf)
    await tree.meanings.fill()
    (atlas,) = [thing for thing in shelf.things.values() if thing.name == "atlas"]
    del shelf.things[atlas.id]
    assert names(await tree.meanings.similar_to_text("car")) == ["bake"]


async def test_similar_filters_by_tag(tree: Tree) -> None:
    for said, tags in (("car one", ["x"]), ("car two", ["x", "y"]), ("car three", [])):
        turn = await record(tree, said)
        for tag in tags:
            await tree.turns.tag(turn, tag)
    await tree.meanings.fill()
    found = await tree.meanings.similar_to_text("car", tags=["x"])
    assert sorted(names(found)) == ["car one", "car two"]
    assert names(await tree.meanings.similar_to_text("car", tags=["x", "y"])) == ["car two"]
    assert await tree.meanings.similar_to_text("car", tags=["z"]) == []


async def test_vectors_of_two_embedders_are_never_compared(tree: Tree) -> None:
    await record(tree, "the car broke down")
    await tree.meanings.fill()
    search = replace(tree.search, embedder=HashingEmbedder(768))
    other = replace(tree.meanings, search=search)
    assert await other.similar_to_text("car") == []
    assert (await other.fill()).turns == 1
    assert [(one.embedder, one.dims) for one in await other.list_stats()] == [
        ("hashing-384", 384), ("hashing-768", 768),
    ]  # fmt: skip
    assert len(await other.similar_to_text("car")) == 1


async def test_erased_turn_is_not_similar_to_anything(tree: Tree) -> None:
    turn = await record(tree, "the secret car")
    await tree.meanings.embed(turn, text="the secret car")
    await tree.turns.erase(turn, 0, reason="asked")
    assert await tree.meanings.similar_to_text("secret car") == []


async def test_embeddings_impossible_queries_are_refused(tree: Tree) -> None:
    with pytest.raises(NotFound):
        await tree.meanings.embed("nowhere")
    with pytest.raises(NotFound):
        await tree.meanings.similar_to("no such thing")
    with pytest.raises(InvalidQuery):
        await tree.meanings.similar_to_text(" ")
    without = replace(tree.meanings, search=replace(tree.search, embedder=None))
    with pytest.raises(InvalidOperation, match="no embedder"):
        await without.similar_to_text("car")
    assert await tree.meanings.list_stats() == []


async def test_program_embedding_uses_its_own_text(
    tree: Tree, database: Database, world: FakeClock, place: Path, embedder: Counting
) -> None:
    await tree.programs.create("agent", "atlas", {"description": "repairs an automobile"})
    await tree.programs.create("agent", "zoe", {"description": "bakes bread"}, visibility="private")
    assert (await tree.meanings.fill()).turns == 2
    assert names(await tree.meanings.similar_to_text("car repair", kinds=["agent"])) == [
        "atlas", "zoe",
    ]  # fmt: skip
    stranger = tree_on(database, Settings(place, user="mallory"), world, embedder=embedder)
    assert names(await stranger.meanings.similar_to_text("bread")) == ["atlas"]
    with pytest.raises(NotFound):
        await stranger.meanings.similar_to("@(zoe)")
    assert names(await tree.meanings.similar_to("@(atlas)")) == ["zoe"]
    await tree.programs.configure("zoe", {"description": "drives a vehicle"})
    assert (await tree.meanings.fill()).turns == 1
    assert names(await tree.meanings.similar_to_text("car", limit=1)) == ["zoe"]
