"""Ranks agents for a post with the vectors of an embedder; without one, by words alone."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from turntree.conversations.triage import (
    ANSWERED_MAX,
    REQUESTS,
    SMALL_TALK,
    TEXT_CHARS_MAX,
    RankResult,
    TriageCandidate,
    TriageVectors,
    parts_of_description,
    rank_agents,
)
from turntree.core.errors import TurntreeError
from turntree.search.embedder import Embedder, TextKind
from turntree.search.results import Vector

VECTORS_MAX: Final = 4_096
"""A description has about ten parts, and each of them costs a few milliseconds."""
_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class AgentRanker:
    """Ranks agents. Texts are compared with each other again and again, so vectors are kept."""

    find_embedder: Callable[[], Embedder | None]
    """Called when the first post is ranked: loading an embedder takes a second."""
    _known: dict[tuple[str, TextKind, str], Vector] = field(
        default_factory=dict[tuple[str, TextKind, str], Vector]
    )

    async def rank(self, text: str, candidates: Sequence[TriageCandidate]) -> RankResult:
        """Return the agents that a post concerns, best first."""
        cut = text[:TEXT_CHARS_MAX]
        vectors = None
        if (embedder := self.find_embedder()) is not None:
            try:
                vectors = await self._vectors(embedder, cut, candidates)
            except TurntreeError as error:
                # A post is decided by its words rather than not at all.
                _LOG.warning("no vectors for a decision: %s", error)
        return rank_agents(cut, candidates, vectors)

    async def _vectors(
        self, embedder: Embedder, text: str, candidates: Sequence[TriageCandidate]
    ) -> TriageVectors:
        async def embed(texts: Sequence[str], kind: TextKind) -> list[Vector]:
            return await self._embed(embedder, texts, kind)

        told = {one.agent: one.description[:TEXT_CHARS_MAX] for one in candidates}
        wholes = await embed([*told.values()], "document")
        (post,) = await embedder.embed([text], "query")
        return TriageVectors(
            post,
            dict(zip(told, wholes, strict=True)),
            {
                agent: await embed(parts_of_description(one) or [one], "document")
                for agent, one in told.items()
            },
            {
                one.agent: await embed(
                    [post[:TEXT_CHARS_MAX] for post in one.answered[:ANSWERED_MAX]], "query"
                )
                for one in candidates
            },
            await embed(SMALL_TALK, "query"),
            await embed(REQUESTS, "query"),
        )

    async def _embed(
        self, embedder: Embedder, texts: Sequence[str], kind: TextKind
    ) -> list[Vector]:
        keys: list[tuple[str, TextKind, str]] = [(embedder.id, kind, text) for text in texts]
        missing = [key for key in dict.fromkeys(keys) if key not in self._known]
        if missing:
            while self._known and len(self._known) + len(missing) > VECTORS_MAX:
                del self._known[next(iter(self._known))]
            found = await embedder.embed([text for _, _, text in missing], kind)
            self._known |= dict(zip(missing, found, strict=True))
        return [self._known[key] for key in keys]
