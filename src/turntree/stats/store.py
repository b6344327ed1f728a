"""Statistics of a workspace: content, disk usage, spending."""

from collections.abc import Sequence
from typing import cast

from turntree.core.ids import Timestamp
from turntree.core.usage import Usage
from turntree.core.value import value
from turntree.db.arrays import int_array
from turntree.db.database import Database, Row
from turntree.db.sql import load_statements
from turntree.stats.import_summary import DiskUsage, ImportedCounts
from turntree.stats.spending import Spending

SQL = load_statements(__file__)


@value
class StatsStore:
    """Reads statistics."""

    database: Database

    async def count_imported(self) -> ImportedCounts:
        """Return what the ledger contains of imported transcripts."""
        row = await self.database.fetch_one(SQL["count_imported"])
        assert row is not None, "an aggregate always has a row"
        sessions, turns, newest = row
        rows = await self.database.fetch(SQL["count_imported_tokens"])
        return ImportedCounts(sessions, turns, cast("dict[str, int]", dict(rows)), newest)

    async def measure(self) -> DiskUsage:
        """Return the bytes on the server's disk, of all workspaces together."""
        row = await self.database.fetch_one(SQL["measure"])
        assert row is not None, "an aggregate always has a row"
        return DiskUsage(*row)

    async def list_spending(
        self,
        bands: Sequence[int],
        *,
        since: Timestamp | None = None,
        until: Timestamp | None = None,
        with_sessions: bool = False,
    ) -> list[Spending]:
        """Return the usage of distinct model calls, by day, agent, model, provider and band.

        ``since`` is the start of the period, and ``until`` the first moment after it.
        A call that several turns record is counted once. With sessions, a call is counted for the
        oldest session whose thread contains it.
        """
        query = SQL["list_spending_by_session"] if with_sessions else SQL["list_spending"]
        rows = await self.database.fetch(query, since=since, until=until, bands=int_array(bands))
        return [_spending(row) for row in rows]


def _spending(row: Row) -> Spending:
    day, by, model, provider, session, calls, *numbers = row
    # An actor is a kind and a name; show only the name.
    agent = by.partition(":")[2] or by
    return Spending(day, agent, model, provider, calls, Usage(*map(int, numbers)), session, by=by)
