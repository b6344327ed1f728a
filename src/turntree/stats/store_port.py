"""Figures of a workspace: what it holds, what it takes up, what was spent."""

from collections.abc import Sequence
from typing import Protocol

from turntree.core.ids import Timestamp
from turntree.stats.import_summary import DiskUsage, ImportedCounts
from turntree.stats.spending import Spending


class Stats(Protocol):
    """Counts. It only reads."""

    async def count_imported(self) -> ImportedCounts:
        """Return what there is of what was imported."""
        ...

    async def measure(self) -> DiskUsage:
        """Return the bytes on the server's disk, of all workspaces together."""
        ...

    async def list_spending(
        self, bands: Sequence[int], *, since: Timestamp | None = None, with_sessions: bool = False
    ) -> list[Spending]:
        """Return what distinct model calls used, by day, agent, model, provider and band.

        A call that several turns tell of is counted once. With sessions, a call belongs to the
        oldest session whose thread holds it.
        """
        ...
