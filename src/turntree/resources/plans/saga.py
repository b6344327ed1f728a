"""Execute plans: one step after the other, each recorded before and after.

``plan`` decides what comes next; this module does it. A failure before the last step is rolled
back. After a crash, the events allow another process to continue.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import assert_never

import anyio

from turntree.core.canonical import Json
from turntree.core.clock import Clock, Processes
from turntree.core.errors import Conflict, InvalidOperation, NotFound, TurntreeError
from turntree.core.event import Event, record
from turntree.core.ids import ResourceId, SnapshotId, Timestamp, instant, unix_ms
from turntree.core.ref import ExtRef
from turntree.core.ref import to_json as ref_to_json
from turntree.core.thread import MoveResult
from turntree.core.value import value
from turntree.resources.plans import plan as plans
from turntree.resources.plans.plan import (
    CreatedResource,
    FinishPlan,
    Note,
    PlanCommit,
    PlanDone,
    PlanEnd,
    PlanState,
    RunStep,
    StepResult,
    UndoStep,
    next_step,
)
from turntree.resources.plans.step_executor import StepExecutor, failed
from turntree.resources.plans.steps import (
    Commit,
    CreateForkSession,
    ForkResource,
    MoveHead,
    Plan,
    RecordMerge,
    RestoreResource,
    Step,
    TakeSnapshot,
)
from turntree.resources.plans.store import PlanStore
from turntree.resources.resource import Resource
from turntree.resources.store import LeaseStore

LEASE_MS = 600_000
"""Longer than any step; a lease whose process has ended is not waited for."""
STOPPED = "the process that ran it stopped on the way"


@value
class PlanOutcome:
    """How a plan ended."""

    plan: Plan
    end: PlanEnd
    moved: MoveResult | None = None
    """The new head of the session, if this process moved it."""
    error: str | None = None
    """Why it was rolled back."""
    left: tuple[str, ...] = ()
    """Paths that other writers changed since, and that therefore stayed as they are."""
    unsupported: tuple[ResourceId, ...] = ()
    """Resources that cannot be restored and stayed as they are."""

    def check(self) -> None:
        """Refuse a plan that was rolled back.

        Raises:
            InvalidOperation: The plan could not be completed; everything is as it was.
        """
        if self.end == "rolled_back":
            raise InvalidOperation(f"nothing has changed: {self.error}")


class _TakenOver(Exception):
    """Another process is executing the plan."""


@value
class PlanRunner:
    """Executes plans on this machine."""

    facts: PlanStore
    advice: LeaseStore
    hands: StepExecutor
    processes: Processes
    world: Clock

    async def begin(self, plan: Plan) -> PlanOutcome:
        """Execute a plan, or roll back what was done of it.

        Raises:
            Conflict: Another process is working on one of its resources.
            InvalidOperation: Something could not be rolled back; the plan stays open.
        """
        async with self._held(plan.resources):
            await self.facts.begin(record(plans.plan_started(plan, self.world.now())))
            return await _PlanRun(self, PlanState(plan)).drive()

    async def resume(self, state: PlanState) -> PlanOutcome:
        """Finish or roll back a plan that another process started.

        A plan with only its commit left is finished; every other plan is rolled back.

        Raises:
            Conflict: Another process is still executing it.
            InvalidOperation: Something could not be rolled back; the plan stays open.
        """
        async with self._held(state.plan.resources):
            return await _PlanRun(self, state).drive(resumed=True)

    @asynccontextmanager
    async def _held(self, resources: Sequence[ResourceId]) -> AsyncGenerator[None, None]:
        # A nonce, because one process can execute two plans, and each may release only its own
        # leases.
        holder = f"{self.processes.me}/{self.world.nonce()[:16]}"
        held: list[ResourceId] = []
        try:
            for resource in resources:
                await self._lease(resource, holder)
                held.append(resource)
            yield
        finally:
            # Shielded: a canceled plan that kept its leases would block the folder until they
            # expire.
            with anyio.CancelScope(shield=True):
                for resource in held:
                    await self.advice.release(resource, holder)

    async def _lease(self, resource: ResourceId, holder: str) -> None:
        found = await self.advice.find_lease(resource)
        # Its process died. Waiting for the lease to expire would keep a user from their own folder.
        if found is not None and not self.processes.is_running(found.holder.partition("/")[0]):
            await self.advice.release(resource, found.holder)
        now = self.world.now()
        until = instant(unix_ms(now) + LEASE_MS)
        if await self.advice.lease(resource, holder, until, now) is None:
            named = (await self.hands.resources.get(resource)).name
            raise Conflict(f"another plan is running on {named}; try again")


@dataclass(slots=True)
class _PlanRun:
    """The part of a plan that this process executes."""

    saga: PlanRunner
    state: PlanState
    moved: MoveResult | None = None
    left: list[str] = field(default_factory=list[str])
    doing: int | None = None
    """The step that was started and whose result is not recorded yet."""

    async def drive(self, *, resumed: bool = False) -> PlanOutcome:
        """Execute steps until the plan has ended."""
        try:
            step = next_step(self.state)
            if resumed and isinstance(step, RunStep) and not isinstance(step.step, Commit):
                # A restart cannot know what the user wants by now, so it goes on with nothing but a
                # commit. The next step counts as failed without having run, and that rolls the
                # others back.
                stopped = StepResult("error", error=STOPPED, untouched=True)
                await self._finish(step.number, stopped)
            while not isinstance(step := next_step(self.state), PlanDone):
                await self._take(step)
        except _TakenOver:
            # Another process continues this plan. Two processes that do the same steps could mix
            # two restores of one folder.
            await self._yield()
        assert self.state.end is not None, "whatever is driven ends"
        state, steps = self.state, self.state.plan.steps
        unsupported = [
            s.site.resource for s in steps if isinstance(s, RestoreResource) and not s.supported
        ]
        error = state.error if state.end == "rolled_back" else None
        left, asked = tuple(self.left), tuple(unsupported)
        return PlanOutcome(state.plan, self.state.end, self.moved, error, left, asked)

    async def _take(self, step: RunStep | UndoStep | FinishPlan) -> None:
        match step:
            case RunStep(number, wanted):
                await self._do(number, wanted)
            case UndoStep(number, undone):
                left = await self._undo(number, undone)
                self.left += left
                at = self.saga.world.now()
                fact = plans.compensation(self.state, number, len(left), at)
                await self._append(fact, self._taken_back(undone))
            case FinishPlan():
                now = self.saga.world.now()
                await self._append(plans.plan_finished(self.state, "rolled_back", now))
            case _:
                assert_never(step)

    async def _do(self, number: int, step: Step) -> None:
        match step:
            case TakeSnapshot():
                await self._begin(number)
                await self._finish(number, await self.saga.hands.keep(step, self.state.plan.by))
            case ForkResource():
                await self._fork(number, step)
            case RestoreResource():
                # The beginning is recorded before anything changes. A restart can then tell a step
                # that may have changed files from one that never began.
                if step.supported:
                    await self._begin(number)
                seen = await self.saga.hands.restore(step)
                await self._finish(number, seen, (self._attempted(step, step.snapshot, seen),))
            case CreateForkSession() | MoveHead() | RecordMerge():
                await self._commit(number, step)
            case _:
                assert_never(step)

    async def _fork(self, number: int, step: ForkResource) -> None:
        snapshot, external = self._source(step)
        if not await self.saga.hands.is_free(step):
            said = f"{step.site.place} already exists"
            await self._finish(number, StepResult("error", error=said, untouched=True))
            return
        await self._begin(number)
        seen = await self.saga.hands.fork(step, snapshot, external)
        # A fork that succeeds is recorded together with the resource it creates.
        notes = () if seen.answer == "ok" else (self._attempted(step, snapshot, seen),)
        await self._finish(number, seen, notes)

    async def _commit(self, number: int, step: Commit) -> None:
        at = self.saga.world.now()
        # One transaction moves the head, records the step and ends the plan. Between them, a crash
        # would leave a session whose files and head disagree.
        told = plans.step_finished(self.state, number, StepResult("ok"), at)
        state = plans.apply(self.state, told)
        ended = plans.plan_finished(state, "completed", at)
        try:
            commitment = await self._commitment(step, at)
            self.moved = await self.saga.facts.commit([record(told), record(ended)], commitment)
        except (Conflict, NotFound, InvalidOperation) as error:
            # Either the session moved, or another process appended to the plan first.
            if len(await self.saga.facts.read(state.plan.id)) != self.state.seq:
                raise _TakenOver from error
            await self._finish(number, failed(error, untouched=True))
            return
        self.state = plans.apply(state, ended)

    async def _commitment(self, step: Commit, at: Timestamp) -> PlanCommit:
        plan = self.state.plan
        done = PlanCommit(plan.id, plan.by, at, step)
        if not isinstance(step, CreateForkSession):
            return done
        created: list[CreatedResource] = []
        made: dict[int, ExtRef] = {}
        for number, fork in enumerate(plan.steps):
            if isinstance(fork, ForkResource):
                snapshot, made[number] = self._source(fork)
                created.append(
                    CreatedResource(await self._made(fork, step, at), fork.mode, snapshot)
                )
        resources = self.saga.hands.resources
        taken = [
            (await resources.get(share.resource), share.taken)
            for share in step.shares
            if share.taken is not None
        ]
        said = plans.forked(step, made)
        return replace(done, created=tuple(created), taken=tuple(taken), forked=said)

    async def _made(self, fork: ForkResource, step: CreateForkSession, at: Timestamp) -> Resource:
        source = await self.saga.hands.resources.get(fork.site.resource)
        return replace(
            source,
            id=fork.new_resource,
            place=fork.site.place,
            name=fork.name,
            created_at=at,
            scope=replace(source.scope, session_id=step.session),
            part_of=None,
            metadata={
                "forked_from": source.id,
                "state": ref_to_json(self._source(fork)[1]),
                "turn": step.before or step.head,
                "before": step.before is not None,
            },
        )

    async def _undo(self, number: int, step: ForkResource | RestoreResource) -> list[str]:
        hands = self.saga.hands
        try:
            if isinstance(step, ForkResource):
                began, *_ = await self.saga.facts.read(self.state.plan.id)
                return await hands.discard(step, self._source(step)[1], began.event.at)
            return await hands.take_back(step, self._safety(step)[1], self.state.plan.by)
        except (TurntreeError, OSError) as error:
            raise InvalidOperation(
                f"step {number} of plan {self.state.plan.id} could not be rolled back: {error}"
            ) from error

    def _source(self, step: ForkResource) -> tuple[SnapshotId, ExtRef]:
        """Return the snapshot that a fork is created from."""
        if step.taken_by is not None:
            return self._kept_by(step.taken_by)
        assert step.snapshot is not None, "it names a state or the step that keeps one"
        assert step.external is not None, "it names a state or the step that keeps one"
        return step.snapshot, step.external

    def _safety(self, step: RestoreResource) -> tuple[SnapshotId, ExtRef]:
        """Return the state that a restore replaced."""
        assert step.safety is not None, "the present is kept before it is replaced"
        return self._kept_by(step.safety)

    def _kept_by(self, number: int) -> tuple[SnapshotId, ExtRef]:
        seen = self.state.observed[number]
        assert seen.snapshot is not None, "the step was good, or nothing would follow it"
        assert seen.external is not None, "the step was good, or nothing would follow it"
        return seen.snapshot, seen.external

    def _attempted(
        self, step: ForkResource | RestoreResource, of: SnapshotId, seen: StepResult
    ) -> Note:
        data: dict[str, Json] = {
            "resource_ref": step.site.resource,
            "snapshot_ref": of,
            "outcome": seen.answer,
            "plan": self.state.plan.id,
            "by": self.state.plan.by,
        }
        if seen.error is not None:
            data["error"] = seen.error
        return Note(step.site.resource, "snapshot.restore_attempted", data)

    def _taken_back(self, step: ForkResource | RestoreResource) -> tuple[Note, ...]:
        if isinstance(step, ForkResource):
            return ()
        return (self._attempted(step, self._safety(step)[0], StepResult("ok")),)

    async def _yield(self) -> None:
        """Leave the plan to the process that was faster.

        If that process rolled it back while this one was still executing a step, the step's changes
        came later, so they are rolled back as well.
        """
        facts = await self.saga.facts.read(self.state.plan.id)
        self.state = plans.fold([fact.event for fact in facts])
        if self.state.end is None:
            raise Conflict(f"another process is executing plan {self.state.plan.id}")
        if self.state.end == "rolled_back" and self.doing is not None:
            step = self.state.plan.steps[self.doing]
            if isinstance(step, ForkResource | RestoreResource):
                self.left += await self._undo(self.doing, step)

    async def _begin(self, number: int) -> None:
        await self._append(plans.step_started(self.state, number, self.saga.world.now()))
        self.doing = number

    async def _finish(self, number: int, seen: StepResult, notes: Sequence[Note] = ()) -> None:
        now = self.saga.world.now()
        await self._append(plans.step_finished(self.state, number, seen, now), notes)
        self.doing = None

    async def _append(self, event: Event, notes: Sequence[Note] = ()) -> None:
        after = plans.apply(self.state, event)
        try:
            await self.saga.facts.append(record(event), notes=notes)
        except Conflict as error:
            raise _TakenOver from error
        self.state = after
