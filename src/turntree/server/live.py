"""What runs beside the requests: the stream, the imports, following this machine, a worker."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

from turntree.api import Tree
from turntree.boot.worker import WorkerRuntime
from turntree.core.errors import DatabaseUnavailable
from turntree.server.following import Follower
from turntree.server.importing import ImportJobs
from turntree.server.machine import Machine
from turntree.server.skeleton import keep_skeleton
from turntree.server.stream import Stream

DRAIN_S: Final = 0.5
"""How long running turns may take to finish after Ctrl-C; the rest continues in another worker."""


@dataclass(slots=True, eq=False)
class Live:
    """The tasks of one server; nothing runs before ``running``."""

    stream: Stream
    importing: ImportJobs | None = None
    """None for the sample data, which no history of the user's ever joins."""

    @classmethod
    def make(cls, tree: Tree, machine: Machine | None = None) -> "Live":
        """Return the tasks of a tree, and of the machine whose tools it follows."""
        stream = Stream(tree)
        if machine is None:
            return cls(stream)
        importing = ImportJobs(tree, machine, stream.tell)
        stream.list_jobs = importing.list_unfinished
        return cls(stream, importing)

    @asynccontextmanager
    async def running(self, worker: WorkerRuntime | None = None) -> AsyncGenerator[None, None]:
        """Run everything while the block lasts; with a worker, messages are answered here."""
        tasks = [asyncio.create_task(self.stream.run()), asyncio.create_task(self._read_ahead())]
        if self.importing is not None:
            following = Follower(self.importing.tree, self.importing.machine)
            tasks += map(asyncio.create_task, (following.run(), following.run_hooks()))
        async with AsyncExitStack() as stack:
            stack.push_async_callback(_end, tasks)
            if self.importing is not None:
                stack.push_async_callback(self.importing.close)
            if worker is not None:
                await stack.enter_async_context(
                    worker.serving(drain_s=DRAIN_S, stays_here=True, oversees=True)
                )
            yield

    async def _read_ahead(self) -> None:
        """Read the shape of the tree before a browser asks: of a million turns it takes seconds."""
        with suppress(DatabaseUnavailable):
            await keep_skeleton(self.stream.tree)

    def close(self) -> None:
        """End the streams, so that a server that stops need not wait for their clients."""
        self.stream.close()


async def _end(tasks: "list[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
