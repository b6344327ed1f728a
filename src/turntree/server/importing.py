"""Imports that a browser starts: jobs of this process, one after another, told on the stream."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from turntree.api import Tree
from turntree.core.errors import NotFound, TurntreeError
from turntree.server.machine import Machine
from turntree.transcripts.imports import Progress
from turntree.wire.stream import ImportJob

BATCH_BYTES: Final = 512 * 1024
"""What is stored at a time, so that the picture grows while a person watches."""
JOBS_MAX: Final = 100


@dataclass(slots=True, eq=False)
class ImportJobs:
    """The imports of this process."""

    tree: Tree
    machine: Machine
    tell: Callable[[ImportJob], None]
    """Called with each step of a job."""
    jobs: dict[tuple[str, str], ImportJob] = field(default_factory=dict[tuple[str, str], ImportJob])
    """By job and tool."""
    _tasks: "set[asyncio.Task[None]]" = field(default_factory=set["asyncio.Task[None]"])

    def list_jobs(self) -> list[ImportJob]:
        """Return the jobs, oldest first."""
        return [*self.jobs.values()]

    def list_unfinished(self) -> list[ImportJob]:
        """Return the jobs that wait or run."""
        return [job for job in self.jobs.values() if job.state in ("waiting", "running")]

    def start(self, tools: Sequence[str]) -> str:
        """Start to import what some tools left, and return the job.

        Raises:
            NotFound: There is no importer for a tool.
        """
        for tool in tools:
            if tool not in self.machine.importers:
                known = ", ".join(sorted(self.machine.importers))
                raise NotFound(f"no importer reads {tool!r}; there are {known}")
        job = secrets.token_hex(6)
        for tool in dict.fromkeys(tools):
            self._tell(ImportJob(job, tool, 0, 0, 0, 0, "waiting"))
        while len(self.jobs) > JOBS_MAX:
            del self.jobs[next(iter(self.jobs))]
        task = asyncio.create_task(self._run(job, [*dict.fromkeys(tools)]))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return job

    async def close(self) -> None:
        """Stop; what was not read yet is read by the next import."""
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, job: str, tools: Sequence[str]) -> None:
        async with self.machine.turn:
            for tool in tools:
                try:
                    await self._import(job, tool)
                except (TurntreeError, OSError) as error:
                    self._tell(replace(self.jobs[job, tool], state="failed", error=str(error)))

    async def _import(self, job: str, tool: str) -> None:
        importing = self.machine.make_import()

        def report(done: Progress) -> None:
            read, total = done.bytes_read, done.bytes
            turns, sessions = done.turns_added, done.sessions_begun
            self._tell(ImportJob(job, tool, read, total, turns, sessions, "running"))

        importing.report, importing.batch_bytes = report, BATCH_BYTES
        found = await self.machine.find(tool)
        report(replace(importing.progress, bytes=sum(bundle.size for _, bundle in found)))
        done = await importing.run(found)
        # All words are indexed now, so that the first search does not wait.
        await self.tree.search.fill(everything=True)
        report(done)
        failed = next(iter(done.failed.values()), None)
        self._tell(replace(self.jobs[job, tool], state="finished", error=failed))

    def _tell(self, job: ImportJob) -> None:
        self.jobs[job.job, job.tool] = job
        self.tell(job)
