"""Protocol for the ledger as a graph: the edges of a node, and common questions about them."""

from typing import Protocol

from turntree.core.ids import RunId, SessionId, Timestamp, TurnId
from turntree.ledger.graph.edge import (
    Edge,
    HistoryEvent,
    LineageStep,
    PolicyChange,
    RecordedMove,
    ResourceHolding,
    SessionOrigin,
    ToolCallLink,
)


class Edges(Protocol):
    """The ledger as a graph. It only reads."""

    async def list_from(self, node: str) -> list[Edge]:
        """Return the edges that leave a node, by its id."""
        ...

    async def list_to(self, node: str) -> list[Edge]:
        """Return the edges that arrive at a node, by its id."""
        ...

    async def list_history(self, run: RunId | TurnId | SessionId) -> list[HistoryEvent]:
        """Return the events of a run, a turn or a session, in order."""
        ...

    async def list_lineage(self, node: str, *, depth_max: int = 10) -> list[LineageStep]:
        """Return what a node was derived from, and that in turn, nearest first."""
        ...

    async def list_calls(self, run: RunId | TurnId) -> list[ToolCallLink]:
        """Return the tool calls of a run, each with its result and what it spawned."""
        ...

    async def list_held(self, at: Timestamp, *, holder: str | None = None) -> list[ResourceHolding]:
        """Return who owned, mounted or was attached to which resource at a time."""
        ...

    async def list_policies(self, *, agent: str | None = None) -> list[PolicyChange]:
        """Return proposed and activated policies, oldest first."""
        ...

    async def list_ancestry(
        self, session: SessionId, *, depth_max: int = 20
    ) -> list[SessionOrigin]:
        """Return how a session was created, and the session it came from, nearest first."""
        ...

    async def find_recording(self, turn: TurnId) -> RecordedMove | None:
        """Return the move that recorded a turn; None if it was imported."""
        ...
