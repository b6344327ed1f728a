"""Proving and checking what is stored."""

from collections.abc import Callable
from typing import Protocol

from turntree.domain.checks import Finding, Verified
from turntree.domain.ids import TurnId

Report = Callable[[str, int, int], None]
"""Told the stage of a long check, how much of it is done and how much there is."""


class Checks(Protocol):
    """Reads everything again and changes nothing."""

    async def verify(self, head: TurnId) -> Verified:
        """Hash the stored bytes of a thread from its root to a head.

        Raises:
            NotFound: No such turn.
        """
        ...

    async def fsck(self, *, full: bool = True, report: Report = ...) -> list[Finding]:
        """Check the whole workspace against the ledger's invariants."""
        ...
