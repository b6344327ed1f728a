"""A worker of the proof of the client for tool servers, which is killed.

``python -m proofs.mcp_client_worker CONNINFO HOME``. It says ``ready`` when it serves. It takes
over what a dead worker left after a second, where a worker otherwise waits longer: the proof has
many deaths and little time.
"""

import sys
from contextlib import suppress
from pathlib import Path

import anyio

import turntree
from turntree.boot.open import Settings
from turntree.core.errors import TurntreeError

WORKSPACE = "connectors"
SILENT_S, LOOK_S = 1.5, 0.3


def settings_of(conninfo: str, home: Path) -> Settings:
    """Return the settings of a user who lets one connector run outside of a sandbox."""
    return Settings(
        home, database_url=conninfo, workspace=WORKSPACE, user="ana",
        unsandboxed_connectors=frozenset({"desk"}),
    )  # fmt: skip


async def work(conninfo: str, home: Path) -> None:
    """Serve until the process is ended."""
    async with turntree.open(settings_of(conninfo, home), worker=True) as tree:
        print("ready", flush=True)
        while True:
            with suppress(TurntreeError):
                await tree.runs.workers.wake_stuck(silent_s=SILENT_S, idle_s=LOOK_S)
            await anyio.sleep(LOOK_S)


if __name__ == "__main__":
    anyio.run(work, sys.argv[1], Path(sys.argv[2]))
