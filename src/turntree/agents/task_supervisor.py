"""Drives started tasks to their end, whichever process started them.

The process that started a task may exit before the task ends. A supervisor finds such tasks and
finishes them; if several run, each task is taken by one. This module must never know how a task is
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

LOOK_S: Final = 1.0
TASKS_AT_ONCE: Final = 16
_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class TaskSupervisor:
    """Finishes started tasks that are assigned to agents."""

    assignments: Assignments
    look_s: float = LOOK_S
    at_once: int = TASKS_AT_ONCE
    _overseen: set[ProgramId] = field(default_factory=set[ProgramId])
    _failures: dict[ProgramId, str] = field(default_factory=dict[ProgramId, str])

    async def oversee(self) -> None:
        """Find and finish tasks until canceled."""
        async with anyio.create_task_group() as group:
            while True:
                try:
                    await self.look(group)
                except TurntreeError as error:
                    # The database may be away for a while. The tasks are still there when it is
                    # back.
                    _LOG.warning("cannot list tasks: %s", error)
                await anyio.sleep(self.look_s)

    async def look(self, group: TaskGroup) -> None:
        """Find tasks once, and finish them in the background."""
        async for task in self.assignments.programs.list_all(kind="task", state="active"):
            if len(self._overseen) >= self.at_once:
                return
            if "session" in task.details and task.id not in self._overseen:
                self._overseen.add(task.id)
                group.start_soon(self._see_through, task)

    async def _see_through(self, task: Program) -> None:
        before = self._failures.pop(task.id, None)
        try:
            done = await self.assignments.take(task)
        except TurntreeError as error:
            # A busy agent will be free later, so the task is retried; log the same refusal only
            # once.
            self._failures[task.id] = f"{type(error).__name__}: {error}"
            if self._failures[task.id] != before:
                _LOG.warning("%s: %s", task.address, error)
        except Exception as error:
            # An unexpected error in one task must not stop the others.
            self._failures[task.id] = f"{type(error).__name__}: {error}"
            if self._failures[task.id] != before:
                _LOG.exception("%s", task.address)
        else:
            if done is not None:
                _LOG.info("%s is %s", task.address, done.task.state)
        finally:
            self._overseen.discard(task.id)
