"""Runs: whoever holds the facts can go on, and every way on ends in a sealed turn."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree.core import usage
from turntree.core.errors import InvalidOperation
from turntree.core.event import Event
from turntree.core.ids import RunId, Timestamp, TurnId, instant
from turntree.core.message import Message, ToolResult, ToolUse, assistant, tool, user
from turntree.core.principal import Principal
from turntree.core.run import (
    AskModel,
    CallTools,
    Done,
    Fail,
    Run,
    RunEvent,
    Seal,
    SettleCalls,
    Step,
    WaitForUnpark,
)
from turntree.core.turn import Header, seal
from turntree.core.usage import ModelCall, Usage

ID = RunId("01a0c3a8-2001-7000-8000-000000000001")
CALL = ModelCall("scripted-1", Usage(10, 5), "nobody")
STEPS_MAX = 200


@dataclass
class Journal:
    """The facts of one run, and what they amount to."""

    facts: list[RunEvent] = field(default_factory=list)
    run: Run = field(default_factory=lambda: Run(ID, 0))

    def add(self, kind: str, message: Message | None = None, **data: Any) -> None:
        at = instant(1_790_000_000_000 + self.run.seq)
        fact = RunEvent.of(Event(ID, self.run.seq, kind, at, data), message)
        self.run = self.run.apply(fact)
        self.facts.append(fact)


def started(text: str = "go") -> Journal:
    journal = Journal()
    journal.add("run.started", user(text))
    return journal


def asked(*call_ids: str) -> Journal:
    journal = started()
    journal.add("model_call.finished", assistant(*(ToolUse(id, "ls", {}) for id in call_ids)))
    return journal


def test_a_run_asks_the_model_first() -> None:
    assert started().run.next_step() == AskModel()


def test_reply_without_tool_calls_ends_run() -> None:
    journal = started()
    journal.add("model_call.started", model="scripted-1")
    assert journal.run.next_step() == AskModel(is_requested=True)
    journal.add("model_call.finished", assistant("hello"), call=usage.to_json(CALL))
    assert journal.run.next_step() == Seal("completed", (assistant("hello"),))
    assert journal.run.calls == (CALL,)
    journal.add("run.finished")
    assert journal.run.next_step() == Done()


def test_tools_are_called_before_the_model_is_asked_again() -> None:
    journal = asked("a", "b")
    assert journal.run.next_step() == CallTools((ToolUse("a", "ls", {}), ToolUse("b", "ls", {})))
    journal.add("tool_call.started", call_id="a")
    journal.add("tool_call.finished", tool(ToolResult("a", "ok", 1)), call_id="a")
    assert journal.run.next_step() == CallTools((ToolUse("b", "ls", {}),))
    journal.add("tool_call.started", call_id="b")
    journal.add("tool_call.finished", tool(ToolResult("b", "ok", 2)), call_id="b")
    assert journal.run.next_step() == AskModel()


def test_next_step_settles_lost_calls_first() -> None:
    journal = asked("b", "a")
    journal.add("tool_call.started", call_id="b")
    journal.add("tool_call.started", call_id="a")
    assert journal.run.next_step() == SettleCalls(("a", "b"))


def test_messages_may_be_appended_before_model_replies() -> None:
    journal = started("one")
    journal.add("message.appended", user("two"))
    assert journal.run.query == (user("one"), user("two"))


def test_a_parked_run_waits_until_it_is_unparked() -> None:
    journal = asked("a")
    journal.add("run.parked", reason="approval")
    assert journal.run.next_step() == WaitForUnpark("approval")
    journal.add("run.unparked")
    assert isinstance(journal.run.next_step(), CallTools)


@pytest.mark.parametrize(
    ("reason", "outcome"), [("canceled", "canceled"), ("shutdown", "interrupted")]
)
def test_an_interruption_seals_with_a_result_for_every_call(reason: str, outcome: str) -> None:
    journal = asked("a", "b")
    journal.add("tool_call.finished", tool(ToolResult("a", "ok", 1)), call_id="a")
    journal.add("run.parked", reason="approval")
    journal.add("run.interrupted", reason=reason)
    step = journal.run.next_step()
    assert isinstance(step, Seal)
    assert step.outcome == outcome
    results = {part.call_id: part.status for said in step.reply for part in said.tool_results}
    assert results == {"a": "ok", "b": "interrupted"}


def test_foreign_event_does_not_change_run() -> None:
    journal = asked("a")
    before = journal.run.next_step()
    journal.add("acme.deployed", to="production")
    assert journal.run.next_step() == before


@pytest.mark.parametrize(
    "event",
    [
        Event("another", 1, "model_call.started", instant(0), {}),
        Event(ID, 2, "model_call.started", instant(0), {}),
        Event(ID, 0, "model_call.started", instant(0), {}),
        Event(ID, 1, "run.started", instant(0), {}),
    ],
    ids=["of another run", "too far", "a place already taken", "a second start"],
)
def test_event_out_of_order_is_refused(event: Event) -> None:
    with pytest.raises(InvalidOperation):
        started().run.apply(RunEvent(event))


def test_a_run_begins_with_its_start() -> None:
    with pytest.raises(InvalidOperation, match="starts once"):
        Run.replay(ID, [RunEvent(Event(ID, 0, "model_call.started", instant(0), {}))])


@pytest.mark.parametrize("kind", ["model_call.finished", "tool_call.finished", "run.finished"])
def test_event_after_run_finished_is_refused(kind: str) -> None:
    journal = started()
    journal.add("model_call.finished", assistant("hello"))
    journal.add("run.finished")
    with pytest.raises(InvalidOperation, match="too late"):
        journal.add(kind, call_id="a")


# A scripted model says how many tools it asks for in each round; chance says what befalls the
# run between two steps: the worker may die, and others may write into the journal.
rounds = st.lists(st.integers(1, 3), max_size=4)
accidents = st.lists(
    st.sampled_from(["none", "none", "die", "foreign", "park", "shutdown", "canceled"]), max_size=20
)


@given(rounds, accidents)
def test_every_run_ends_sealed(rounds: list[int], accidents: list[str]) -> None:
    journal = drive(rounds, accidents)
    sealing = [step for step in journal.steps if isinstance(step, Seal)]
    assert len(sealing) == 1
    assert journal.steps[-2:] == [sealing[0], Done()]
    seal(HEADER, journal.run.query, sealing[0].reply)


@given(rounds, accidents)
def test_run_replay_equals_run_at_every_event(rounds: list[int], accidents: list[str]) -> None:
    journal = drive(rounds, accidents)
    run = Run(ID, 0)
    for place, fact in enumerate(journal.facts):
        assert Run.replay(ID, journal.facts[:place]) == run
        assert Run.replay(ID, journal.facts[:place]).next_step() == run.next_step()
        run = run.apply(fact)
    assert run == journal.run
    assert run.seq == len(journal.facts)


@dataclass
class Driven(Journal):
    """A journal, and the steps that were asked for on the way."""

    steps: list[Step] = field(default_factory=list)


def drive(rounds: list[int], accidents: list[str]) -> Driven:
    """Do what the run says, as a worker would, until it says that it is done."""
    journal, left, fate = Driven(), list(rounds), iter(accidents)
    journal.add("run.started", user("go"))
    for _ in range(STEPS_MAX):
        step = journal.run.next_step()
        journal.steps.append(step)
        match step:
            case AskModel():
                uses = (
                    [ToolUse(f"{len(left)}-{n}", "ls", {}) for n in range(left.pop(0))]
                    if left
                    else []
                )
                journal.add("model_call.finished", assistant("so", *uses), call=usage.to_json(CALL))
            case CallTools(calls):
                journal.add("tool_call.started", call_id=calls[0].call_id)
                # A worker that dies here leaves a call that was begun and has no result.
                if next(fate, "none") != "die":
                    answer(journal, str(calls[0].call_id), "ok")
            case SettleCalls(lost):
                for call_id in lost:
                    answer(journal, call_id, "interrupted")
            case WaitForUnpark() | Fail():
                journal.add("run.unparked")
            case Seal(outcome):
                journal.add("run.finished", outcome=outcome)
            case Done():
                return journal
        befall(journal, next(fate, "none"))
    pytest.fail(f"not done after {STEPS_MAX} steps")


def answer(journal: Journal, call_id: str, status: Any) -> None:
    journal.add("tool_call.finished", tool(ToolResult(call_id, status, None)), call_id=call_id)


def befall(journal: Journal, accident: str) -> None:
    happen: dict[str, Callable[[], None]] = {
        "foreign": lambda: journal.add("acme.deployed"),
        "park": lambda: journal.add("run.parked", reason="approval"),
        "shutdown": lambda: journal.add("run.interrupted", reason="shutdown"),
        "canceled": lambda: journal.add("run.interrupted", reason="canceled"),
    }
    if accident in happen and not journal.run.finished:
        happen[accident]()


HEADER = Header(
    TurnId(ID),
    None,
    Principal("human", "ana"),
    Timestamp("2026-09-21T14:13:20.000Z"),
    Timestamp("2026-09-21T14:13:21.000Z"),
    outcome="interrupted",
)
