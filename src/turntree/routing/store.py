"""Evidence for a router, hidden sessions, and texts of programs that a principal may see."""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import orjson

from turntree.core.ids import Label, ProgramId, SessionId, TurnId, find_long_id
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.arrays import text_array
from turntree.db.database import Database, Row, as_uuid, as_uuids
from turntree.db.sql import load_statements
from turntree.routing.route import HoldingSession
from turntree.search.embedding import EmbeddableText, program_text
from turntree.search.query import Term
from turntree.search.results import Vector
from turntree.search.store import term_query

SQL = load_statements(__file__)

COMMON: Final = 3_000
"""A word that occurs in more turns than this is ignored: it identifies none of them."""
# A turn near the root of many forks is held by all of them.
HOLDERS_MAX: Final = 20


@value
class RoutingStore:
    """Proposes turns for a message, and knows which sessions are hidden."""

    database: Database
    common: int = COMMON

    async def list_by_any_word(
        self, terms: Sequence[Term], *, limit: int
    ) -> list[tuple[TurnId, dict[str, float]]]:
        """Return turns that contain any of the words, each with its words and their rarity.

        Turns with the most words come first. A very common word is ignored.
        """
        if not terms:
            return []
        said = [term.text for term in terms]
        found: dict[TurnId, dict[str, float]] = {}
        for turn, place, rarity in await self.database.fetch(
            SQL["route_words"],
            terms=[term_query(term) for term in terms],
            common=self.common,
            limit=limit,
        ):
            found.setdefault(TurnId(turn), {})[said[place - 1]] = rarity
        return list(found.items())

    async def list_likeness(
        self, embedder: str, vector: Vector, turns: Sequence[TurnId]
    ) -> dict[TurnId, float]:
        """Return the similarity of each turn to a vector, where the turn has an embedding."""
        if not turns:
            return {}
        rows = await self.database.fetch(
            SQL["route_similarity"],
            embedder=embedder,
            vector="{" + ",".join(map(str, vector)) + "}",
            turns=as_uuids(turns),
        )
        return {TurnId(turn): likeness for turn, likeness in rows}

    async def list_holders(
        self, turns: Sequence[TurnId], *, to: str
    ) -> dict[TurnId, list[HoldingSession]]:
        """Return the sessions that hold each turn, the one to continue first.

        Sessions hidden from the principal are included and marked, so that the caller can
        distinguish a turn that no session holds from a hidden one.
        """
        found: dict[TurnId, list[HoldingSession]] = {turn: [] for turn in turns}
        if not turns:
            return found
        rows = await self.database.fetch(
            SQL["route_holders"], turns=as_uuids(turns), by=to, limit=HOLDERS_MAX
        )
        for turn, session, label, head, is_active, is_closed in rows:
            held = HoldingSession(SessionId(session), Label(label), head, is_active, is_closed)
            found[TurnId(turn)].append(held)
        return found

    async def list_closed(self, sessions: Sequence[SessionId], *, to: str) -> set[SessionId]:
        """Return those of the sessions that a principal may not read."""
        rows = await self.database.fetch(
            SQL["list_hidden_sessions"], sessions=as_uuids(sessions), by=to
        )
        return {SessionId(id) for (id,) in rows}

    async def find_persona_session(
        self, persona: ProgramId, main: Label, own: Sequence[str], *, by: str
    ) -> tuple[SessionId | None, bool]:
        """Return the session in which a principal may talk to a persona, or None.

        That is its main session, or else the first of ``own`` that is private and theirs. The
        second value is whether the principal may begin the main session.
        """
        # As the system: a main session that is hidden from the principal exists nevertheless.
        row = await self.database.seen_by(EVERYTHING).fetch_one(
            SQL["find_persona_session"],
            persona=UUID(persona),
            main=main,
            names=text_array([main, *own]),
            by=by,
        )
        session, may_begin = row or (None, False)
        return None if session is None else SessionId(session), may_begin


@value
class ProgramTexts:
    """Programs as one principal sees them. Implements ``EmbeddingSource``."""

    database: Database
    by: str

    async def find(self, name: str) -> EmbeddableText | None:
        """Return the program with a name, ``@(name)`` or id."""
        plain = name.removeprefix("@(").removesuffix(")") if name.startswith("@(") else name
        id = find_long_id(plain)
        asked = {"ids": as_uuids([id]), "name": None} if id else {"ids": None, "name": plain}
        rows = await self._rows(**asked, after=None, limit=1)
        return _described(rows[0]) if rows else None

    async def list_by_ids(self, ids: Sequence[str]) -> list[EmbeddableText]:
        """Return those of the programs that the principal may see."""
        rows = await self._rows(ids=as_uuids(ids), name=None, after=None, limit=len(ids))
        return [_described(row) for row in rows]

    async def list_after(self, id: str, *, limit: int) -> list[EmbeddableText]:
        """Return all programs that the principal may see, page by page."""
        rows = await self._rows(ids=None, name=None, after=as_uuid(id or None), limit=limit)
        return [_described(row) for row in rows]

    async def _rows(self, **asked: object) -> list[Row]:
        return await self.database.fetch(SQL["list_described_programs"], by=self.by, **asked)


def _described(row: Row) -> EmbeddableText:
    id, kind, name, config = row
    return EmbeddableText(id, kind, name, program_text(kind, name, orjson.loads(bytes(config))))
