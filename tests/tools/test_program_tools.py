"""Programs as tools: a model calls what its agent lists, run in a sandbox or not at all."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from turntree.boot.open import Settings, engine_on, run_on, tree_on
from turntree.boot.worker import WorkerRuntime
from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation
from turntree.core.message import Message, ToolResult
from turntree.core.program import Program
from turntree.core.thread import ThreadTurn
from turntree.db.database import Database
from turntree.integrity.fsck import fsck
from turntree.programs.execution_host import LocalFolder
from turntree.sandbox.bubblewrap import Bubblewrap
from turntree.sandbox.sandbox import Sandbox
from turntree.system.clock import SystemClock
from turntree.tools.program_tools import spec_of

pytestmark = pytest.mark.anyio

needs_sandbox = pytest.mark.skipif(
    Bubblewrap().find_fault() is not None, reason="no sandbox starts here"
)
ADD = "import json, sys\nd = json.load(sys.stdin)\nprint(json.dumps(d['a'] + d['b']))"
SHAPE: dict[str, Json] = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
CODE: dict[str, Json] = {"language": "python", "source": ADD, "input_schema": SHAPE}


@asynccontextmanager
async def at_work(
    database: Database, folder: Path, find_sandbox: Callable[[], Sandbox] = Bubblewrap
) -> AsyncGenerator[WorkerRuntime, None]:
    """A runtime that also has a function, which no agent here lists."""

    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    settings, world, engine = Settings(folder, user="ana"), SystemClock(), engine_on(database)
    place = LocalFolder(folder, find_sandbox=find_sandbox)
    tree = tree_on(database, settings, world, workplace=place, engine=engine)
    running = run_on(database, tree, settings, world, engine, [shout])
    try:
        async with running.serving(stays_here=True):
            yield running
    finally:
        await running.aclose()


async def furnish(running: WorkerRuntime, args: Json, **code: Json) -> Program:
    """Make an agent whose model calls ``add`` once."""
    programs = running.tree.programs
    calls: list[Json] = [{"tools": [{"tool": "add", "args": args}]}, {"text": "Done."}]
    script: dict[str, Json] = {
        "provider_type": "scripted",
        "rules": [{"when": "", "replies": calls}],
    }
    await programs.create("provider", "script", script)
    await programs.create("model", "m", {"model_id": "scripted-1", "provider": "@(script)"})
    made = await programs.create("code", "add", {**CODE, **code})
    await programs.create("agent", "clerk", {"default_model": "@(m)", "tools": ["@(add)"]})
    return made


async def ask(running: WorkerRuntime) -> tuple[ThreadTurn, ToolResult]:
    """Return the turn, and what the tool answered in it."""
    posted = await running.tree.runs.post("main", "the sum", agent="clerk")
    placed = await running.tree.runs.wait(posted.run, timeout_s=60)
    (result,) = [
        part
        for said in placed.turn.reply
        if isinstance(said, Message)
        for part in said.parts
        if isinstance(part, ToolResult)
    ]
    return placed, result


@needs_sandbox
async def test_a_model_has_a_program_run(database: Database, tmp_path: Path) -> None:
    async with at_work(database, tmp_path) as running:
        code = await furnish(running, {"a": 20, "b": 22})
        placed, result = await ask(running)
        assert (result.status, result.output) == ("ok", 42)
        facts = await running.tree.ledger.facts(placed.turn.id)
        assert [fact.event.kind for fact in facts].count("tool_call.started") == 1
        request: dict[str, Any] = next(
            dict(fact.event.data) for fact in facts if fact.event.kind == "model_call.started"
        )
        assert request["tools"] == ["add", "ledger.recall", "ledger.read"]
        told = [fact.event for fact in await running.tree.ledger.facts(code.id)]
        assert [event.kind for event in told] == ["code.created", "code.invoked", "code.finished"]
        assert told[1].data["run"] == placed.turn.id
    assert await fsck(database) == []


@needs_sandbox
async def test_what_does_not_fit_its_shape_is_not_run(database: Database, tmp_path: Path) -> None:
    async with at_work(database, tmp_path) as running:
        code = await furnish(running, {"a": "many"})
        _, result = await ask(running)
        assert result.status == "error"
        assert "'many' is not of type 'integer'" in str(result.output)
        assert len(await running.tree.ledger.facts(code.id)) == 1


async def test_where_no_sandbox_starts_nothing_is_run(database: Database, tmp_path: Path) -> None:
    async with at_work(database, tmp_path, lambda: Bubblewrap(bwrap=None)) as running:
        await furnish(running, {"a": 1, "b": 2})
        placed, result = await ask(running)
        assert placed.turn.header.outcome == "completed"
        assert result.status == "error"
        assert "no sandbox" in str(result.output)


@needs_sandbox
async def test_a_pinned_version_is_the_one_that_is_run(database: Database, tmp_path: Path) -> None:
    async with at_work(database, tmp_path) as running:
        code = await furnish(running, {})
        programs = running.tree.programs
        await programs.configure("add", {"source": "print('7')"})
        request: dict[str, Json] = {"a": 1, "b": 2}
        assert await programs.invoke("add", request, version=code.version.digest) == {"output": 3}
        assert await programs.invoke("add", request) == {"output": 7}


async def test_what_a_model_is_told_follows_from_the_config(
    database: Database, tmp_path: Path
) -> None:
    async with at_work(database, tmp_path) as running:
        code = await furnish(running, {}, description="Adds.", repeatable=True, timeout_s=3)
        spec = spec_of(code)
        assert (spec.name, spec.description, spec.parameters) == ("add", "Adds.", SHAPE)
        assert (spec.is_repeatable, spec.timeout_s, spec.program) == (True, 13, "@(add)")
        programs = running.tree.programs
        plain: dict[str, Json] = {"language": "python", "source": "x"}
        any_input = spec_of(await programs.create("code", "any", plain))
        assert (any_input.parameters, any_input.is_repeatable) == ({"type": "object"}, False)
        with pytest.raises(InvalidOperation, match="cannot be a tool"):
            spec_of(await programs.create("code", "a.b", plain))
        with pytest.raises(InvalidOperation, match="schema of an object"):
            await programs.create("code", "bad", {**plain, "input_schema": {"type": "array"}})
