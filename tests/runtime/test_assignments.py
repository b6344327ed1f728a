"""Agents at work on tasks: held by their harness, judged by criteria, told while they work."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from turntree.adapters.workplaces.folder import Folder
from turntree.adapters.worlds.system import SystemWorld
from turntree.boot import Settings, engine_on, run_on, tree_on
from turntree.domain.canonical import Json
from turntree.domain.errors import Refused
from turntree.domain.ids import RunId
from turntree.domain.program import Program
from turntree.running import Running
from turntree.runtime.assignments import brief_of, reflection_on
from turntree.store.database import Database

pytestmark = pytest.mark.anyio

CRITERION: dict[str, Json] = {"kind": "file_exists", "path": "a.md"}
WRITE = {"text": "I write.", "tools": [{"tool": "write", "args": {"path": "a.md"}}]}


@asynccontextmanager
async def at_work(
    database: Database, folder: Path, *, serves: bool = True
) -> AsyncGenerator[Running, None]:
    """A runtime whose agents work in a folder."""

    def write(path: str) -> str:
        """Write a file."""
        (folder / path).write_text("words")
        return "written"

    settings, world, engine = Settings(folder, user="ana"), SystemWorld(), engine_on(database)
    tree = tree_on(database, settings, world, workplace=Folder(folder), engine=engine)
    running = run_on(database, tree, settings, world, engine, [write])
    try:
        if serves:
            async with running.serving(stays_here=True):
                yield running
        else:
            yield running
    finally:
        await running.aclose()


async def hire(
    running: Running,
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


async def told(running: Running, name: str) -> list[str]:
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
        with pytest.raises(Refused, match="in error"):
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
        with pytest.raises(Refused, match="no agent's"):
            await running.assignments.work("second")
        await programs.assign("second", "writer")
        with pytest.raises(Refused, match="busy with paper"):
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


def canceling(running: Running) -> Callable[[object], None]:
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
