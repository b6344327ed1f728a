"""One store in one process: does what it is told on stdin, says on stdout what it cost.

Knows the clocks and the protocol of lines. Must never know who compares what with whom.
The time of a piece of work is that of this process and of every backend of its database.
"""

import asyncio
import contextlib
import importlib
import importlib.metadata
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO, cast

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from proofs.figures import backend_ns, load_statements
from proofs.rivals.contract import Place, Rival
from proofs.workload import Library

STATEMENTS = load_statements(Path(__file__).with_name("rivals.sql"))
Answer = dict[str, Any]
Work = Callable[[], Awaitable[object]]


@dataclass(slots=True)
class Worker:
    """A store, its thread's length, and the clocks around it."""

    rival: Rival
    place: Place
    library: Library
    watch: psycopg.Connection[Any]
    """Looks on from another database, so that it is not among the backends it counts."""
    turns: int = 0

    async def fill(self, turns: int) -> Answer:
        """Make the thread this long."""
        said = await self.rival.fill(self.library.exchanges(turns))
        self.turns += turns
        await self._check()
        return {"filled": said}

    async def append(self, times: int) -> Answer:
        """Append turns; they are written in the library's types before the clock starts."""
        ready = [self.rival.prepare(self.library.exchange()) for _ in range(times)]
        turns = iter(ready)
        cost = await self._measure(times, lambda: self.rival.append(next(turns)))
        self.turns += times
        return cost

    async def load(self, times: int) -> Answer:
        """Load the thread."""
        return await self._measure(times, self._check)

    async def fork(self, times: int) -> Answer:
        """Branch at the head."""
        return await self._measure(times, self.rival.fork)

    async def size(self, times: int) -> Answer:  # noqa: ARG002
        """Return what the store takes on the disk."""
        files = sum(file.stat().st_size for file in self.place.folder.iterdir() if file.is_file())
        with psycopg.connect(self.place.conninfo) as connection:
            row = connection.execute(STATEMENTS["size"]).fetchone()
        assert row is not None, "an aggregate always has a row"
        return {"bytes": row[0] + files}

    async def _check(self) -> None:
        found = await self.rival.load()
        assert found == self.turns, f"{found} turns came back of {self.turns}"

    async def _measure(self, times: int, work: Work) -> Answer:
        backends = self._backends()
        wall, client = time.perf_counter_ns(), time.process_time_ns()
        for _ in range(times):
            await work()
        client, wall = time.process_time_ns() - client, time.perf_counter_ns() - wall
        backend = sum(ns - backends.get(pid, 0) for pid, ns in self._backends().items())
        spent = {"client": client, "backend": backend, "wall": wall}
        return {name: ns / times / 1000 for name, ns in spent.items()}

    def _backends(self) -> dict[int, int]:
        database = conninfo_to_dict(self.place.conninfo)["dbname"]
        rows = self.watch.execute(STATEMENTS["backends"], (database,)).fetchall()
        spent: dict[int, int] = {}
        for (pid,) in rows:
            # The connection that asked for the size may be listed for a moment after its end.
            with contextlib.suppress(FileNotFoundError):
                spent[pid] = backend_ns(pid)
        return spent


async def serve(module: str, name: str, place: Place, seed: int, answers: TextIO) -> None:
    """Answer one command a line until there are no more."""
    rival = cast("Rival", getattr(importlib.import_module(module), name)())
    with psycopg.connect(
        make_conninfo(place.conninfo, dbname="postgres"), autocommit=True
    ) as watch:
        worker = Worker(rival, place, Library(seed), watch)
        await rival.open(place)
        hello = {
            "distribution": rival.distribution,
            "version": importlib.metadata.version(rival.distribution),
            "forks_by": rival.forks_by,
            "forks_max": rival.forks_max,
            "cycle": rival.cycle,
        }
        print(json.dumps(hello), file=answers, flush=True)
        commands = {
            "fill": worker.fill,
            "append": worker.append,
            "load": worker.load,
            "fork": worker.fork,
            "size": worker.size,
        }
        for line in sys.stdin:
            verb, times = json.loads(line)
            print(json.dumps(await commands[verb](times)), file=answers, flush=True)
        await rival.close()


def main() -> None:
    """Serve the store named on the command line."""
    module, name, conninfo, folder, seed = sys.argv[1:]
    # Libraries print; the parent reads only answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    asyncio.run(serve(module, name, Place(conninfo, Path(folder)), int(seed), answers))


if __name__ == "__main__":
    main()
