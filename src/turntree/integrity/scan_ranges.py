"""Reads the whole ledger in ranges, two at a time where that pays.

Each of the two readers takes the next range until none is left. Each has its own connection and
uses the snapshot that the first connection exported; the second checks its turns in a child
process.
"""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import anyio
import anyio.to_thread
import psycopg
from psycopg import ClientCursor, Connection, IsolationLevel

from turntree.core.errors import TurntreeError
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.database import SQL as DATABASE_SQL
from turntree.db.database import require_direct, take_role_params, translated
from turntree.db.sql import load_statements
from turntree.integrity.check_process import CheckProcess
from turntree.integrity.scan import RangeScanner, Row, ScanResult
from turntree.integrity.turn_checker import TurnChecker, examine

SQL = load_statements(__file__)

Range = tuple[UUID, UUID]
FIRST: Final = UUID(int=0)
LAST: Final = UUID(int=2**128 - 1)
RANGE_TURNS_MIN = 250
RANGE_TURNS_MAX = 4000
RANGES_WANTED = 24
SECOND_PROCESS_FROM_TURNS = 3000
"""Below this number, one process is done before a second one has started."""


@value
class SharedSnapshot:
    """A snapshot of a workspace that several connections share."""

    conninfo: str
    workspace: UUID
    snapshot: str

    @contextmanager
    def joined(self) -> Generator["Connection[Row]", None, None]:
        """Open a connection that uses it."""
        try:
            with psycopg.connect(self.conninfo, autocommit=True) as connection:
                role = take_role_params("turntree_app", self.workspace, EVERYTHING)
                taken = connection.execute(DATABASE_SQL["set_role"], role).fetchone()
                assert taken is not None, "it has one row"
                require_direct(connection, taken[0])
                # All readers see one state. A turn that is sealed while we read would otherwise be
                # in one table and not in another, and look like damage.
                connection.isolation_level = IsolationLevel.REPEATABLE_READ
                connection.read_only = True
                connection.prepare_threshold = 0
                with connection.transaction():
                    ClientCursor(connection).execute(SQL["fsck_join"], {"snapshot": self.snapshot})
                    connection.execute(SQL["fsck_spelling"])
                    yield connection
        except psycopg.Error as error:
            raise translated(error) from error


def cut(total: int) -> int:
    """Return the number of turns per range."""
    return min(max(total // RANGES_WANTED, RANGE_TURNS_MIN), RANGE_TURNS_MAX)


@dataclass(slots=True)
class RangeScan:
    """A scan over all ranges."""

    moment: SharedSnapshot
    ranges: list[Range]
    found: Callable[[ScanResult], bool]
    """Receives the findings of each range; returns whether to continue."""
    failures: list[Exception] = field(default_factory=list[Exception])

    async def run(self, turns: int) -> None:
        """Read every range.

        Raises:
            DatabaseUnavailable: The database is unreachable.
        """
        # Taken from the end by ``pop``, so the oldest comes first.
        self.ranges.reverse()
        is_large = turns >= SECOND_PROCESS_FROM_TURNS and (os.cpu_count() or 1) > 1
        async with anyio.create_task_group() as group:
            group.start_soon(self._work, examine)
            if is_large:
                group.start_soon(self._work_elsewhere)
        if self.failures:
            raise self.failures[0]

    async def _work_elsewhere(self) -> None:
        with closing(await anyio.to_thread.run_sync(CheckProcess)) as examiner:
            await self._work(examiner.examine)

    async def _work(self, examine: Callable[[Sequence[Row]], TurnChecker]) -> None:
        joined = ExitStack()
        try:
            connection = await anyio.to_thread.run_sync(joined.enter_context, self.moment.joined())
            with joined:
                reader = RangeScanner(connection, self.moment.workspace, examine)
                # Whichever process is free takes the next range: turns differ in size too much to
                # divide them beforehand.
                while self.ranges and not self.failures:
                    wanted = self.ranges.pop()
                    passage = await anyio.to_thread.run_sync(reader.read, *wanted)
                    if not self.found(passage):
                        # Enough was found. The other process stops after its range.
                        self.ranges.clear()
        except (TurntreeError, psycopg.Error) as error:
            # Not raised here, because the task group would wrap it in a group of its own.
            self.failures.append(error)
