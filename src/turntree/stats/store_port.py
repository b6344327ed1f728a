"""Protocol for statistics of a workspace: content, disk usage, spending."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.ids import Timestamp
from turntree.stats.import_summary import DiskUsage, ImportedCounts
from turntree.stats.spending import Spending


class Stats(Protocol):
    """Statistics. Read-only."""

    async def count_imported(self) -> ImportedCounts:
        """Return what the ledger contains of imported transcripts."""
        ...

    async def measure(self) -> DiskUsage:
        """Return the bytes on the server's disk, of all workspaces together."""
        ...

    async def list_spending(
        self, bands: Sequence[int], *, since: Timestamp | None = None, with_sessions: bool = False
    ) -> list[Spending]:
        """Return the usage of distinct model calls, by day, agent, model, provider and band.

        A call that several turns record is counted once. With sessions, a call is counted for the
        oldest session whose thread contains it.
        """
        ...
