"""Finds threads that match a message: both indexes propose turns, ranked by thread.

Turns of threads that the sender may not read are dropped before ranking, so that neither a name nor
a score reveals them. Must never choose a route.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from turntree.core.ids import TurnId
from turntree.core.turn import Turn
from turntree.core.value import value
from turntree.routing.rank import Evidence, ScoredThread, rank, terms_of
from turntree.routing.route import Candidate, HoldingSession
from turntree.routing.store import RoutingStore
from turntree.search.query import Query, Term
from turntree.search.results import Vector
from turntree.search.service import Search

PROPOSED: Final = 200
"""Number of turns that each index proposes."""
PROPOSED_MAX: Final = 1_600
"""Limit of proposed turns, if many are hidden from the sender."""
TURNS_FIRST_MAX: Final = 2_000
"""Limit of turns that are added to the full-text index before it is queried."""


@value
class ThreadMatches:
    """The matching threads, best first, and the indexes that were used."""

    candidates: tuple[Candidate, ...]
    threads: int
    """Number of threads with any evidence."""
    by_words: bool
    by_meaning: bool


@value
class Matcher:
    """Finds the threads that match a text."""

    reader: RoutingStore
    search: Search

    async def match(
        self, text: str, *, sender: str, limit: int, by_words: bool = True, by_meaning: bool = True
    ) -> ThreadMatches:
        """Return the threads that match a text and that the sender may read.

        Either index can be switched off; embeddings are skipped if there are none.
        """
        await self.search.fill(turns_max=TURNS_FIRST_MAX)
        vector = await self._vector(text) if by_meaning else None
        terms = terms_of(text) if by_words else ()
        proposed = PROPOSED
        while True:
            evidence = await self._gather(terms, vector, proposed)
            holders = await self.reader.list_holders(list(evidence), to=sender)
            threads = {turn: _threads(turn, held) for turn, held in holders.items()}
            scored = rank(evidence.values(), threads)
            # Hidden threads may have taken the best places, so propose more.
            if len(scored) >= limit or len(evidence) < proposed or proposed >= PROPOSED_MAX:
                break
            proposed *= 2
        found = await self._candidates(scored[:limit], holders)
        return ThreadMatches(tuple(found), len(scored), bool(terms), vector is not None)

    async def _vector(self, text: str) -> Vector | None:
        embedder = self.search.embedder
        if embedder is None or not await self.search.writer.has_meanings(embedder.id):
            return None
        (vector,) = await embedder.embed([text], "query")
        return vector

    async def _gather(
        self, terms: Sequence[Term], vector: Vector | None, limit: int
    ) -> dict[TurnId, Evidence]:
        worded = dict(await self.reader.list_by_any_word(terms, limit=limit))
        alike: dict[TurnId, float] = {}
        if vector is not None and self.search.embedder is not None:
            id = self.search.embedder.id
            near = self.search.reader.list_by_meaning(Query(), id, vector, limit=limit)
            alike = dict(await near)
            others = [turn for turn in worded if turn not in alike]
            alike |= await self.reader.list_likeness(id, vector, others)
        return {
            turn: Evidence(turn, worded.get(turn, {}), alike.get(turn, 0.0))
            for turn in dict.fromkeys((*worded, *alike))
        }

    async def _candidates(
        self, scored: Sequence[ScoredThread], holders: Mapping[TurnId, Sequence[HoldingSession]]
    ) -> list[Candidate]:
        turns = list(dict.fromkeys(one.turn for one in scored))
        read = {one.placed.turn.id: one.placed.turn for one in await self.search.reader.read(turns)}
        return [_candidate(one, read[one.turn], holders[one.turn]) for one in scored]


def _candidate(one: ScoredThread, turn: Turn, holders: Sequence[HoldingSession]) -> Candidate:
    held = next((holder for holder in holders if holder.session == one.thread), None)
    return Candidate(
        turn.id,
        turn.digest,
        turn.title,
        None if held is None else held.session,
        None if held is None else held.label,
        turn.id if held is None or held.head is None else held.head,
        one.score,
        one.words,
        one.likeness,
        one.matched,
    )


def _threads(turn: TurnId, holders: Sequence[HoldingSession]) -> list[str]:
    """Return the threads of a turn: its active sessions, else itself; none if it is hidden."""
    open_ = [holder for holder in holders if not holder.is_closed]
    if holders and not open_:
        return []
    return [holder.session for holder in open_ if holder.is_active] or [turn]
