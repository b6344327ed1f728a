"""Reads the whole ledger in ranges, two at a time where that pays.

This process and a child each take the next range until none is left. Each has its own connection,
and both use the snapshot that the first connection exported.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import anyio
import anyio.to_thread
import psycopg

from turntree.core.errors import TurntreeError
from turntree.integrity.scan import RangeScanner, ScanResult
from turntree.integrity.scan_process import ScanProcess
from turntree.integrity.shared_snapshot import SharedSnapshot

Range = tuple[UUID, UUID]
FIRST: Final = UUID(int=0)
LAST: Final = UUID(int=2**128 - 1)
RANGE_TURNS_MIN = 250
RANGE_TURNS_MAX = 4000
RANGES_WANTED = 24
SECOND_PROCESS_FROM_TURNS = 3000
"""Below this number, one process is done before a second one has started."""


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
            group.start_soon(self._work)
            if is_large:
                group.start_soon(self._work_elsewhere)
        if self.ranges and not self.failures:
            # The child died over a range after this process had read the others.
            await self._work()
        if self.failures:
            raise self.failures[0]

    async def _work(self) -> None:
        joined = ExitStack()
        try:
            connection = await anyio.to_thread.run_sync(joined.enter_context, self.moment.joined())
            with joined:
                await self._read(RangeScanner(connection, self.moment.workspace).read)
        except (TurntreeError, psycopg.Error) as error:
            # Not raised here, because the task group would wrap it in a group of its own.
            self.failures.append(error)

    async def _work_elsewhere(self) -> None:
        try:
            process = await anyio.to_thread.run_sync(ScanProcess, self.moment)
            with closing(process):
                await self._read(process.read)
        except (OSError, EOFError):
            # The child could not be started, could not connect or died, perhaps for lack of memory.
            # That costs time and no findings: this process reads its ranges.
            return

    async def _read(self, read: Callable[[UUID, UUID], ScanResult]) -> None:
        # Whichever process is free takes the next range: turns differ in size too much to divide
        # them beforehand.
        while self.ranges and not self.failures:
            wanted = self.ranges.pop()
            try:
                passage = await anyio.to_thread.run_sync(read, *wanted)
            except (OSError, EOFError):
                self.ranges.append(wanted)
                raise
            if not self.found(passage):
                # Enough was found. The other process stops after its range.
                self.ranges.clear()
