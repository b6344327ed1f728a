"""The search facet: indexes propose turns by words and by meaning, and the texts decide.

An index proposes more turns than are shown. These are read, ranked by ``rank`` and merged with
those of semantic search by reciprocal rank, so the two kinds of scores need not be comparable.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

import anyio
from anyio.lowlevel import checkpoint

from turntree.core.clock import Clock
from turntree.core.errors import Conflict, Hint, InvalidOperation, InvalidQuery, first_of
from turntree.core.ids import TurnId
from turntree.core.thread import ThreadTurn
from turntree.core.value import Facet, value
from turntree.search.document import document_of, meaning_of, passages_of
from turntree.search.embedder import Embedder
from turntree.search.index_store import IndexStore
from turntree.search.query import Query, parse_query
from turntree.search.rank import SNIPPET_CHARS, Judge, MatchScore, merge, near_enough
from turntree.search.results import (
    WORDS,
    FileUseRecord,
    IndexProgress,
    SearchableTurn,
    SearchHit,
    SearchPlaces,
    SearchResult,
    SnapshotChange,
    Vector,
)
from turntree.search.store import SearchStore, WordMatches

HITS_DEFAULT: Final = 20
HITS_MAX: Final = 200
PLACES_MAX: Final = 20_000
"""How many hits a picture of the tree can show."""
PROPOSED_BESIDES: Final = 20
"""How many more turns than results an index proposes: reading them costs most of a search."""
TURNS_A_BATCH: Final = 250
"""With their large parts, all in memory."""
TURNS_EMBEDDED_A_BATCH: Final = 32
"""Each batch is committed: what was embedded before Ctrl-C stays."""
TURNS_AT_SEARCH_MAX: Final = 2_000
"""How many turns a search adds to the word index before it answers with what there is."""


@value
class Blame:
    """A turn that used a file, and how."""

    placed: ThreadTurn
    touches: tuple[FileUseRecord, ...]
    """Uses that its messages report."""
    sessions: tuple[str, ...]
    changes: tuple[SnapshotChange, ...] = ()
    """Changes that its snapshots show."""


@value
class Search(Facet):
    """``tree.search``: find turns by what people remember of them."""

    reader: SearchStore
    writer: IndexStore
    world: Clock
    embedder: Embedder | None = None

    async def __call__(
        self,
        query: str,
        *,
        limit: int = HITS_DEFAULT,
        semantic: bool | None = None,
        snippet_chars: int = SNIPPET_CHARS,
    ) -> SearchResult:
        """Return the turns that a query finds, best first; see the search grammar.

        ``semantic`` turns semantic search on or off; None uses it if there is an index.

        Raises:
            InvalidQuery: It cannot be parsed, or is empty.
            InvalidOperation: Semantic search was requested and is not available.
        """
        parsed = parse_query(query, self.world.now())
        count = min(max(limit, 1), HITS_MAX)
        # Stop words alone have no lexemes, but they have a meaning.
        by_meaning = bool(parsed.said) and await self._compares_meanings(asked=semantic)
        if not (by_meaning or parsed.has_words or _has_names(parsed)):
            raise InvalidQuery("nothing to search for: the query has only stop words")
        # What was said a minute ago is what people look for most, so a search first indexes the
        # newest turns. It is bounded: after a large import the search answers now and says that it
        # is behind.
        done = await self.fill(turns_max=TURNS_AT_SEARCH_MAX)
        # More than are shown, because ranking sees the texts and may exclude some.
        proposed = count + PROPOSED_BESIDES
        if by_meaning:
            words, near = await self._propose_both(parsed, proposed)
        else:
            words, near = await self._propose(parsed, proposed, by_meaning=False), []
        judge = Judge(parsed, words.rarity if words.turns else None)
        hits = await self._judge(judge, words.turns, near, count, snippet_chars)
        return SearchResult(parsed, tuple(hits), by_meaning, done.is_behind)

    async def places(self, query: str) -> SearchPlaces:
        """Return the positions of all turns that a query finds by words, without reading any.

        Raises:
            InvalidQuery: It cannot be parsed, or is empty.
        """
        parsed = parse_query(query, self.world.now())
        if not (parsed.has_words or _has_names(parsed)):
            return SearchPlaces((), is_complete=True)
        done = await self.fill(turns_max=TURNS_AT_SEARCH_MAX)
        places = await self.reader.list_places(parsed, limit=PLACES_MAX)
        return SearchPlaces(
            tuple(places), is_complete=len(places) < PLACES_MAX and not done.is_behind
        )

    async def _propose(self, query: Query, limit: int, *, by_meaning: bool) -> WordMatches:
        if query.has_words:
            return await self.reader.list_by_words(query, limit=limit)
        # The query has only stop words, which semantic search understands.
        named = [] if by_meaning else await self.reader.list_by_names(query, limit=limit)
        return WordMatches(named, {})

    async def _propose_both(self, query: Query, limit: int) -> tuple[WordMatches, list[TurnId]]:
        """Return turns by words and by meaning; the query is embedded while words are searched.

        Embedding is work for this process, and searching words is work for the database.
        """
        embedder = self.embedder
        assert embedder is not None, "it was asked whether there is one"
        words = WordMatches([], {})
        vectors: list[Vector] = []

        async def read_question() -> None:
            vectors.extend(await embedder.embed([query.said], "query"))

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(read_question)
                words = await self._propose(query, limit, by_meaning=True)
        except BaseExceptionGroup as errors:
            raise first_of(errors) from errors
        (vector,) = vectors
        near = await self.reader.list_by_meaning(query, embedder.id, vector, limit=limit)
        return words, near_enough(near)

    async def _compares_meanings(self, *, asked: bool | None) -> bool:
        if asked is False:
            return False
        if self.embedder is not None and await self.writer.has_meanings(self.embedder.id):
            return True
        if asked is None:
            return False
        if self.embedder is None:
            raise InvalidOperation(
                "no embedder is installed: `pip install 'turntree[semantic]'`, and its weights"
            )
        raise InvalidOperation("no embeddings are indexed yet", hint=Hint("index.embed"))

    async def _judge(
        self,
        judge: Judge,
        words: list[TurnId],
        near: list[TurnId],
        limit: int,
        snippet_chars: int,
    ) -> list[SearchHit]:
        read = await self.reader.read(list(dict.fromkeys((*words, *near))))
        judged: dict[TurnId, tuple[SearchableTurn, MatchScore]] = {}
        weights = judge.weights
        for item in read:
            # A hundred texts take tens of milliseconds, for which other requests to a server should
            # not wait; and a search that is no longer wanted ends here.
            await checkpoint()
            passages = list(passages_of(item.placed.turn, item.lifted, weights))
            match = judge.judge(passages, snippet_chars)
            if match is not None:
                judged[item.placed.turn.id] = item, match
        turns = [turn for turn in words if turn in judged]
        # Of equal turns the newest comes first: a later id is a later turn.
        by_words = sorted(turns, key=lambda turn: (judged[turn][1].score, turn), reverse=True)
        by_meaning = [turn for turn in near if turn in judged]
        # Two scores of different kinds cannot be added; ``merge`` uses only the two orders.
        order = merge(by_words, by_meaning)[:limit] if judge.query.said else by_words[:limit]
        holders = await self.reader.list_holders(order) if order else {}
        return [
            SearchHit(
                judged[turn][0].placed,
                judged[turn][1].matched,
                turn in by_meaning,
                judged[turn][1].snippet,
                tuple(holders[turn]),
            )
            for turn in order
        ]

    async def fill(
        self,
        *,
        everything: bool = False,
        turns_max: int | None = None,
        report: Callable[[IndexProgress], None] = lambda _: None,
    ) -> IndexProgress:
        """Add missing turns to the word index, and return the progress.

        The feed says which they are; ``everything`` compares all turns with the index instead.
        """
        done = IndexProgress()
        next_batch = self.writer.list_missing if everything else self.writer.next_batch
        batch = None
        while turns_max is None or done.turns < turns_max:
            batch = await next_batch(WORDS, limit=TURNS_A_BATCH, after=batch)
            documents = [
                (item.placed.turn.id, document_of(item.placed.turn, item.lifted))
                for item in batch.turns
            ]
            # Documents and progress in one transaction: a crash repeats a batch and skips none.
            await self.writer.put_documents(batch, documents)
            done = IndexProgress(done.turns + len(documents), is_behind=not batch.is_last)
            report(done)
            if batch.is_last:
                break
        return done

    async def fill_meanings(
        self,
        *,
        everything: bool = False,
        turns_max: int | None = None,
        report: Callable[[IndexProgress], None] = lambda _: None,
    ) -> IndexProgress:
        """Add missing turns to the semantic index, and return the progress.

        The feed says which they are; ``everything`` compares all turns with the index instead.

        Raises:
            InvalidOperation: There is no embedder, or the database has no pgvector.
            Conflict: Another process is already embedding.
        """
        async with self.filling():
            return await self.embed_turns(everything=everything, turns_max=turns_max, report=report)

    @asynccontextmanager
    async def filling(self) -> AsyncGenerator[None, None]:
        """Hold the embedding lock: two processes would do the same work twice.

        Raises:
            Conflict: Another process holds it.
        """
        async with self.writer.database.holding("meanings") as is_held:
            if not is_held:
                raise Conflict("another process is embedding", hint=Hint("index.status"))
            yield

    async def embed_turns(
        self,
        *,
        everything: bool = False,
        turns_max: int | None = None,
        report: Callable[[IndexProgress], None] = lambda _: None,
    ) -> IndexProgress:
        """Do the work of ``fill_meanings``; the caller holds ``filling``.

        Raises:
            InvalidOperation: There is no embedder, or the database has no pgvector.
        """
        if self.embedder is None:
            raise InvalidOperation(
                "no embedder is installed: `pip install 'turntree[semantic]'`, and its weights"
            )
        if not await self.writer.prepare_meanings():
            raise InvalidOperation("this database holds no vectors: install pgvector 0.8 or later")
        done = IndexProgress()
        next_batch = self.writer.list_missing if everything else self.writer.next_batch
        batch = None
        while turns_max is None or done.turns < turns_max:
            batch = await next_batch(self.embedder.id, limit=TURNS_EMBEDDED_A_BATCH, after=batch)
            texts = [meaning_of(item.placed.turn, item.lifted) for item in batch.turns]
            # "Commit it and open a pull request": a repeated text is embedded once per batch.
            unique = list(dict.fromkeys(texts))
            computed = await self.embedder.embed(unique, "document") if unique else []
            vector_of = dict(zip(unique, computed, strict=True))
            ids = [item.placed.turn.id for item in batch.turns]
            vectors = [(id, vector_of[text]) for id, text in zip(ids, texts, strict=True)]
            await self.writer.put_meanings(batch, self.embedder.id, vectors)
            done = IndexProgress(done.turns + len(ids), is_behind=not batch.is_last)
            report(done)
            if batch.is_last:
                break
        return done

    async def forget(self) -> None:
        """Clear the indexes, so that the next fill rebuilds everything."""
        await self.writer.clear(WORDS)
        if self.embedder is not None and await self.writer.has_meanings(self.embedder.id):
            await self.writer.clear(self.embedder.id)

    async def blame(
        self, path: str, *, limit: int = 100, changes: Sequence[SnapshotChange] = ()
    ) -> list[Blame]:
        """Return the turns that used a file, newest first.

        ``path`` is a path, the end of one, or a pattern with ``*``. ``changes`` are those that turn
        snapshots show for the same file, whether or not a message mentions them.

        Raises:
            InvalidQuery: The path is empty.
        """
        pattern = path.strip().removeprefix("./")
        if not pattern:
            raise InvalidQuery("the path is empty", hint=Hint("file.blame"))
        by_turn: dict[TurnId, list[FileUseRecord]] = {}
        for touch in await self.reader.list_touches(pattern, limit=limit):
            by_turn.setdefault(touch.turn, []).append(touch)
        shown: dict[TurnId, list[SnapshotChange]] = {}
        for change in changes:
            shown.setdefault(change.turn, []).append(change)
        turns = sorted({*by_turn, *shown}, reverse=True)[:limit]
        holders = await self.reader.list_holders(turns) if turns else {}
        return [
            Blame(
                item.placed,
                tuple(by_turn.get(item.placed.turn.id, ())),
                tuple(holder.label for holder in holders[item.placed.turn.id]),
                tuple(shown.get(item.placed.turn.id, ())),
            )
            for item in await self.reader.read(turns)
        ]


def _has_names(query: Query) -> bool:
    times = query.after is not None or query.before is not None or query.failed is not None
    return times or query.archived or bool(query.names or query.without_names)
