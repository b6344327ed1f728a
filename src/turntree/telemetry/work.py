"""What waits and what runs in the databases of a process, and how busy their connections are.

The counts come from the database, so every process of a ledger tells the same: take the largest of
them, not their sum. A database is asked at most every few seconds, however often it is read.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Final

import anyio

from turntree.core.errors import TurntreeError
from turntree.db.database import Database
from turntree.db.pool import ConnectionPool, PoolUsage
from turntree.runs.worker_store import WorkCounts, count_work
from turntree.telemetry.metrics import Figure, ProcessMetrics

COUNTED_S: Final = 5.0
"""How long a count is told again before the database is asked anew."""
COUNT_S_MAX: Final = 2.0
"""A database that takes longer counts as one that does not answer."""
_SHARD: Final = ("shard",)


class WorkMetrics:
    """The work in some databases, as it was counted last."""

    def __init__(
        self, metrics: ProcessMetrics, list_databases: Callable[[], Sequence[tuple[int, Database]]]
    ) -> None:
        """Register the figures of databases, each with the number of its shard."""
        self._list_databases = list_databases
        self._counts: dict[int, WorkCounts | None] = {}
        self._counted_at: float | None = None
        self._counting = anyio.Lock()
        metrics.add(
            Figure(
                "turntree_database_up", "Whether a database answers.",
                self._list_up, _SHARD,
            ),
            self._count("turntree_messages_waiting", "Messages without a run.", "waiting"),
            self._count(
                "turntree_oldest_message_seconds", "Age of the oldest that waits.", "oldest_s"
            ),
            self._count("turntree_runs_open", "Runs that a worker has, or had.", "open"),
            self._count("turntree_runs_parked", "Runs that wait for an approval.", "parked"),
            self._lent("turntree_database_connections_used", "Connections in use.", "used"),
            self._lent("turntree_database_connections_idle", "Connections that are idle.", "idle"),
            self._lent(
                "turntree_database_connections_max", "Connections at most.", "connections_max"
            ),
            self._lent(
                "turntree_database_connection_waits", "Tasks that wait for a connection.", "waiting"
            ),
        )  # fmt: skip

    async def refresh(self) -> None:
        """Count anew, unless that was done a moment ago."""
        async with self._counting:
            now = time.monotonic()
            if self._counted_at is not None and now - self._counted_at < COUNTED_S:
                return
            counts: dict[int, WorkCounts | None] = {}

            async def count(number: int, database: Database) -> None:
                counts[number] = None
                try:
                    with anyio.fail_after(COUNT_S_MAX):
                        counts[number] = await count_work(database)
                except (TurntreeError, TimeoutError):
                    # What is not known is left out: a 0 would say that nothing waits.
                    pass

            async with anyio.create_task_group() as group:
                for number, database in self._list_databases():
                    group.start_soon(count, number, database)
            self._counts, self._counted_at = counts, now

    def _list_up(self) -> Mapping[Sequence[str], float]:
        return {_of(number): float(one is not None) for number, one in self._counts.items()}

    def _count(self, name: str, help: str, member: str) -> Figure:
        find = attrgetter(member)

        def read() -> Mapping[Sequence[str], float]:
            known = {n: one for n, one in self._counts.items() if one is not None}
            return {_of(n): float(find(one)) for n, one in known.items()}

        return Figure(name, help, read, _SHARD)

    def _lent(self, name: str, help: str, member: str) -> Figure:
        find = attrgetter(member)

        def read() -> Mapping[Sequence[str], float]:
            return {_of(n): float(find(usage)) for n, usage in self._list_usage()}

        return Figure(name, help, read, _SHARD)

    def _list_usage(self) -> list[tuple[int, PoolUsage]]:
        return [
            (number, database.pool.usage)
            for number, database in self._list_databases()
            if isinstance(database.pool, ConnectionPool)
        ]


def _of(number: int) -> tuple[str]:
    return (str(number),)
