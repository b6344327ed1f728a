"""Plans: steps that end as a whole or are taken back, as a fold over their own events.

A plan takes safety snapshots, makes new places, brings old states back, and last of all does the
one thing that makes the new world true: it begins or moves a session, in one transaction. Before
that point whatever was touched is taken back, newest first; after it the plan has ended. Whoever
holds the events of a plan can finish or undo it, in any process, after any crash.

This module decides what comes next. It must never know how a place is kept, nor whether anybody
else is carrying out the same plan.
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
    """What a step led to."""

    answer: Answer
    snapshot: SnapshotId | None = None
    external: ExtRef | None = None
    error: str | None = None
    untouched: bool = False
    """Whether it is certain that nothing was changed."""


@value
class PlanState:
    """A plan and what its events say so far."""

    plan: Plan
    seq: int = 1
    """The place of the next event."""
    begun: frozenset[int] = frozenset()
    observed: Mapping[int, StepResult] = field(default_factory=dict[int, StepResult])
    undone: frozenset[int] = frozenset()
    end: PlanEnd | None = None

    @property
    def error(self) -> str | None:
        """Why it is taken back, if it is."""
        for number, seen in sorted(self.observed.items()):
            if not _is_good(self.plan.steps[number], seen):
                return seen.error or seen.answer
        return None if not self.lost else "whoever carried it out stopped on the way"

    @property
    def lost(self) -> frozenset[int]:
        """The steps that were begun and of which nobody told how they ended."""
        return self.begun - self.observed.keys()


@value
class RunStep:
    """Carry a step out."""

    number: int
    step: Step


@value
class UndoStep:
    """Take a step back."""

    number: int
    step: ForkResource | RestoreResource


@value
class FinishPlan:
    """Record that nothing is left to be taken back."""


@value
class PlanDone:
    """Nothing is left to do."""

    end: PlanEnd


NextStep: TypeAlias = RunStep | UndoStep | FinishPlan | PlanDone


def next_step(state: PlanState) -> NextStep:
    """Return what is to be done now.

    A step that was begun and not finished belongs to somebody who died: how far it came is
    unknown, so the plan turns back. A plan whose steps are all done goes on to its last one.
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
    """Say whether a step that was begun may have changed a place."""
    step, seen = state.plan.steps[number], state.observed.get(number)
    match step:
        case ForkResource():
            return seen is None or not seen.untouched
        case RestoreResource():
            return step.supported and (seen is None or not seen.untouched)
        case TakeSnapshot() | CreateForkSession() | MoveHead():
            return False
        case _:
            assert_never(step)


def fold(events: Iterable[Event]) -> PlanState:
    """Return the state that the events of a plan lead to.

    Raises:
        InvalidOperation: They are not the events of a plan, or not in order.
    """
    first, *rest = events
    if first.kind != "plan.started":
        raise InvalidOperation(f"a plan begins with plan_started, not with {first.kind}")
    state = PlanState(plan_from_json(PlanId(first.stream), first.data))
    for event in rest:
        state = apply(state, event)
    return state


def apply(state: PlanState, event: Event) -> PlanState:
    """Return the state after one more event.

    Raises:
        InvalidOperation: It does not follow.
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
            seen = _observation(data)
            return replace(after, observed={**state.observed, data["step"]: seen})
        case "plan.step_compensated":
            return replace(after, undone=state.undone | {data["step"]})
        case "plan.finished":
            return replace(after, end=data["outcome"])
        case kind:
            raise InvalidOperation(f"{kind} is no event of a plan")


def plan_started(plan: Plan, at: Timestamp) -> Event:
    """Return the fact that a plan begins: all its steps, and what takes each of them back."""
    return Event(plan.id, 0, "plan.started", at, plan_to_json(plan))


def step_started(state: PlanState, number: int, at: Timestamp) -> Event:
    """Return the fact that somebody is about to carry a step out."""
    return _event(state, "plan.step_started", at, {"step": number})


def step_finished(state: PlanState, number: int, seen: StepResult, at: Timestamp) -> Event:
    """Return the fact of what a step led to."""
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
    """Return the fact that a step was taken back, but for what others had changed since."""
    return _event(
        state, "plan.step_compensated", at, {"step": number, "paths_skipped": left or None}
    )


def plan_finished(state: PlanState, end: PlanEnd, at: Timestamp) -> Event:
    """Return the fact that a plan has ended."""
    error = state.error if end == "rolled_back" else None
    return _event(state, "plan.finished", at, {"outcome": end, "error": error})


@value
class Note:
    """A fact that is told at the end of a resource's stream, together with a step."""

    resource: ResourceId
    kind: str
    data: Mapping[str, Json]


@value
class CreatedResource:
    """A place that a plan made, and the state it was made in."""

    resource: Resource
    mode: AttachMode
    snapshot: SnapshotId


@value
class PlanCommit:
    """What becomes true at once when a plan succeeds."""

    plan: PlanId
    by: str
    at: Timestamp
    step: Commit
    created: tuple[CreatedResource, ...] = ()
    taken: tuple[tuple[Resource, AttachMode], ...] = ()
    """What the new session takes over from its source."""
    forked: Mapping[str, Json] | None = None
    """The data of the event that says what became of each resource."""


def forked(step: CreateForkSession, snapshots: Mapping[int, ExtRef]) -> dict[str, Json] | None:
    """Return what the new session's stream says of the fork; ``snapshots`` by step."""
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


def _observation(data: Mapping[str, Any]) -> StepResult:
    get = data.get
    return StepResult(
        data["outcome"], get("snapshot"), external_from_json(get("external")), get("error"),
        untouched=get("untouched", False),
    )  # fmt: skip


def _is_good(step: Step, seen: StepResult) -> bool:
    expected = isinstance(step, RestoreResource) and not step.supported
    return seen.answer == ("unsupported" if expected else "ok")


def _event(state: PlanState, kind: str, at: Timestamp, data: dict[str, Json]) -> Event:
    return Event(state.plan.id, state.seq, kind, at, without_nones(data))
