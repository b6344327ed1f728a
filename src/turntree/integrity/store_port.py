"""Proving and checking what is stored."""

from collections.abc import Callable
from typing import Protocol

from turntree.core.ids import TurnId
from turntree.integrity.findings import ProjectionDiff, VerifyResult, Violation

Report = Callable[[str, int, int], None]
"""Told the stage of a long check, how much of it is done and how much there is."""


class Checks(Protocol):
    """Reads everything again. No fact is ever changed, and a projection only if asked for."""

    async def verify(self, head: TurnId) -> VerifyResult:
        """Hash the stored bytes of a thread from its root to a head.

        Raises:
            NotFound: No such turn.
        """
        ...

    async def fsck(self, *, full: bool = True, report: Report = ...) -> list[Violation]:
        """Check the whole workspace against the ledger's invariants."""
        ...

    async def repair_derived(self, *, dry_run: bool) -> list[ProjectionDiff]:
        """Rebuild what follows from the facts and return what changed, or would change.

        Facts are never written. Needs the account that owns the database.

        Raises:
            Refused: The account does not own it.
        """
        ...
