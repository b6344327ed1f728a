"""What a router asks a store: what speaks for which turn, and who may read what."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.ids import Label, SessionId, TurnId
from turntree.core.value import value
from turntree.search.query import Term
from turntree.search.results import Vector


@value
class HoldingSession:
    """A session whose thread ever held a turn."""

    session: SessionId
    label: Label
    head: TurnId | None
    is_active: bool
    is_closed: bool
    """Whether whoever asked may not read it."""


class RouteReader(Protocol):
    """Proposes turns for a message, and knows who may read what."""

    async def list_by_any_word(
        self, terms: Sequence[Term], *, limit: int
    ) -> list[tuple[TurnId, dict[str, float]]]:
        """Return turns that hold any of some words, each with its words and how rare those are.

        Those that hold most come first. A word that stands in very many turns is passed over.
        """
        ...

    async def list_likeness(
        self, embedder: str, vector: Vector, turns: Sequence[TurnId]
    ) -> dict[TurnId, float]:
        """Return how alike each of some turns is to a vector, if it has one."""
        ...

    async def list_holders(
        self, turns: Sequence[TurnId], *, to: str
    ) -> dict[TurnId, list[HoldingSession]]:
        """Return the sessions that hold each turn, the one to continue in first.

        Those that are closed to a principal are among them, marked, so that whoever asks can tell
        a turn that nobody holds from one that may not be seen.
        """
        ...

    async def list_closed(self, sessions: Sequence[SessionId], *, to: str) -> set[SessionId]:
        """Return those of some sessions that a principal may not read."""
        ...
