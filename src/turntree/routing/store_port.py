"""The queries of a router: evidence for turns, and which sessions a principal may read."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.ids import Label, SessionId, TurnId
from turntree.core.value import value
from turntree.search.query import Term
from turntree.search.results import Vector


@value
class HoldingSession:
    """A session whose thread holds or once held a turn."""

    session: SessionId
    label: Label
    head: TurnId | None
    is_active: bool
    is_closed: bool
    """Whether it is hidden from the principal that asked."""


class RouteReader(Protocol):
    """Proposes turns for a message, and knows which sessions are hidden."""

    async def list_by_any_word(
        self, terms: Sequence[Term], *, limit: int
    ) -> list[tuple[TurnId, dict[str, float]]]:
        """Return turns that contain any of the words, each with its words and their rarity.

        Turns with the most words come first. A very common word is ignored.
        """
        ...

    async def list_likeness(
        self, embedder: str, vector: Vector, turns: Sequence[TurnId]
    ) -> dict[TurnId, float]:
        """Return the similarity of each turn to a vector, where the turn has an embedding."""
        ...

    async def list_holders(
        self, turns: Sequence[TurnId], *, to: str
    ) -> dict[TurnId, list[HoldingSession]]:
        """Return the sessions that hold each turn, the one to continue first.

        Sessions hidden from the principal are included and marked, so that the caller can
        distinguish a turn that no session holds from a hidden one.
        """
        ...

    async def list_closed(self, sessions: Sequence[SessionId], *, to: str) -> set[SessionId]:
        """Return those of the sessions that a principal may not read."""
        ...
