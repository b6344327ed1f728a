"""The port of plans in the ledger."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.event import SealedEvent
from turntree.core.ids import PlanId, SessionId
from turntree.core.thread import MoveResult
from turntree.resources.plans.plan import Note, PlanCommit


class Plans(Protocol):
    """Plans: one event stream each, and whether it has ended."""

    async def begin(self, fact: SealedEvent) -> None:
        """Record a plan before its first step."""
        ...

    async def append(self, fact: SealedEvent, *, notes: Sequence[Note] = ()) -> bool:
        """Record a step and what it did to resources; False if the same event exists already.

        Raises:
            Conflict: Another process executes the plan and was faster.
        """
        ...

    async def commit(
        self, facts: Sequence[SealedEvent], commitment: PlanCommit
    ) -> MoveResult | None:
        """Commit a plan: write all its results and end it, or do nothing.

        The session is created or moved, new resources are registered and attached, resources taken
        over change sessions, and the events that end the plan are appended.

        Raises:
            Conflict: The name is taken, the session moved, or another process executes the plan.
            NotFound: No such session or turn.
            InvalidOperation: The session cannot make this move.
        """
        ...

    async def read(self, plan: PlanId) -> list[SealedEvent]:
        """Return the events of a plan, in order.

        Raises:
            NotFound: No such plan.
        """
        ...

    async def list_open(self) -> list[PlanId]:
        """Return the plans that have not ended, oldest first."""
        ...

    async def list_newest(self, *, limit: int) -> list[PlanId]:
        """Return plans, newest first."""
        ...

    async def find_of_move(self, session: SessionId, version: int) -> PlanId | None:
        """Return the plan that a move of a session was part of, or None."""
        ...
