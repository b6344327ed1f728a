"""The embeddings facet: embed any node with an address, and find similar ones.

Turns are read here; other nodes come from embedding sources, which also decide what the viewer may
see. An existing vector of the same text is not computed again.
"""

from collections.abc import Callable, Sequence
from typing import Final

from turntree.core.errors import InvalidOperation, InvalidQuery, InvalidRevision, NotFound
from turntree.core.ids import TurnId
from turntree.core.value import Facet, value
from turntree.ledger.revisions import RevisionResolver
from turntree.search.document import meaning_of
from turntree.search.embedder import Embedder
from turntree.search.embedding import (
    DESCRIPTION_CHARS_MAX,
    TURN,
    EmbeddableText,
    EmbeddingStats,
    EmbedResult,
    Neighbor,
    SimilarNode,
    text_digest,
)
from turntree.search.embedding_source import EmbeddingSource, StoredEmbedding
from turntree.search.embedding_store import EmbeddingStore
from turntree.search.results import IndexProgress, SearchableTurn, Vector
from turntree.search.service import Search

ALIKE_DEFAULT: Final = 10
ALIKE_MAX: Final = 200
HIDDEN_BESIDES: Final = 20
"""How many more candidates than results are read, because some may be hidden."""
PAGE: Final = 200


@value
class Embeddings(Facet):
    """``tree.meanings``: embeddings and similar nodes."""

    store: EmbeddingStore
    search: Search
    revisions: RevisionResolver
    describers: tuple[EmbeddingSource, ...] = ()

    async def embed(self, node: str, *, text: str | None = None) -> EmbedResult:
        """Embed one node: a turn by a revision, anything else by its name or id.

        ``text`` replaces its own text, until it is embedded without one.

        Raises:
            NotFound: It names nothing.
            InvalidOperation: There is no embedder, the node has no text, or the database has no
                pgvector.
        """
        embedder = await self._prepare()
        seen_from = await self.store.horizon()
        described = await self._get(node)
        own = described.kind == TURN and text is None
        chosen_text = (described.text if text is None else text).strip()[:DESCRIPTION_CHARS_MAX]
        if not chosen_text:
            raise InvalidOperation(f"{described.name or node} says nothing that could be embedded")
        digest = None if own else text_digest(chosen_text)
        stored = await self.store.list_digests(embedder.id, [described.id])
        if described.id in stored and stored[described.id] == digest:
            return EmbedResult(described, embedder.id, embedder.dims, is_new=False)
        (vector,) = await embedder.embed([chosen_text], "document")
        embedding = StoredEmbedding(described.id, described.kind, vector, digest)
        await self.store.put(embedder.id, [embedding], seen_from=seen_from)
        return EmbedResult(described, embedder.id, embedder.dims, is_new=True)

    async def similar_to_text(
        self,
        text: str,
        *,
        limit: int = ALIKE_DEFAULT,
        kinds: Sequence[str] = (),
        tags: Sequence[str] = (),
    ) -> list[SimilarNode]:
        """Return the nodes that are similar to a text, most similar first.

        Raises:
            InvalidQuery: The text is empty.
            InvalidOperation: There is no embedder.
        """
        if not text.strip():
            raise InvalidQuery("there is nothing to compare with: the text is empty")
        embedder = self._embedder()
        (vector,) = await embedder.embed([text.strip()[:DESCRIPTION_CHARS_MAX]], "query")
        return await self._alike(vector, limit, kinds, tags, None)

    async def similar_to(
        self,
        node: str,
        *,
        limit: int = ALIKE_DEFAULT,
        kinds: Sequence[str] = (),
        tags: Sequence[str] = (),
    ) -> list[SimilarNode]:
        """Return the nodes that are similar to a node, most similar first; embeds it if necessary.

        Raises:
            NotFound: It names nothing.
            InvalidOperation: There is no embedder, the node has no text, or the database has no
                pgvector.
        """
        embedder = self._embedder()
        described = await self._get(node)
        stored = await self.store.find(described.id, embedder.id)
        if stored is None:
            await self.embed(node)
            stored = await self.store.find(described.id, embedder.id)
        if stored is None:
            raise NotFound(f"{node} was erased meanwhile")
        return await self._alike(stored.vector, limit, kinds, tags, described.id)

    async def list_stats(self) -> list[EmbeddingStats]:
        """Return the number of vectors, by embedder and kind."""
        return await self.store.list_stats()

    async def fill(
        self,
        *,
        everything: bool = False,
        report: Callable[[IndexProgress], None] = lambda _: None,
    ) -> IndexProgress:
        """Embed every node without a vector of its current text, and return their number.

        May be stopped at any time: the next call continues.

        Raises:
            InvalidOperation: There is no embedder, or the database has no pgvector.
            Conflict: Another process is already embedding.
        """
        embedder = await self._prepare()
        async with self.search.filling():
            done = await self.search.embed_turns(everything=everything, report=report)
            for describer in self.describers:
                last = ""
                while page := await describer.list_after(last, limit=PAGE):
                    count = await self._embed_page(embedder, page)
                    done = IndexProgress(done.turns + count, is_behind=len(page) == PAGE)
                    report(done)
                    last = page[-1].id
        return done

    async def _embed_page(self, embedder: Embedder, page: Sequence[EmbeddableText]) -> int:
        seen_from = await self.store.horizon()
        stored = await self.store.list_digests(embedder.id, [node.id for node in page])
        texts = {node.id: node.text.strip()[:DESCRIPTION_CHARS_MAX] for node in page}
        stale = [
            node
            for node in page
            if texts[node.id] and stored.get(node.id) != text_digest(texts[node.id])
        ]
        if not stale:
            return 0
        vectors = await embedder.embed([texts[node.id] for node in stale], "document")
        embeddings = [
            StoredEmbedding(node.id, node.kind, vector, text_digest(texts[node.id]))
            for node, vector in zip(stale, vectors, strict=True)
        ]
        await self.store.put(embedder.id, embeddings, seen_from=seen_from)
        return len(embeddings)

    async def _alike(
        self,
        vector: Vector,
        limit: int,
        kinds: Sequence[str],
        tags: Sequence[str],
        without: str | None,
    ) -> list[SimilarNode]:
        count = min(max(limit, 1), ALIKE_MAX)
        near = await self.store.list_near(
            self._embedder().id,
            vector,
            limit=count + HIDDEN_BESIDES,
            kinds=kinds,
            tags=tags,
            without=without,
        )
        described = await self._describe(near)
        nodes = [
            SimilarNode(described[node.id], node.likeness) for node in near if node.id in described
        ]
        return nodes[:count]

    async def _describe(self, near: Sequence[Neighbor]) -> dict[str, EmbeddableText]:
        turns = [TurnId(node.id) for node in near if node.kind == TURN]
        read = await self.search.reader.read(turns) if turns else []
        described: dict[str, EmbeddableText] = {
            node.placed.turn.id: _described(node) for node in read
        }
        others = [node.id for node in near if node.kind != TURN]
        for describer in self.describers if others else ():
            described |= {node.id: node for node in await describer.list_by_ids(others)}
        return described

    async def _get(self, node: str) -> EmbeddableText:
        for describer in self.describers:
            if (description := await describer.find(node)) is not None:
                return description
        try:
            turn = (await self.revisions.resolve(node)).turn
        except InvalidRevision as error:
            raise NotFound(f"there is nothing called {node!r}") from error
        (read,) = await self.search.reader.read([turn])
        return _described(read)

    async def _prepare(self) -> Embedder:
        embedder = self._embedder()
        if not await self.search.writer.prepare_meanings():
            raise InvalidOperation("this database holds no vectors: install pgvector 0.8 or later")
        return embedder

    def _embedder(self) -> Embedder:
        if self.search.embedder is None:
            raise InvalidOperation(
                "no embedder is installed: `pip install 'turntree[semantic]'`, and its weights"
            )
        return self.search.embedder


def _described(read: SearchableTurn) -> EmbeddableText:
    turn = read.placed.turn
    return EmbeddableText(turn.id, TURN, turn.title, meaning_of(turn, read.lifted), turn.digest)
