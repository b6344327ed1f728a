"""Assignments: an agent works on a task until its criteria are met, or it has to stop.

The task's description is sent to the session that was created for it. The agent's harness limits
it: ``max_steps`` bounds the model calls in a turn, ``checkpoint_every`` says after how many of them
a checkpoint is recorded, and ``reflect_on_failure`` grants one more turn with the observed results
of the criteria. Whether the agent thinks or calls tools is recorded by its run.

Everything here is idempotent: messages have idempotency keys, and an event that is already recorded
is not repeated. This module must never know how a turn is run.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Final, cast

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream

from turntree.core.canonical import Json
from turntree.core.errors import Conflict, InvalidOperation
from turntree.core.ids import RunId
from turntree.core.principal import Principal, PrincipalKind
from turntree.core.program import Program, a_kind
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.programs.service import Programs
from turntree.runs.follow import Heard, ModelReplied, RunFollower, RunNotice
from turntree.runs.inbox import QueuedMessage
from turntree.runs.service import PostOptions

TURNS_MAX: Final = 2
"""The task itself, and one turn to reflect."""
LOOK_S: Final = 0.5
"""How often a process that only watches checks whether it has to take over."""
TRIES_MAX: Final = 5
_LISTS: Final = (("inputs", "Inputs"), ("outputs", "Outputs"), ("constraints", "Constraints"))


@value
class AssignmentStatus:
    """The state of a task, with its turns and the verdicts on its criteria."""

    task: Program
    turns: tuple[ThreadTurn, ...] = ()
    verdicts: tuple[Mapping[str, Json], ...] = ()


@value
class HarnessLimits:
    """The limits of an agent's harness."""

    max_steps: int | None = None
    checkpoint_every: int | None = None
    reflects: bool = False

    @classmethod
    def of(cls, agent: Program) -> "HarnessLimits":
        """Return the limits in an agent's config."""
        config: Mapping[str, Any] = agent.version.config
        held: Mapping[str, Any] = config.get("harness") or {}
        return cls(
            held.get("max_steps"),
            held.get("checkpoint_every"),
            bool(held.get("reflect_on_failure")),
        )


@value
class Assignments:
    """The facet ``tree.assignments``: tasks that agents work on."""

    programs: Programs
    following: RunFollower
    holding: Callable[[str], AbstractAsyncContextManager[bool]]
    """Locks a key; yields False if another process holds it."""

    async def begin(self, task: str) -> tuple[Program, Program, QueuedMessage]:
        """Start a task assigned to an agent and send it; return task, agent and message.

        Raises:
            InvalidOperation: The task is not assigned to an agent, has ended, or the agent is busy.
        """
        found = await self.programs.get(task)
        agent = await self._agent_of(found)
        if found.state in ("pending", "blocked"):
            await self.programs.invoke(found.id, {"action": "start"})
            found = await self.programs.get(found.id)
        return found, agent, await self._send(found, agent, 0, brief_of(found))

    async def work(
        self, task: str, hear: Callable[[Heard], None] = lambda _: None
    ) -> AssignmentStatus:
        """Have an agent work on its task, and return the outcome.

        If another process already drives the task, this one watches, and takes over if that one
        dies.

        Raises:
            InvalidOperation: See ``begin``.
        """
        found = await self.programs.get(task)
        seen: list[ThreadTurn] = []
        while True:
            async with self.holding(_key_of(found)) as is_held:
                # Read again under the lock: another process may have finished it while this one
                # waited.
                found = await self.programs.get(found.id)
                if seen and found.state != "active":
                    verdicts: Any = found.details.get("verdicts") or ()
                    return AssignmentStatus(found, tuple(seen), tuple(verdicts))
                if is_held:
                    return await self._work(found.id, hear)
            # Another process drives the task, but its messages have keys: sending the first one
            # again returns the run that is already there, which can be followed.
            if not seen:
                _, _, posted = await self.begin(found.id)
                seen.append(await self.following.follow(posted.run, hear))
            await anyio.sleep(LOOK_S)

    async def take(self, task: Program) -> AssignmentStatus | None:
        """Have an agent work on a task; None if another process drives it, or has finished it.

        Raises:
            InvalidOperation: See ``begin``.
        """
        async with self.holding(_key_of(task)) as is_held:
            found = await self.programs.get(task.id)
            if not is_held or found.state in ("completed", "failed"):
                return None
            return await self._work(found.id, lambda _: None)

    async def _work(self, task: str, hear: Callable[[Heard], None]) -> AssignmentStatus:
        asked = await self.programs.get(task)
        if _has_criteria(asked):
            # Before any model call: a task whose criteria cannot be checked here is left to other
            # processes.
            await self.programs.check_folder(asked)
        found, agent, posted = await self.begin(task)
        watch = _Watch(self.programs, agent, found, HarnessLimits.of(agent))
        turns: list[ThreadTurn] = []
        verdicts: Sequence[Mapping[str, Json]] = ()
        for number in range(TURNS_MAX):
            if number:
                posted = await self._send(found, agent, number, reflection_on(verdicts))
            placed = await self._follow(posted.run, watch, hear)
            turns.append(placed)
            # A person may have taken the task from the agent while it worked.
            if not await watch.is_at_work():
                return AssignmentStatus(
                    await self.programs.get(found.id), tuple(turns), tuple(verdicts)
                )
            if placed.turn.header.outcome != "completed":
                ended = await self._stop(watch, placed)
                return AssignmentStatus(ended, tuple(turns), tuple(verdicts))
            # Criteria may be commands, so the agent stays at work until they are checked.
            await watch.move("executing")
            found, verdicts = await self._check(found)
            if found.state == "completed" or not watch.harness.reflects:
                break
        if found.state != "completed":
            found = await self._fail(found, "the criteria are not met")
        return AssignmentStatus(found, tuple(turns), tuple(verdicts))

    async def _agent_of(self, task: Program) -> Program:
        if task.kind != "task" or task.state in ("completed", "failed"):
            raise InvalidOperation(
                f"{task.address} is {a_kind(task.kind)}, {task.state}: there is nothing to do"
            )
        return await self.programs.take_up(task)

    async def _send(self, task: Program, agent: Program, number: int, text: str) -> QueuedMessage:
        session = str(task.details["session"])
        # The same after a crash, so a process that takes over continues the turn of the one that
        # died instead of asking the model a second time.
        key = f"assignment/{task.id}/{session}/{number}"
        options: PostOptions = {"agent": agent.name}
        if (steps := HarnessLimits.of(agent).max_steps) is not None:
            options["max_steps"] = steps
        # The task runs for the principal that assigned it, with the rights under which that was
        # done: the process that drives it has no access of its own.
        kind, _, id = str(task.details.get("given_by", "")).partition(":")
        by = Principal(cast("PrincipalKind", kind), id) if id else None
        chain = task.details.get("given_chain") if by is not None else None
        links = cast("Sequence[Mapping[str, Json]]", chain) if chain else None
        return await self.following.runs.post(session, text, key=key, by=by, chain=links, **options)

    async def _follow(
        self, run: RunId, watch: "_Watch", hear: Callable[[Heard], None]
    ) -> ThreadTurn:
        """Follow a run to its end, and record in order what the agent does meanwhile."""
        # Unbounded: the follower must not wait for the database, or its text would arrive in
        # bursts.
        send, receive = anyio.create_memory_object_stream[Heard](float("inf"))

        def heard(one: Heard) -> None:
            hear(one)
            send.send_nowait(one)

        telling = asyncio.create_task(watch.tell(receive))
        try:
            placed = await self.following.follow(run, heard)
        finally:
            send.close()
        await telling
        return placed

    async def _check(self, task: Program) -> tuple[Program, Sequence[Mapping[str, Json]]]:
        """Check a task's criteria; a task without criteria is done when its agent has replied."""
        action = "report" if _has_criteria(task) else "complete"
        told = await self.programs.invoke(task.id, {"action": action})
        verdicts: Any = told.get("verdicts") or ()
        return await self.programs.get(task.id), verdicts

    async def _stop(self, watch: "_Watch", placed: ThreadTurn) -> Program:
        """End an attempt whose turn did not complete; a canceled task may be assigned again."""
        outcome = placed.turn.header.outcome
        task = await self.programs.get(watch.task.id)
        # Only a failure ends the task. One that was canceled or interrupted can be assigned again.
        if outcome == "failed":
            await watch.move("error", {"task": task.name, "reason": watch.reason})
            return await self._fail(task, watch.reason or outcome)
        return await self.programs.tell(
            task.id, "task.state_changed", right="invoke", to="blocked", more={"outcome": outcome}
        )

    async def _fail(self, task: Program, reason: str) -> Program:
        await self.programs.invoke(task.id, {"action": "fail", "reason": reason})
        return await self.programs.get(task.id)


@dataclass(slots=True)
class _Watch:
    """Records the checkpoints of an agent's work, and how it ends; its run records the rest."""

    programs: Programs
    agent: Program
    task: Program
    harness: HarnessLimits
    steps: int = 0
    """Number of model replies in this assignment."""
    reason: str = ""

    async def tell(self, heard: MemoryObjectReceiveStream[Heard]) -> None:
        """Record what follows from each notice, until the stream ends."""
        async with heard:
            async for one in heard:
                await self._hear(one)

    async def move(self, state: str, more: Mapping[str, Json] | None = None) -> None:
        """Record the agent's new state, unless the task was taken from it."""
        for tried in range(1, TRIES_MAX + 1):
            agent = await self.programs.get(self.agent.id)
            if agent.state == state or not self._is_its(agent):
                return
            try:
                await self.programs.tell(
                    agent.id,
                    self.programs.kind("agent").kind.moved(agent.state, state),
                    right="invoke",
                    to=state,
                    sets={"turn_count": self.steps},
                    more=more or {"task": self.task.name},
                )
            except Conflict:
                # Its state changed meanwhile: another process may have paused or freed it.
                if tried == TRIES_MAX:
                    raise
            else:
                return

    async def is_at_work(self) -> bool:
        """Return whether the task is still assigned to this agent."""
        return self._is_its(await self.programs.get(self.agent.id))

    def _is_its(self, agent: Program) -> bool:
        return agent.details.get("current_session") == self.task.details.get("session")

    async def _hear(self, heard: Heard) -> None:
        match heard:
            case ModelReplied(seq=seq):
                self.steps += 1
                await self._checkpoint(seq)
            case RunNotice("failed", reason):
                self.reason = reason
            case _:
                pass

    async def _checkpoint(self, seq: int) -> None:
        every = self.harness.checkpoint_every
        if every is None or self.steps % every:
            return
        agent = await self.programs.get(self.agent.id)
        if not self._is_its(agent):
            return
        last = agent.details.get("last_checkpoint")
        if isinstance(last, int) and last >= self.steps:
            return  # Recorded before the last follower died.
        sets: dict[str, Json] = {"turn_count": self.steps, "last_checkpoint": self.steps}
        more: dict[str, Json] = {"task": self.task.name, "steps": self.steps, "seq": seq}
        await self.programs.tell(agent.id, "agent.checkpoint", right="invoke", sets=sets, more=more)


def _has_criteria(task: Program) -> bool:
    match task.version.config.get("spec"):
        case {"success_criteria": [_, *_]}:
            return True
        case _:
            return False


def _key_of(task: Program) -> str:
    return f"task/{task.id}"


def brief_of(task: Program) -> str:
    """Return the message that describes a task to its agent."""
    config: Mapping[str, Any] = task.version.config
    spec: Mapping[str, Any] = config.get("spec") or {}
    blocks = [str(config["title"]), str(config.get("description") or "")]
    blocks += [
        _listed(heading, map(str, spec[member])) for member, heading in _LISTS if spec.get(member)
    ]
    if criteria := spec.get("success_criteria"):
        blocks.append(_listed("It is done when", map(_criterion, criteria)))
    return "\n\n".join(block for block in blocks if block)


def reflection_on(verdicts: Sequence[Mapping[str, Json]]) -> str:
    """Return the message that tells an agent which criteria are not met."""
    missed = [f"{one['kind']}: {one['seen']}" for one in verdicts if not one["ok"]]
    asked = "Think about what went wrong, put it right, and say what you changed."
    return f"{_listed('The task is not done. This was seen', missed)}\n\n{asked}"


def _criterion(asked: Mapping[str, Any]) -> str:
    rest = ", ".join(f"{name} {value}" for name, value in asked.items() if name != "kind")
    return f"{asked['kind']}: {rest}"


def _listed(heading: str, lines: Any) -> str:
    return "\n".join([f"{heading}:", *(f"- {line}" for line in lines)])
