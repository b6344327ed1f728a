"""The protocol of verify, fsck and repair."""

from collections.abc import Callable
from typing import Protocol

from turntree.core.ids import TurnId
from turntree.integrity.findings import ProjectionDiff, VerifyResult, Violation

Report = Callable[[str, int, int], None]
"""Receives the stage of a long check, the amount done and the total."""


class Checks(Protocol):
    """Checks the ledger. It never changes turns or events; repair changes projections."""

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
        """Rebuild the projections, and return what changed or would change.

        Needs the account that owns the database.

        Raises:
            InvalidOperation: The account does not own the database.
        """
        ...
