"""A world where processes die around every write, compared with a calm one.

Every world is a workspace of its own in one real database. Whatever the crashes, nothing is
lost, doubled or reordered: heads, reflogs, events and turns have the same digests.
"""

import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turntree.core.canonical import digest_bytes
from turntree.core.errors import Conflict, NotFound
from turntree.core.event import Event
from turntree.core.ids import Label, RunId, SessionId, derived_id, uuid7
from turntree.core.message import (
    Message,
    ToolResult,
    ToolUse,
    assistant,
    line_of,
    tool,
    user,
)
from turntree.core.run import Run, RunEvent, Seal, SettleCalls
from turntree.core.viewer import EVERYTHING
from turntree.db.database import open_database, prepare_database
from turntree.ledger.session_store import ReflogStore, SessionStore
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.testing.fakes import START_MS, Crash, CrashingLedger, CrashPlan, Fate
from turntree.testing.scenarios import (
    STORY,
    ForkStep,
    OtherWriter,
    PostStep,
    RewindStep,
    Scene,
    UndoMove,
    moment,
    picture,
    play,
)

pytestmark = pytest.mark.slow

DEATHS: tuple[Fate, ...] = ("die before", "die after")
_worlds = itertools.count(1)


@asynccontextmanager
async def a_world(conninfo: str) -> AsyncGenerator[OtherWriter, None]:
    """Open a workspace in which nothing has happened yet."""
    number = next(_worlds)
    workspace = await prepare_database(conninfo, f"world {number}", uuid7(START_MS, number))
    async with open_database(conninfo, workspace, connections_max=1, sight=EVERYTHING) as database:
        yield OtherWriter(
            Ledger(database),
            SessionStore(database),
            ReflogStore(database),
            ThreadStore(database),
        )


async def told(conninfo: str, story: Sequence[Scene], dying: CrashPlan) -> dict[str, Any]:
    async with a_world(conninfo) as world:
        return await play(world, story, dying)


def test_dying_before_or_after_any_write_changes_nothing(conninfo: str) -> None:
    async def compare() -> None:
        calm = CrashPlan()
        expected = await told(conninfo, STORY, calm)
        for place in range(calm.writes):
            for fate in DEATHS:
                script: list[Fate] = [*living(place), fate]
                assert await told(conninfo, STORY, CrashPlan(script)) == expected, script
        assert calm.writes == 42

    anyio.run(compare)


def test_dying_again_while_recovering_changes_nothing(conninfo: str) -> None:
    story = STORY[1:3]

    async def compare() -> None:
        calm = CrashPlan()
        expected = await told(conninfo, story, calm)
        for place in range(calm.writes):
            for fates in itertools.product(DEATHS, repeat=2):
                script: list[Fate] = [*living(place), *fates]
                assert await told(conninfo, story, CrashPlan(script)) == expected, script

    anyio.run(compare)


def living(writes: int) -> list[Fate]:
    return ["live" for _ in range(writes)]


sessions = st.sampled_from(["main", "side"])
scenes = st.one_of(
    st.builds(
        PostStep,
        sessions,
        st.sampled_from(["hello", "tool", "tools tool", "silence", "tools silence"]),
    ),
    st.builds(ForkStep, sessions, st.sampled_from(["side", "third"])),
    st.builds(RewindStep, sessions),
    st.builds(UndoMove, sessions),
)
fates = st.lists(st.sampled_from(["live", "die before", "die after"]), max_size=40)


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(scenes, min_size=1, max_size=6), fates)
def test_crashes_leave_no_trace(conninfo: str, story: list[Scene], fates: list[Fate]) -> None:
    async def both() -> None:
        assert await told(conninfo, story, CrashPlan(fates)) == await told(
            conninfo, story, CrashPlan()
        )

    anyio.run(both)


def test_simulation_detects_lost_write(conninfo: str) -> None:
    """The control: the picture shows a single scene, and a single word, that is missing."""

    async def compare() -> None:
        whole = await told(conninfo, STORY, CrashPlan())
        assert await told(conninfo, STORY[:-1], CrashPlan()) != whole
        other = (PostStep("main", "hallo"), *STORY[1:])
        assert await told(conninfo, other, CrashPlan()) != whole

    anyio.run(compare)


RUN = RunId(uuid7(START_MS, 1))
SESSION = SessionId(derived_id(START_MS, "session"))


async def a_run_with_a_begun_call(world: OtherWriter) -> tuple[int, list[RunEvent]]:
    await world.sessions.create(SESSION, Label("main"), by="human:ana", at=moment(0, 0))
    facts = [
        fact(0, "run.started", user("delete it")),
        fact(1, "model_call.finished", assistant(ToolUse("1", "delete", {}))),
        fact(2, "tool_call.started", call_id="1"),
    ]
    epoch = await world.ledger.start(RUN, SESSION, facts[0])
    for later in facts[1:]:
        await world.ledger.append_fact(later, epoch=epoch)
    return epoch, facts


def fact(seq: int, kind: str, said: Message | None = None, **data: Any) -> RunEvent:
    if said is not None:
        data["message"] = digest_bytes(line_of(said))
    return RunEvent.of(Event(RUN, seq, kind, moment(0, seq), data), said)


def in_a_world(conninfo: str, story: Callable[[OtherWriter], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with a_world(conninfo) as world:
            await story(world)

    anyio.run(tell)


def test_a_lost_call_of_a_tool_that_may_not_be_repeated_is_settled_as_interrupted(
    conninfo: str,
) -> None:
    async def story(world: OtherWriter) -> None:
        _, facts = await a_run_with_a_begun_call(world)
        assert await world.ledger.facts(RUN) == facts
        epoch = await world.ledger.take(RUN)
        run = Run.replay(RUN, await world.ledger.facts(RUN))
        assert run.next_step() == SettleCalls(("1",))
        settled = fact(
            3, "tool_call.finished", tool(ToolResult("1", "interrupted", "crash")), call_id="1"
        )
        await world.ledger.append_fact(settled, epoch=epoch)
        await world.ledger.append_fact(fact(4, "run.interrupted", reason="crash"), epoch=epoch)
        step = Run.replay(RUN, await world.ledger.facts(RUN)).next_step()
        assert isinstance(step, Seal)
        assert [part.status for said in step.reply for part in said.tool_results] == ["interrupted"]

    in_a_world(conninfo, story)


def test_a_worker_that_was_only_slow_loses_to_the_one_that_took_over(conninfo: str) -> None:
    async def story(world: OtherWriter) -> None:
        slow, _ = await a_run_with_a_begun_call(world)
        quick = await world.ledger.take(RUN)
        late = fact(3, "tool_call.finished", tool(ToolResult("1", "ok", "gone")), call_id="1")
        with pytest.raises(Conflict, match="taken over"):
            await world.ledger.append_fact(late, epoch=slow)
        settled = fact(
            3, "tool_call.finished", tool(ToolResult("1", "interrupted", "crash")), call_id="1"
        )
        assert await world.ledger.append_fact(settled, epoch=quick)
        with pytest.raises(Conflict, match="another fact holds place 3"):
            await world.ledger.append_fact(late, epoch=slow)

    in_a_world(conninfo, story)


def test_a_crash_before_the_start_leaves_nothing_at_all(conninfo: str) -> None:
    async def story(world: OtherWriter) -> None:
        dead = CrashingLedger(world.ledger.database, CrashPlan(["die before"]))
        with pytest.raises(Crash):
            await dead.start(RUN, None, fact(0, "run.started", user("hello")))
        assert await world.ledger.facts(RUN) == []
        with pytest.raises(NotFound):
            await world.ledger.take(RUN)
        assert await picture(world, [UndoMove("main")]) == {}

    in_a_world(conninfo, story)
