"""Overseers: whatever task was started is worked on and judged, whoever started it.

A task that has begun may be left by the process that followed it. An overseer looks for such tasks
and sees them through; of several that live, one takes each task. It must never know how a task is
worked on.
"""

import logging
from dataclasses import dataclass, field
from typing import Final

import anyio
from anyio.abc import TaskGroup

from turntree.agents.assignments import Assignments
from turntree.core.errors import TurntreeError
from turntree.core.ids import ProgramId
from turntree.core.program import Program
from turntree.runs.capture_error import error_of

LOOK_S: Final = 1.0
TASKS_AT_ONCE: Final = 16
_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class TaskSupervisor:
    """Sees the tasks through that agents were given and that were started."""

    assignments: Assignments
    look_s: float = LOOK_S
    at_once: int = TASKS_AT_ONCE
    _overseen: set[ProgramId] = field(default_factory=set[ProgramId])
    _failures: dict[ProgramId, str] = field(default_factory=dict[ProgramId, str])

    async def oversee(self) -> None:
        """Look for tasks and see them through, until this is canceled."""
        async with anyio.create_task_group() as group:
            while True:
                try:
                    await self._look(group)
                except TurntreeError as error:
                    _LOG.warning("no task could be looked for: %s", error)
                await anyio.sleep(self.look_s)

    async def _look(self, group: TaskGroup) -> None:
        async for task in self.assignments.programs.list_all(kind="task", state="active"):
            if len(self._overseen) >= self.at_once:
                return
            if "session" in task.details and task.id not in self._overseen:
                self._overseen.add(task.id)
                group.start_soon(self._see_through, task)

    async def _see_through(self, task: Program) -> None:
        try:
            error = await error_of(self._take(task))
        finally:
            self._overseen.discard(task.id)
        before, said = self._failures.pop(task.id, None), f"{type(error).__name__}: {error}"
        match error:
            case None:
                return
            case TurntreeError():
                # An agent that is busy now is free later: the same refusal is told once.
                if said != before:
                    _LOG.warning("%s: %s", task.address, error)
            case Exception():
                # What nobody foresaw in one task is no reason to leave the others.
                if said != before:
                    _LOG.error("%s: %s", task.address, error, exc_info=error)
            case _:
                raise error
        self._failures[task.id] = said

    async def _take(self, task: Program) -> None:
        done = await self.assignments.take(task)
        if done is not None:
            _LOG.info("%s is %s", task.address, done.task.state)
