"""Plans in the ledger."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.event import SealedEvent
from turntree.core.ids import PlanId, SessionId
from turntree.core.thread import MoveResult
from turntree.resources.plans.plan import Note, PlanCommit


class Plans(Protocol):
    """Plans that are being carried out: a stream of events each, and whether it has ended."""

    async def begin(self, fact: SealedEvent) -> None:
        """Note a plan before its first step."""
        ...

    async def append(self, fact: SealedEvent, *, notes: Sequence[Note] = ()) -> bool:
        """Note a step and what it did to resources; False if that very fact stands there already.

        Raises:
            Conflict: Somebody else carries the plan out and was quicker.
        """
        ...

    async def commit(
        self, facts: Sequence[SealedEvent], commitment: PlanCommit
    ) -> MoveResult | None:
        """Make the new world true and end the plan: all or nothing.

        The session begins or moves, new resources are noted and attached, those taken over change
        hands, and the facts that end the plan are recorded.

        Raises:
            Conflict: The name is taken, the session moved, or somebody else carries the plan out.
            NotFound: No such session or turn.
            Refused: The session cannot move so.
        """
        ...

    async def read(self, plan: PlanId) -> list[SealedEvent]:
        """Return everything that is known of a plan, in order.

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
        """Return the plan that a move of a session was part of."""
        ...
