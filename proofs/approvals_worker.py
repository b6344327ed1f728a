"""A worker of the proof of approvals, which is killed.

``python -m proofs.approvals_worker CONNINFO HOME``. It says ``ready`` when it serves. Its clock is
ahead by as many milliseconds as the file ``ahead`` in HOME says, and its tool appends a line to the
file ``delivered`` there. It looks after what waits, and takes over what a dead worker left, after a
second, where a worker otherwise waits longer: the proof has many deaths and little time.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

import anyio

import turntree
from turntree.boot import worker as workers
from turntree.boot.open import Settings
from turntree.core.errors import TurntreeError
from turntree.core.ids import Timestamp, instant, unix_ms
from turntree.system.clock import SystemClock

WORKSPACE = "approvals"
AHEAD, DELIVERED = "ahead", "delivered"
SILENT_S, LOOK_S = 1.5, 0.3


class AheadClock(SystemClock):
    """The clock of a machine that is ahead, by what a file says."""

    def __init__(self, file: Path) -> None:
        """Agree with every clock of the same file."""
        super().__init__()
        self._file = file

    def now(self) -> Timestamp:
        """Return the time of this clock."""
        return instant(unix_ms(super().now()) + int(self._file.read_text(encoding="ascii")))


async def work(conninfo: str, home: Path) -> None:
    """Serve until the process is ended."""

    def deliver(to: str) -> str:
        """Deliver an order."""
        file = os.open(home / DELIVERED, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, f"{to}\n".encode())
        finally:
            os.close(file)
        return f"delivered {to}"

    settings = Settings(home / "server", database_url=conninfo, workspace=WORKSPACE, user="ana")
    clock = AheadClock(home / AHEAD)
    vars(workers)["DELIVER_S"] = 1.0
    async with turntree.open(settings, worker=True, world=clock, tools=[deliver]) as tree:
        print("ready", flush=True)
        while True:
            with suppress(TurntreeError):
                await tree.runs.workers.wake_stuck(silent_s=SILENT_S, idle_s=LOOK_S)
            await anyio.sleep(LOOK_S)


if __name__ == "__main__":
    anyio.run(work, sys.argv[1], Path(sys.argv[2]))
