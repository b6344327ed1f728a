"""Eight writers at once: pgbench, eight processes of the library, and one process with eight tasks.

All of them advance the same eight sessions, one each, in turns of a few seconds.
"""

import asyncio
import multiprocessing
import os
import re
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from proofs.workload import Exchange, Library, record, recorder_on
from turntree.core.ids import WorkspaceId
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, open_database
from turntree.db.embedded.installation import find_installation

WRITERS = 8
LABEL = "writer-{}"


def run_pgbench(conninfo: str, workspace: str, script: Path, seconds: int) -> float:
    """Return the turns a second that pgbench appends with the function alone."""
    words = ["-n", "-M", "prepared", "-c", str(WRITERS), "-j", "2", "-T", str(seconds)]
    settings = {"role": "turntree_app", "turntree.workspace": workspace, "enable_seqscan": "off"}
    # A connection that is not told who looks finds no session, and would be quick at nothing.
    settings["turntree.viewer"] = EVERYTHING
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    ended = subprocess.run(
        [find_installation().program("pgbench"), *words, "-f", script, conninfo],
        env={**os.environ, "PGOPTIONS": options},
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.search(r"tps = ([\d.]+)", ended.stdout)
    assert found is not None, ended.stderr
    return float(found[1])


async def run_tasks(database: Database, exchanges: list[Exchange], seconds: int) -> float:
    """Return the turns a second that one process appends with a task a session."""
    counts = await asyncio.gather(
        *(_write(database, number, exchanges, seconds) for number in range(WRITERS))
    )
    return sum(counts) / seconds


class Processes:
    """A process a session, each with a connection of its own."""

    def __init__(self, conninfo: str, workspace: str, seed: int) -> None:
        """Start them; each says when it is ready."""
        spawn = multiprocessing.get_context("spawn")
        self._processes = []
        self._lines: list[Connection] = []
        for number in range(WRITERS):
            ours, theirs = spawn.Pipe()
            process = spawn.Process(
                target=_serve, args=(theirs, conninfo, workspace, seed, number), daemon=True
            )
            process.start()
            self._processes.append(process)
            self._lines.append(ours)
        for line in self._lines:
            line.recv()

    def run(self, seconds: int) -> float:
        """Return the turns a second that all of them append together."""
        for line in self._lines:
            line.send(seconds)
        counts: list[int] = [line.recv() for line in self._lines]
        return sum(counts) / seconds

    def end(self) -> None:
        """Let them go."""
        for line in self._lines:
            line.send(None)
        for process in self._processes:
            process.join()


@contextmanager
def processes(conninfo: str, workspace: str, seed: int) -> Generator[Processes, None]:
    """Lend the processes."""
    lent = Processes(conninfo, workspace, seed)
    try:
        yield lent
    finally:
        lent.end()


def _serve(line: Connection, conninfo: str, workspace: str, seed: int, number: int) -> None:
    asyncio.run(_answer(line, conninfo, workspace, seed + number, number))


async def _answer(line: Connection, conninfo: str, workspace: str, seed: int, number: int) -> None:
    exchanges = Library(seed).exchanges()
    async with open_database(
        conninfo, WorkspaceId(workspace), connections_max=1, sight=EVERYTHING
    ) as database:
        line.send("ready")
        while (seconds := line.recv()) is not None:
            line.send(await _write(database, number, exchanges, seconds))


async def _write(database: Database, number: int, exchanges: list[Exchange], seconds: int) -> int:
    recorder = await recorder_on(database, LABEL.format(number))
    end = time.monotonic() + seconds
    count = 0
    while time.monotonic() < end:
        await record(recorder, exchanges[count % len(exchanges)])
        count += 1
    return count
