"""Agents at work on tasks: held by their harness, judged by criteria, told while they work."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from turntree.agents.assignments import brief_of, reflection_on
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.permissions import Permissions, actions
from turntree.boot.open import Settings, engine_on, run_on, tree_on
from turntree.boot.worker import WorkerRuntime
from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.ids import RunId
from turntree.core.principal import Principal
from turntree.core.program import Program
from turntree.db.database import Database
from turntree.programs.execution_host import LocalFolder
from turntree.system.clock import SystemClock

pytestmark = pytest.mark.anyio

CRITERION: dict[str, Json] = {"kind": "file_exists", "path": "a.md"}
WRITE = {"text": "I write.", "tools": [{"tool": "write", "args": {"path": "a.md"}}]}


@asynccontextmanager
async def at_work(
    database: Database, folder: Path, *, serves: bool = True, oversees: bool = False
) -> AsyncGenerator[WorkerRuntime, None]:
    """A runtime whose agents work in a folder."""

    def write(path: str) -> str:
        """Write a file."""
        (folder / path).write_text("words")
        return "written"

    settings, world, engine = Settings(folder, user="ana"), SystemClock(), engine_on(database)
    tree = tree_on(database, settings, world, workplace=LocalFolder(folder), engine=engine)
    running = run_on(database, tree, settings, world, engine, [write])
    try:
        if serves:
            async with running.serving(stays_here=True, oversees=oversees):
                yield running
        else:
            yield running
    finally:
        await running.aclose()


async def hire(
    running: WorkerRuntime,
    rules: Sequence[Mapping[str, Any]],
    *,
    criteria: Sequence[Json] = (CRITERION,),
    **harness: Json,
) -> Program:
    """Make an agent and a task, and give the one to the other."""
    programs = running.tree.programs
    script: dict[str, Json] = {"provider_type": "scripted", "rules": [dict(one) for one in rules]}
    await programs.create("provider", "script", script)
    model: dict[str, Json] = {"model_id": "scripted-1", "provider": "@(script)"}
    await programs.create("model", "m", model)
    agent: dict[str, Json] = {"default_model": "@(m)", "system_prompt": "You write."}
    await programs.create("agent", "writer", {**agent, "harness": harness})
    task: dict[str, Json] = {"title": "Write a.md", "spec": {"success_criteria": [*criteria]}}
    await programs.create("task", "paper", task)
    return await programs.assign("paper", "writer")


async def told(running: WorkerRuntime, name: str) -> list[str]:
    program = await running.tree.programs.get(name)
    return [fact.event.kind for fact in await running.tree.ledger.facts(program.id)]


async def test_an_agent_works_until_the_criteria_are_met(
    database: Database, tmp_path: Path
) -> None:
    async with at_work(database, tmp_path) as running:
        await hire(running, [{"when": "", "replies": [WRITE, {"text": "Done."}]}])
        done = await running.assignments.work("paper")
        assert done.task.state == "completed"
        assert [one["ok"] for one in done.verdicts] == [True]
        (placed,) = done.turns
        assert str(placed.turn.header.by) == "agent:writer"
        assert str(placed.turn.header.by.on_behalf_of) == "human:ana"
        assert await told(running, "writer") == [
            "agent.created", "agent.task_assigned", "agent.thinking", "agent.executing",
            "agent.thinking", "agent.executing", "agent.completed",
        ]  # fmt: skip
        assert await told(running, "paper") == [
            "task.created", "task.assigned", "task.started", "task.checked", "task.completed",
        ]  # fmt: skip
        assert (await running.tree.programs.get("writer")).state == "idle"


async def test_a_task_is_worked_on_with_the_rights_under_which_it_was_assigned(
    database: Database, tmp_path: Path
) -> None:
    async with at_work(database, tmp_path) as running:
        await hire(running, [{"when": "", "replies": [WRITE, {"text": "Done."}]}])
        narrow = ExecutionContext.begin(Principal("human", "ana"), Permissions(actions("*")))
        assigned = await running.tree.act_as(narrow).programs.assign("paper", "writer")
        assert assigned.details["given_chain"] == narrow.links
        # Driven by a process that has all rights.
        done = await running.assignments.work("paper")
        assert done.task.state == "failed"
        assert not (tmp_path / "a.md").exists()
        (placed,) = done.turns
        facts = await running.tree.ledger.facts(placed.turn.id)
        denied = [fact.event.data for fact in facts if fact.event.kind == "permission.denied"]
        assert [data["permission"] for data in denied] == ["tool:write"]


async def test_a_task_that_is_assigned_again_has_the_rights_of_the_last_time(
    database: Database, tmp_path: Path
) -> None:
    async with at_work(database, tmp_path) as running:
        await hire(running, [{"when": "", "replies": [WRITE, {"text": "Done."}]}])
        narrow = ExecutionContext.begin(Principal("human", "ana"), Permissions(actions("*")))
        await running.tree.act_as(narrow).programs.assign("paper", "writer")
        wide = await running.tree.programs.assign("paper", "writer")
        assert "given_chain" not in wide.details
        assert (await running.assignments.work("paper")).task.state == "completed"


async def test_an_agent_that_reflects_gets_one_more_turn(
    database: Database, tmp_path: Path
) -> None:
    rules: list[dict[str, Any]] = [
        {"when": "not done", "replies": [WRITE, {"text": "I forgot."}]},
        {"when": "", "replies": [{"text": "Done."}]},
    ]
    async with at_work(database, tmp_path) as running:
        await hire(running, rules, reflect_on_failure=True)
        done = await running.assignments.work("paper")
        assert done.task.state == "completed"
        first, second = done.turns
        assert second.parent == first.turn.id
        assert "file_exists: a.md is not there" in second.turn.query[0].text


async def test_an_agent_that_does_not_reflect_has_failed(
    database: Database, tmp_path: Path
) -> None:
    async with at_work(database, tmp_path) as running:
        await hire(running, [{"when": "", "replies": [{"text": "Done."}]}])
        done = await running.assignments.work("paper")
        assert done.task.state == "failed"
        assert (await running.tree.programs.get("writer")).state == "idle"
        assert (await told(running, "paper"))[-1] == "task.failed"


async def test_an_agent_that_goes_on_for_ever_is_stopped(
    database: Database, tmp_path: Path
) -> None:
    async with at_work(database, tmp_path) as running:
        await hire(running, [{"when": "", "replies": [WRITE] * 9}], max_turns=3)
        done = await running.assignments.work("paper")
        assert done.task.state == "failed"
        (placed,) = done.turns
        assert placed.turn.header.outcome == "failed"
        agent = await running.tree.programs.get("writer")
        assert agent.state == "error"
        assert agent.config["harness"] == {"max_steps": 3}
        await running.tree.programs.create("task", "next", {"title": "Next"})
        await running.tree.programs.assign("next", "writer")
        with pytest.raises(InvalidOperation, match="in error"):
            await running.assignments.work("next")


async def test_checkpoints_say_how_far_it_is(database: Database, tmp_path: Path) -> None:
    async with at_work(database, tmp_path) as running:
        replies = [WRITE, WRITE, WRITE, WRITE, {"text": "Done."}]
        await hire(running, [{"when": "", "replies": replies}], checkpoint_every=2)
        await running.assignments.work("paper")
        assert (await told(running, "writer")).count("agent.checkpoint") == 2
        agent = await running.tree.programs.get("writer")
        assert (agent.details["turn_count"], agent.details["last_checkpoint"]) == (5, 4)


async def test_a_task_without_criteria_is_done_when_its_agent_says_so(
    database: Database, tmp_path: Path
) -> None:
    async with at_work(database, tmp_path) as running:
        await hire(running, [{"when": "", "replies": [{"text": "Done."}]}], criteria=())
        assert (await running.assignments.work("paper")).task.state == "completed"


@pytest.mark.slow
async def test_whoever_begins_again_repeats_nothing(database: Database, tmp_path: Path) -> None:
    rules = [{"when": "", "replies": [WRITE, WRITE, {"text": "Done."}]}]
    async with at_work(database, tmp_path, serves=False) as running:
        await hire(running, rules, checkpoint_every=1)
        _, _, first = await running.assignments.begin("paper")
        _, _, again = await running.assignments.begin("paper")
        assert again.repeated
        assert again.run == first.run
    async with at_work(database, tmp_path) as running:
        await running.tree.runs.wait(first.run)
        done = await running.assignments.work("paper")
        assert [RunId(placed.turn.id) for placed in done.turns] == [first.run]
        assert done.task.state == "completed"
        assert (await told(running, "writer")).count("agent.checkpoint") == 3


async def test_only_whoever_it_was_given_to_works_on_it(database: Database, tmp_path: Path) -> None:
    async with at_work(database, tmp_path, serves=False) as running:
        await hire(running, [])
        programs = running.tree.programs
        await programs.create("task", "second", {"title": "Second"})
        with pytest.raises(InvalidOperation, match="is not assigned to an agent"):
            await running.assignments.work("second")
        await programs.assign("second", "writer")
        with pytest.raises(InvalidOperation, match="busy with paper"):
            await running.assignments.work("second")


async def test_a_canceled_task_may_be_given_again(database: Database, tmp_path: Path) -> None:
    slow = {"text": "word " * 50, "delay_s": 30}
    async with at_work(database, tmp_path) as running:
        await hire(running, [{"when": "", "replies": [slow]}])
        hear = canceling(running)
        done = await running.assignments.work("paper", hear)
        assert done.task.state == "blocked"
        assert done.turns[0].turn.header.outcome == "canceled"
        agent = await running.tree.programs.get("writer")
        assert agent.state == "idle"
        assert "current_task" not in agent.details
        again = await running.tree.programs.assign("paper", "writer")
        assert again.details["session"] == "writer:paper-2"


async def test_an_agent_whose_task_goes_to_another_is_free(
    database: Database, tmp_path: Path
) -> None:
    async with at_work(database, tmp_path, serves=False) as running:
        await hire(running, [])
        programs = running.tree.programs
        await programs.create("agent", "second", {"default_model": "@(m)"})
        await programs.create("task", "other", {"title": "Other"})
        await programs.assign("other", "writer")
        await running.assignments.begin("paper")
        await programs.tell("writer", "agent.thinking", to="thinking")
        await programs.move("paper", "blocked")
        assert (await programs.get("writer")).state == "idle"
        assert "current_task" not in (await programs.get("writer")).details
        given = await programs.assign("paper", "second")
        assert given.details["session"] == "second:paper"
        # What waited for the first is begun now, and what was taken from it changes nothing of it.
        await running.assignments.begin("other")
        assert (await programs.get("writer")).details["current_session"] == "writer:other"
        await programs.move("paper", "failed")
        assert (await programs.get("writer")).details["current_task"] == "other"
        assert "current_task" not in (await programs.get("second")).details


async def test_a_pending_task_given_to_another_leaves_nobody_behind(
    database: Database, tmp_path: Path
) -> None:
    async with at_work(database, tmp_path, serves=False) as running:
        await hire(running, [])
        programs = running.tree.programs
        await programs.create("human", "ana", {})
        given = await programs.assign("paper", "ana")
        assert "session" not in given.details
        assert "current_task" not in (await programs.get("writer")).details
        with pytest.raises(InvalidOperation, match="is not assigned to an agent"):
            await running.assignments.begin("paper")


@pytest.mark.slow
async def test_whoever_lost_a_task_while_working_on_it_neither_judges_nor_moves(
    database: Database, tmp_path: Path
) -> None:
    slow = {"text": "Done.", "delay_s": 2}
    async with at_work(database, tmp_path) as running:
        await hire(running, [{"when": "", "replies": [slow]}])
        programs = running.tree.programs
        await programs.create("agent", "second", {"default_model": "@(m)"})
        taking: list[asyncio.Future[Program]] = []

        async def take() -> Program:
            await programs.move("paper", "blocked")
            return await programs.assign("paper", "second")

        def hear(heard: object) -> None:
            if not taking:
                taking.append(asyncio.ensure_future(take()))

        done = await running.assignments.work("paper", hear)
        assert taking[0].done()
        assert (done.task.state, done.task.details["assignee"]) == ("blocked", "second")
        assert "task.checked" not in await told(running, "paper")
        assert (await programs.get("writer")).state == "idle"


@pytest.mark.slow
async def test_what_was_started_is_seen_through_by_an_overseer(
    database: Database, tmp_path: Path
) -> None:
    async with at_work(database, tmp_path, oversees=True) as running:
        programs = running.tree.programs
        await hire(running, [{"when": "", "replies": [WRITE, {"text": "Done."}]}])
        await programs.create("task", "next", {"title": "Next"})
        await programs.assign("next", "writer")
        # The agent is busy with the first, and begins with the second when it is free.
        await programs.invoke("next", {"action": "start"})
        await programs.invoke("paper", {"action": "start"})
        await ended(running, "paper")
        await ended(running, "next")
        assert await told(running, "next") == [
            "task.created", "task.assigned", "task.started", "task.completed",
        ]  # fmt: skip
        agent = await programs.get("writer")
        assert agent.state == "idle"
        assert "current_task" not in agent.details


@pytest.mark.slow
async def test_an_error_that_nobody_foresaw_in_one_task_leaves_the_others(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with at_work(database, tmp_path, serves=False) as running:
        programs, holding = running.tree.programs, running.assignments.holding
        task = await hire(running, [{"when": "", "replies": [{"text": "Done."}]}], criteria=())

        @asynccontextmanager
        async def breaking(key: str) -> AsyncGenerator[bool, None]:
            if key.endswith(task.id):
                raise OSError("the disk is gone")
            async with holding(key) as is_held:
                yield is_held

        running.assignments = replace(running.assignments, holding=breaking)
        await programs.create("agent", "other", {"default_model": "@(m)"})
        await programs.create("task", "next", {"title": "Next", "assignee": "@(other)"})
        async with running.serving(stays_here=True, oversees=True):
            await programs.invoke("paper", {"action": "start"})
            with anyio.fail_after(60):
                while "the disk is gone" not in caplog.text:  # noqa: ASYNC110
                    await anyio.sleep(0.1)
            await programs.invoke("next", {"action": "start"})
            await ended(running, "next")
        assert (await programs.get("paper")).state == "active"
        assert caplog.text.count("OSError: the disk is gone") == 1


@pytest.mark.slow
async def test_whoever_looks_on_hears_the_turn_and_how_it_ended(
    database: Database, tmp_path: Path
) -> None:
    slow = {"text": "Done.", "delay_s": 1}
    async with at_work(database, tmp_path) as running:
        task = await hire(running, [{"when": "", "replies": [slow]}], criteria=())
        taken = asyncio.ensure_future(running.assignments.take(task))
        heard: list[object] = []
        while not await running.tree.runs.list_open("writer:paper"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        done = await running.assignments.work("paper", heard.append)
        first = await taken
        assert first is not None
        assert done.task.state == first.task.state == "completed"
        assert [one.turn.id for one in done.turns] == [one.turn.id for one in first.turns]
        assert heard
        assert (await told(running, "paper")).count("task.completed") == 1
        assert await running.assignments.take(task) is None


async def ended(running: WorkerRuntime, name: str) -> None:
    """Wait until a task is judged."""
    with anyio.fail_after(60):
        while (await running.tree.programs.get(name)).state == "active":  # noqa: ASYNC110
            await anyio.sleep(0.1)


def canceling(running: WorkerRuntime) -> Callable[[object], None]:
    """Return what asks for the end of a run as soon as it has begun."""
    tasks: set[asyncio.Task[Any]] = set()

    def hear(heard: object) -> None:
        if not tasks:
            tasks.add(asyncio.ensure_future(running.tree.runs.cancel("writer:paper")))

    return hear


async def test_the_words_of_a_task_and_of_what_is_missing(
    database: Database, tmp_path: Path
) -> None:
    async with at_work(database, tmp_path, serves=False) as running:
        spec: dict[str, Json] = {
            "inputs": ["notes.txt"],
            "constraints": ["short"],
            "success_criteria": [CRITERION],
        }
        config: dict[str, Json] = {"title": "Write it", "description": "Well.", "spec": spec}
        task = await running.tree.programs.create("task", "t", config)
        assert brief_of(task) == (
            "Write it\n\nWell.\n\nInputs:\n- notes.txt\n\nConstraints:\n- short\n\n"
            "It is done when:\n- file_exists: path a.md"
        )
    verdicts: list[dict[str, Json]] = [
        {"kind": "file_exists", "ok": True, "seen": "a"},
        {"kind": "word_count", "ok": False, "seen": "b has 2 words"},
    ]
    said = reflection_on(verdicts)
    assert said.startswith("The task is not done. This was seen:\n- word_count: b has 2 words\n")
