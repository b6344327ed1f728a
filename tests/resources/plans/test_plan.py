"""What a plan does next: always towards the new world or back to the old one."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from turntree.core.canonical import canonical
from turntree.core.errors import InvalidOperation
from turntree.core.event import Event, from_json, record, to_json
from turntree.core.ids import (
    Digest,
    EventId,
    Label,
    PlanId,
    ResourceId,
    SessionId,
    SnapshotId,
    Timestamp,
    TurnId,
)
from turntree.core.ref import EventRef, ExtRef
from turntree.resources.plans import plan as plans
from turntree.resources.plans.plan import (
    FinishPlan,
    PlanDone,
    PlanState,
    RunStep,
    StepResult,
    UndoStep,
    next_step,
)
from turntree.resources.plans.steps import (
    CreateForkSession,
    ForkResource,
    MoveHead,
    Plan,
    ResourceShare,
    RestoreResource,
    Step,
    StepTarget,
    TakeSnapshot,
    plan_from_json,
    plan_to_json,
)

AT = Timestamp("2026-11-15T09:00:00.000Z")
KEPT = ExtRef("shadow-tree", "sha256:" + "0" * 64)
GOOD = StepResult("ok", SnapshotId("snap"), KEPT)


def site(number: int) -> StepTarget:
    return StepTarget(ResourceId(f"resource-{number}"), "directory", f"/srv/{number}")


def restore(number: int, *, supported: bool = True) -> RestoreResource:
    safety = number if supported else None
    return RestoreResource(site(number), SnapshotId("then"), KEPT, None, safety, supported)


def fork(number: int) -> ForkResource:
    new = ResourceId(f"new-{number}")
    return ForkResource(site(number), new, "new", "rw", SnapshotId("then"), KEPT)


MOVE = MoveHead(SessionId("main"), "rewind", TurnId("one"), TurnId("two"))
BEGIN = CreateForkSession(SessionId("new"), Label("side"), TurnId("one"))


def make_plan(*steps: Step) -> Plan:
    return Plan(PlanId("plan"), "restore", "here", "human:ana", steps)


REWIND = make_plan(TakeSnapshot(site(0)), restore(0), MOVE)


def told(plan: Plan, *facts: Callable[[PlanState], Event]) -> PlanState:
    state = PlanState(plan)
    for fact in facts:
        state = plans.apply(state, fact(state))
    return state


def started(number: int) -> Callable[[PlanState], Event]:
    return lambda state: plans.step_started(state, number, AT)


def finished(number: int, seen: StepResult = GOOD) -> Callable[[PlanState], Event]:
    return lambda state: plans.step_finished(state, number, seen, AT)


def undone(number: int) -> Callable[[PlanState], Event]:
    return lambda state: plans.compensation(state, number, 0, AT)


def ended(end: plans.PlanEnd) -> Callable[[PlanState], Event]:
    return lambda state: plans.plan_finished(state, end, AT)


def test_steps_are_done_in_order_and_the_last_one_ends_the_plan() -> None:
    state = PlanState(REWIND)
    for number, step in enumerate(REWIND.steps):
        assert next_step(state) == RunStep(number, step)
        state = plans.apply(state, plans.step_started(state, number, AT))
        state = plans.apply(state, plans.step_finished(state, number, GOOD, AT))
    assert next_step(plans.apply(state, plans.plan_finished(state, "completed", AT))) == PlanDone(
        "completed"
    )


def test_a_failed_step_turns_the_plan_back_and_is_taken_back_itself() -> None:
    failed = StepResult("error", error="the disk is full")
    state = told(REWIND, started(0), finished(0), started(1), finished(1, failed))
    assert next_step(state) == UndoStep(1, restore(0))
    assert state.error == "the disk is full"
    state = plans.apply(state, undone(1)(state))
    assert next_step(state) == FinishPlan()


def test_a_step_that_touched_nothing_is_not_taken_back() -> None:
    refused = StepResult("error", error="something is there", untouched=True)
    plan = make_plan(fork(0), fork(1), BEGIN)
    state = told(plan, started(0), finished(0), started(1), finished(1, refused))
    assert next_step(state) == UndoStep(0, fork(0))


def test_what_was_begun_and_lost_is_taken_back() -> None:
    state = told(REWIND, started(0), finished(0), started(1))
    assert next_step(state) == UndoStep(1, restore(0))
    assert "stopped on the way" in str(state.error)


def test_a_lost_snapshot_leaves_nothing_to_take_back() -> None:
    assert next_step(told(REWIND, started(0))) == FinishPlan()


def test_a_session_that_moved_takes_the_files_back() -> None:
    moved = StepResult("error", error="it stands elsewhere", untouched=True)
    state = told(REWIND, started(0), finished(0), started(1), finished(1), finished(2, moved))
    assert next_step(state) == UndoStep(1, restore(0))


def test_what_was_known_to_be_unsupported_is_no_failure() -> None:
    plan = make_plan(restore(0, supported=False), MOVE)
    answer = StepResult("unsupported", untouched=True)
    assert next_step(told(plan, finished(0, answer))) == RunStep(1, MOVE)


def test_what_turns_out_to_be_unsupported_is_one() -> None:
    plan = make_plan(TakeSnapshot(site(0)), restore(0), TakeSnapshot(site(1)), restore(1), MOVE)
    answer = StepResult("unsupported", untouched=True)
    state = told(
        plan, started(0), finished(0), started(1), finished(1), started(2), finished(2),
        started(3), finished(3, answer),
    )  # fmt: skip
    assert next_step(state) == UndoStep(1, restore(0))


def test_events_that_do_not_follow_are_refused() -> None:
    state = PlanState(REWIND)
    with pytest.raises(InvalidOperation, match="does not follow"):
        plans.apply(state, Event("plan", 7, "plan.step_started", AT, {"step": 0}))
    with pytest.raises(InvalidOperation, match="not an event of a plan"):
        plans.apply(state, Event("plan", 1, "node.tagged", AT, {}))
    with pytest.raises(InvalidOperation, match="starts with"):
        plans.fold([Event("plan", 0, "plan.step_started", AT, {"step": 0})])
    over = told(REWIND, ended("rolled_back"))
    with pytest.raises(InvalidOperation, match="does not follow"):
        plans.apply(over, plans.step_started(over, 0, AT))


def test_a_plan_names_each_resource_once_in_one_order() -> None:
    plan = make_plan(TakeSnapshot(site(1)), TakeSnapshot(site(0)), restore(1), restore(0), MOVE)
    assert plan.resources == ("resource-0", "resource-1")


def test_a_fork_says_what_becomes_of_each_resource() -> None:
    at = EventRef(EventId(Digest("sha256:" + "1" * 64)), "main", 3)
    shares = (
        ResourceShare(ResourceId("a"), "snapshot", fork=0),
        ResourceShare(ResourceId("b"), "keep", kept_by=SessionId("main")),
        ResourceShare(ResourceId("c"), "discard"),
    )
    step = CreateForkSession(
        SessionId("new"), Label("side"), TurnId("one"), SessionId("main"), at, shares
    )
    assert plans.forked(step, {0: KEPT}) == {
        "from_branch": "main",
        "to_branch": "new",
        "at_event": {"event_id": at.event_id, "stream": "main", "seq": 3},
        "volume_plan": [
            {
                "resource": "a",
                "mode": "snapshot",
                "snapshot_ref": {"kind": KEPT.kind, "id": KEPT.id},
            },
            {"resource": "b", "mode": "keep", "kept_by": "main"},
            {"resource": "c", "mode": "discard"},
        ],
    }
    assert plans.forked(CreateForkSession(None, None, TurnId("one")), {}) is None


words = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
sites = st.builds(StepTarget, words, words, words)
externals = st.builds(ExtRef, words, words)
maybe = words | st.none()
numbers = st.integers(0, 9) | st.none()
modes = st.sampled_from(["ro", "rw"])
event_refs = st.builds(EventRef, words, words, st.integers(0, 99)) | st.none()
shares = st.builds(
    ResourceShare, words, st.sampled_from(["keep", "snapshot", "discard"]), maybe, numbers,
    modes | st.none(),
)  # fmt: skip
steps: st.SearchStrategy[Any] = st.one_of(
    st.builds(TakeSnapshot, sites, maybe),
    st.builds(ForkResource, sites, words, words, modes, maybe, externals | st.none(), numbers),
    st.builds(RestoreResource, sites, words, externals, maybe, numbers, st.booleans()),
    st.builds(
        CreateForkSession,
        maybe,
        maybe,
        words,
        maybe,
        event_refs,
        st.lists(shares, max_size=3).map(tuple),
    ),
    st.builds(MoveHead, words, st.sampled_from(["rewind", "reset", "undo"]), maybe, maybe),
)


@given(st.lists(steps, max_size=5), words)
def test_a_plan_reads_back(drawn: list[Step], by: str) -> None:
    plan = Plan(PlanId("plan"), "fork", "here", by, tuple(drawn))
    assert plan_from_json(plan.id, plan_to_json(plan)) == plan
    canonical(plan_to_json(plan))


class Carried(RuleBasedStateMachine):
    """A plan carried out by processes that fail, lose and die, and the places it is about.

    A place is old, new, or something in between that a step left when it did not end well.
    """

    @initialize(
        kinds=st.lists(st.sampled_from(["restore", "fork", "fixed"]), min_size=1, max_size=3)
    )
    def begin(self, kinds: list[str]) -> None:
        taken: list[Step] = [TakeSnapshot(site(n)) for n, _ in enumerate(kinds)]
        acts: list[Step] = []
        for number, kind in enumerate(kinds):
            match kind:
                case "restore":
                    acts.append(restore(number))
                case "fork":
                    acts.append(fork(number))
                case _:
                    acts.append(restore(number, supported=False))
        self.plan = make_plan(*taken, *acts, MOVE)
        self.events = [plans.plan_started(self.plan, AT)]
        self.state = PlanState(self.plan)
        self.places = ["old"] * len(kinds)
        self.moved = False

    def tell(self, event: Event) -> None:
        self.state = plans.apply(self.state, event)
        self.events.append(event)

    def touch(self, number: int, to: str) -> None:
        step = self.plan.steps[number]
        if isinstance(step, ForkResource) or (isinstance(step, RestoreResource) and step.supported):
            self.places[int(step.site.place.removeprefix("/srv/"))] = to

    def at(self) -> RunStep | None:
        step = next_step(self.state)
        return step if isinstance(step, RunStep) else None

    @precondition(lambda self: self.at() is not None)
    @rule()
    def succeed(self) -> None:
        do = self.at()
        assert do is not None
        if isinstance(do.step, MoveHead):
            self.moved = True
            self.tell(plans.step_finished(self.state, do.number, StepResult("ok"), AT))
            self.tell(plans.plan_finished(self.state, "completed", AT))
            return
        if isinstance(do.step, RestoreResource) and not do.step.supported:
            seen = StepResult("unsupported", untouched=True)
            self.tell(plans.step_finished(self.state, do.number, seen, AT))
            return
        self.tell(plans.step_started(self.state, do.number, AT))
        self.touch(do.number, "new")
        self.tell(plans.step_finished(self.state, do.number, GOOD, AT))

    @precondition(lambda self: self.at() is not None)
    @rule(untouched=st.booleans())
    def fail(self, untouched: bool) -> None:  # noqa: FBT001
        do = self.at()
        assert do is not None
        if isinstance(do.step, MoveHead):
            untouched = True
        else:
            self.tell(plans.step_started(self.state, do.number, AT))
        if not untouched:
            self.touch(do.number, "between")
        seen = StepResult("error", error="no", untouched=untouched)
        self.tell(plans.step_finished(self.state, do.number, seen, AT))

    @precondition(lambda self: self.at() is not None)
    @rule(left=st.sampled_from(["old", "between", "new"]))
    def die(self, left: str) -> None:
        do = self.at()
        assert do is not None
        if not isinstance(do.step, MoveHead):
            self.tell(plans.step_started(self.state, do.number, AT))
            self.touch(do.number, left)

    @precondition(lambda self: isinstance(next_step(self.state), UndoStep))
    @rule(dies=st.booleans())
    def undo(self, dies: bool) -> None:  # noqa: FBT001
        step = next_step(self.state)
        assert isinstance(step, UndoStep)
        self.touch(step.number, "old")
        if not dies:
            self.tell(plans.compensation(self.state, step.number, 0, AT))

    @precondition(lambda self: isinstance(next_step(self.state), FinishPlan))
    @rule()
    def finish(self) -> None:
        self.tell(plans.plan_finished(self.state, "rolled_back", AT))

    @precondition(lambda self: self.state.end is not None)
    @rule()
    def look_again(self) -> None:
        assert next_step(self.state) == PlanDone(self.state.end or "completed")

    @invariant()
    def an_end_is_one_world(self) -> None:
        if not hasattr(self, "state") or self.state.end is None:
            return
        fixed = [isinstance(s, RestoreResource) and not s.supported for s in self.acts()]
        wanted = "new" if self.state.end == "completed" else "old"
        assert self.moved == (self.state.end == "completed")
        assert all(
            is_fixed or at == wanted for at, is_fixed in zip(self.places, fixed, strict=True)
        )

    @invariant()
    def whoever_reads_the_events_knows_as_much(self) -> None:
        if hasattr(self, "events"):
            stored = [from_json(to_json(event)) for event in self.events]
            assert plans.fold(stored) == self.state
            assert all(record(event).id for event in self.events)

    @invariant()
    def nothing_goes_on_for_ever(self) -> None:
        if hasattr(self, "events"):
            assert len(self.events) <= 4 * len(self.plan.steps) + 2

    def acts(self) -> list[Step]:
        half = (len(self.plan.steps) - 1) // 2
        return list(self.plan.steps[half : 2 * half])


def test_a_plan_always_ends_in_one_world() -> None:
    run_state_machine_as_test(Carried, settings=settings(max_examples=150, stateful_step_count=25))
