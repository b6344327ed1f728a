"""The spans of a run: each call once, whichever worker made it, and nothing that was said."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from tests.workshop import Workshop
from turntree.core.ids import RunId
from turntree.core.message import ToolUse
from turntree.core.run import RunEvent
from turntree.core.turn import Header
from turntree.ledger.store import Ledger
from turntree.system.trace import (
    TRACEPARENT,
    TraceParent,
    read_traceparent,
    span_of_run,
    trace_of_run,
)
from turntree.telemetry.spans import RunTrace, trace_run

pytestmark = pytest.mark.anyio
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@dataclass
class SealedRuns:
    """Keeps the traces of runs that were sealed."""

    has_content: bool = False
    traces: list[RunTrace] = field(default_factory=list[RunTrace])
    recorded: list[str] = field(default_factory=list[str])

    def note_recorded(self, facts: Sequence[RunEvent]) -> None:
        self.recorded += [fact.event.kind for fact in facts]

    def note_sealed(self, facts: Sequence[RunEvent], header: Header) -> None:
        self.traces.append(trace_run(facts, header, has_content=self.has_content))


async def drive(shop: Workshop, words: str, *, has_content: bool = False) -> RunTrace:
    """Return the trace of a run that one worker drives to its end."""
    watching = SealedRuns(has_content)
    actor = shop.actor()
    actor.observers = (watching,)
    await shop.runs().post("main", words)
    await actor.handle(shop.session)
    (trace,) = watching.traces
    return trace


async def test_run_is_a_trace_of_its_calls(shop: Workshop) -> None:
    trace = await drive(shop, "tool")
    whole, *parts = trace.spans
    run = whole.attributes["turntree.turn.id"]
    assert (whole.name, whole.parent, whole.error) == ("invoke_agent assistant", None, None)
    assert whole.attributes["gen_ai.conversation.id"] == shop.session
    assert [span.name.partition(" ")[0] for span in parts] == ["chat", "chat", "execute_tool"]
    assert {span.parent for span in parts} == {whole.id}
    assert {span.attributes["turntree.turn.id"] for span in trace.spans} == {run}
    assert len({span.id for span in trace.spans}) == 4
    first, second, tool = parts
    assert first.attributes["gen_ai.usage.output_tokens"] == 1
    assert whole.attributes["gen_ai.usage.output_tokens"] == 2
    assert first.attributes["gen_ai.provider.name"] == "scripted"
    assert first.attributes["gen_ai.request.model"] == first.attributes["gen_ai.response.model"]
    assert tool.attributes["gen_ai.tool.name"] == "nod"
    assert whole.begin_ns <= first.begin_ns <= first.end_ns <= tool.begin_ns
    assert tool.end_ns <= second.begin_ns <= second.end_ns <= whole.end_ns


async def test_run_that_another_worker_finishes_has_each_call_once(shop: Workshop) -> None:
    reached = asyncio.Event()

    async def wait_forever(use: ToolUse) -> None:
        del use
        reached.set()
        await asyncio.Event().wait()

    before, shop.tools.before = shop.tools.before, wait_forever
    lost, watching = SealedRuns(), SealedRuns()
    first, second = shop.actor("w1"), shop.actor("w2")
    first.observers, second.observers = (lost,), (watching,)
    await shop.runs().post("main", "tool tool")
    dying = asyncio.create_task(first.handle(shop.session))
    await asyncio.wait_for(reached.wait(), 30)
    dying.cancel()
    await asyncio.wait({dying})
    shop.tools.before = before
    await second.handle(shop.session)
    assert "model_call.finished" in lost.recorded
    assert lost.traces == []
    (trace,) = watching.traces
    names = [span.name.partition(" ")[0] for span in trace.spans]
    assert sorted(names) == ["chat"] * 3 + ["execute_tool"] * 2 + ["invoke_agent"]
    assert len({span.id for span in trace.spans}) == len(names)


async def test_failed_call_has_its_error_and_so_has_the_run(shop: Workshop) -> None:
    whole, *parts = (await drive(shop, "silence")).spans
    assert parts, "a model was asked"
    assert whole.error is not None
    assert whole.attributes["error.type"] == whole.error


async def test_message_continues_the_trace_that_it_came_with(shop: Workshop) -> None:
    token = TRACEPARENT.set(PARENT)
    try:
        trace = await drive(shop, "tool")
    finally:
        TRACEPARENT.reset(token)
    parent = TraceParent(0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331, is_sampled=True)
    assert (trace.trace, trace.parent) == (parent.trace, parent)
    assert trace.spans[0].parent == parent.span
    run = RunId(str(trace.spans[0].attributes["turntree.turn.id"]))
    started = (await Ledger(shop.database).facts(run))[0]
    assert started.event.data["traceparent"] == PARENT
    assert "traceparent" not in str(started.event.data.get("options"))


async def test_trace_without_a_request_has_ids_that_follow_from_the_run(shop: Workshop) -> None:
    trace = await drive(shop, "tool")
    run = RunId(str(trace.spans[0].attributes["turntree.turn.id"]))
    assert (trace.trace, trace.parent) == (trace_of_run(run), None)
    assert trace.spans[0].id == span_of_run(run, 0)


@pytest.mark.parametrize("has_content", [False, True])
async def test_what_was_said_is_told_only_if_it_is_asked_for(
    shop: Workshop, *, has_content: bool
) -> None:
    trace = await drive(shop, "tool okapi", has_content=has_content)
    told = str(trace)
    assert ("okapi" in told) is has_content
    assert ("gen_ai.tool.call.arguments" in told) is has_content


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        PARENT.upper(),
        PARENT.replace("00-", "ff-", 1),
        f"00-{'0' * 32}-{'1' * 16}-01",
        f"00-{'1' * 32}-{'0' * 16}-01",
        f"{PARENT}\n",
        f"{PARENT}-more",
    ],
)
def test_header_that_is_no_trace_counts_as_none(text: str | None) -> None:
    assert read_traceparent(text) is None


def test_header_is_written_as_it_was_read() -> None:
    assert str(read_traceparent(PARENT)) == PARENT
