"""Plans: steps that complete together or are rolled back, as a fold over a plan's events.

A plan takes safety snapshots, creates copies, restores old states, and finally commits: it creates
or moves a session, in one transaction. Before that commit every change is rolled back, newest
first; after it the plan has ended. Any process can finish or roll back a plan from its events,
after any crash.

This module decides the next step. It does not know how a resource is stored, nor whether another
process is executing the same plan.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any, Literal, TypeAlias, assert_never

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.event import Event
from turntree.core.ids import PlanId, ResourceId, SnapshotId, Timestamp
from turntree.core.ref import ExtRef
from turntree.core.ref import to_json as ref_to_json
from turntree.core.value import value
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
    external_from_json,
    plan_from_json,
    plan_to_json,
    without_nones,
)
from turntree.resources.resource import AttachMode, Resource

PlanEnd = Literal["completed", "rolled_back"]
Answer = Literal["ok", "unsupported", "error"]


@value
class StepResult:
    """The result of a step."""

    answer: Answer
    snapshot: SnapshotId | None = None
    external: ExtRef | None = None
    error: str | None = None
    untouched: bool = False
    """Whether it is certain that the step changed nothing."""


@value
class PlanState:
    """A plan and what its events say so far."""

    plan: Plan
    seq: int = 1
    """The sequence number of the next event."""
    begun: frozenset[int] = frozenset()
    observed: Mapping[int, StepResult] = field(default_factory=dict[int, StepResult])
    undone: frozenset[int] = frozenset()
    end: PlanEnd | None = None

    @property
    def error(self) -> str | None:
        """Why the plan is rolled back, or None."""
        for number, seen in sorted(self.observed.items()):
            step = self.plan.steps[number]
            expected = isinstance(step, RestoreResource) and not step.supported
            if seen.answer != ("unsupported" if expected else "ok"):
                return seen.error or seen.answer
        return None if not self.lost else "the process that ran it stopped on the way"

    @property
    def lost(self) -> frozenset[int]:
        """The steps that were started and whose result was never recorded."""
        return self.begun - self.observed.keys()


@value
class RunStep:
    """Execute a step."""

    number: int
    step: Step


@value
class UndoStep:
    """Roll a step back."""

    number: int
    step: ForkResource | RestoreResource


@value
class FinishPlan:
    """Record that the rollback is complete."""


@value
class PlanDone:
    """The plan has ended."""

    end: PlanEnd


NextStep: TypeAlias = RunStep | UndoStep | FinishPlan | PlanDone


def next_step(state: PlanState) -> NextStep:
    """Return what to do next.

    A step that was started and not finished belongs to a process that died. How far it got is
    unknown, so the plan is rolled back. A plan whose steps are all done goes on to its commit.
    """
    if state.end is not None:
        return PlanDone(state.end)
    if state.error is None:
        number = len(state.observed)
        return RunStep(number, state.plan.steps[number])
    for number, step in reversed(list(enumerate(state.plan.steps))):
        if number in state.begun and number not in state.undone and needs_undoing(state, number):
            assert isinstance(step, ForkResource | RestoreResource), "only these change a place"
            return UndoStep(number, step)
    return FinishPlan()


def needs_undoing(state: PlanState, number: int) -> bool:
    """Return whether a step that was started may have changed a resource."""
    step, seen = state.plan.steps[number], state.observed.get(number)
    match step:
        case ForkResource():
            return seen is None or not seen.untouched
        case RestoreResource():
            return step.supported and (seen is None or not seen.untouched)
        case TakeSnapshot() | CreateForkSession() | MoveHead() | RecordMerge():
            return False
        case _:
            assert_never(step)


def fold(events: Iterable[Event]) -> PlanState:
    """Return the state that a plan's events lead to.

    Raises:
        InvalidOperation: They are not the events of a plan, or not in order.
    """
    first, *rest = events
    if first.kind != "plan.started":
        raise InvalidOperation(f"a plan starts with plan.started, not with {first.kind}")
    state = PlanState(plan_from_json(PlanId(first.stream), first.data))
    for event in rest:
        state = apply(state, event)
    return state


def apply(state: PlanState, event: Event) -> PlanState:
    """Return the state after one more event.

    Raises:
        InvalidOperation: The event does not follow the state.
    """
    if event.seq != state.seq or state.end is not None:
        raise InvalidOperation(
            f"{event.kind} at place {event.seq} does not follow in plan {event.stream}"
        )
    data: Mapping[str, Any] = event.data
    after = replace(state, seq=state.seq + 1)
    match event.kind:
        case "plan.step_started":
            return replace(after, begun=state.begun | {data["step"]})
        case "plan.step_finished":
            get = data.get
            seen = StepResult(
                data["outcome"],
                get("snapshot"),
                external_from_json(get("external")),
                get("error"),
                untouched=get("untouched", False),
            )
            return replace(after, observed={**state.observed, data["step"]: seen})
        case "plan.step_compensated":
            return replace(after, undone=state.undone | {data["step"]})
        case "plan.finished":
            return replace(after, end=data["outcome"])
        case kind:
            raise InvalidOperation(f"{kind} is not an event of a plan")


def plan_started(plan: Plan, at: Timestamp) -> Event:
    """Return the event that starts a plan, with all its steps and what rolls each of them back."""
    return Event(plan.id, 0, "plan.started", at, plan_to_json(plan))


def step_started(state: PlanState, number: int, at: Timestamp) -> Event:
    """Return the event that a step is about to be executed."""
    return _event(state, "plan.step_started", at, {"step": number})


def step_finished(state: PlanState, number: int, seen: StepResult, at: Timestamp) -> Event:
    """Return the event with the result of a step."""
    data: dict[str, Json] = {
        "step": number,
        "outcome": seen.answer,
        "snapshot": seen.snapshot,
        "external": None if seen.external is None else ref_to_json(seen.external),
        "error": seen.error,
        "untouched": seen.untouched or None,
    }
    return _event(state, "plan.step_finished", at, data)


def compensation(state: PlanState, number: int, left: int, at: Timestamp) -> Event:
    """Return the event that a step was rolled back, except paths that others changed since."""
    return _event(
        state, "plan.step_compensated", at, {"step": number, "paths_skipped": left or None}
    )


def plan_finished(state: PlanState, end: PlanEnd, at: Timestamp) -> Event:
    """Return the event that ends a plan."""
    error = state.error if end == "rolled_back" else None
    return _event(state, "plan.finished", at, {"outcome": end, "error": error})


@value
class Note:
    """An event to append to a resource's stream in the same transaction as a step."""

    resource: ResourceId
    kind: str
    data: Mapping[str, Json]


@value
class CreatedResource:
    """A resource that a plan created, and the snapshot it was created from."""

    resource: Resource
    mode: AttachMode
    snapshot: SnapshotId


@value
class PlanCommit:
    """Everything that the final transaction of a plan writes."""

    plan: PlanId
    by: str
    at: Timestamp
    step: Commit
    created: tuple[CreatedResource, ...] = ()
    taken: tuple[tuple[Resource, AttachMode], ...] = ()
    """Resources that the new session takes over from its source."""
    forked: Mapping[str, Json] | None = None
    """The data of the event that records what happened to each resource."""


def forked(step: CreateForkSession, snapshots: Mapping[int, ExtRef]) -> dict[str, Json] | None:
    """Return what the new session's stream records about the fork; ``snapshots`` by step."""
    if step.session is None:
        return None
    plan: list[Json] = []
    for share in step.shares:
        said: dict[str, Json] = {"resource": share.resource, "mode": share.mode}
        if share.kept_by is not None:
            said["kept_by"] = share.kept_by
        if share.fork is not None:
            said["snapshot_ref"] = ref_to_json(snapshots[share.fork])
        plan.append(said)
    data: dict[str, Json] = {"to_branch": step.session, "volume_plan": plan}
    if step.source is not None:
        data["from_branch"] = step.source
    if step.at_event is not None:
        data["at_event"] = ref_to_json(step.at_event)
    return data


def _event(state: PlanState, kind: str, at: Timestamp, data: dict[str, Json]) -> Event:
    return Event(state.plan.id, state.seq, kind, at, without_nones(data))
