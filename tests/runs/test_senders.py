"""What a message is answered with is found by whoever sent it, not by whoever happens to serve."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from turntree.api import Tree
from turntree.boot.open import Settings, engine_on, run_on, tree_on
from turntree.core.canonical import Json
from turntree.core.errors import PermissionDenied
from turntree.core.ids import RunId
from turntree.core.message import Message, ToolResult, assistant, user
from turntree.core.principal import Principal
from turntree.core.program import Visibility
from turntree.core.run import Caller
from turntree.db.database import Database
from turntree.programs.execution_host import LocalFolder
from turntree.sandbox.bubblewrap import Bubblewrap
from turntree.system.clock import SystemClock

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def served_by_ana(
    database: Database, folder: Path, *tools: object
) -> AsyncGenerator[tuple[Tree, Tree]]:
    """The tree as ana sees it, whose worker serves, and as bob sees it; no program can be run."""
    world, engine = SystemClock(), engine_on(database)
    place = LocalFolder(folder, find_sandbox=lambda: Bubblewrap(bwrap=None))
    hers, his = (Settings(folder, user=user) for user in ("ana", "bob"))
    ana = tree_on(database, hers, world, workplace=place, engine=engine)
    bob = tree_on(database, his, world, engine=engine)
    running = run_on(database, ana, hers, world, engine, tools)
    try:
        async with running.serving(stays_here=True):
            yield ana, bob
    finally:
        await running.aclose()


async def add_model(
    tree: Tree,
    name: str,
    *,
    visibility: Visibility = "public",
    calls: str | None = None,
    args: Mapping[str, Json] | None = None,
) -> None:
    """Make a model that says its own name, with a provider; it may call a tool before."""
    replies: list[Json] = [{"text": f"I am {name}."}]
    if calls is not None:
        replies.insert(0, {"tools": [{"tool": calls, "args": dict(args or {})}]})
    rules: list[Json] = [{"when": "", "replies": replies}]
    script: dict[str, Json] = {"provider_type": "scripted", "rules": rules}
    await tree.programs.create("provider", f"{name}-script", script, visibility=visibility)
    config: dict[str, Json] = {"model_id": "scripted-1", "provider": f"@({name}-script)"}
    await tree.programs.create("model", name, config, visibility=visibility)


async def send(tree: Tree, session: str, **asked: Any) -> str:
    """Return what was answered, or why nothing was."""
    posted = await tree.runs.post(session, "Who are you?", **asked)
    placed = await tree.runs.wait(posted.run, timeout_s=60)
    if placed.turn.header.outcome != "completed":
        facts = await tree.ledger.facts(posted.run)
        return str(facts[-2].event.data)
    said = placed.turn.reply[-1]
    assert isinstance(said, Message)
    return said.text


async def test_a_private_session_is_answered_as_its_owner_configured_it(
    database: Database, tmp_path: Path
) -> None:
    async with served_by_ana(database, tmp_path) as (ana, bob):
        await add_model(ana, "hers")
        await add_model(bob, "his", visibility="private")
        config: dict[str, Json] = {"default_model": "@(his)"}
        await bob.programs.create("session", "quiet", config, visibility="private")
        assert await send(bob, "quiet") == "I am his."


async def test_code_tool_runs_as_sender_of_message(database: Database, tmp_path: Path) -> None:
    async with served_by_ana(database, tmp_path) as (_, bob):
        await add_model(bob, "his", visibility="private", calls="add")
        code: dict[str, Json] = {"language": "python", "source": "print(1)"}
        made = await bob.programs.create("code", "add", code, visibility="private")
        agent: dict[str, Json] = {"default_model": "@(his)", "tools": ["@(add)"]}
        await bob.programs.create("agent", "clerk", agent, visibility="private")
        assert await send(bob, "main", agent="clerk") == "I am his."
        told = [fact.event for fact in await bob.ledger.facts(made.id)]
        assert told[1].kind == "code.invoked"
        assert {event.data["by"] for event in told} == {"human:bob"}


async def test_a_strangers_model_answers_only_where_it_is_named(
    database: Database, tmp_path: Path
) -> None:
    async with served_by_ana(database, tmp_path) as (ana, bob):
        await add_model(ana, "hers")
        model = await ana.programs.get("hers")
        marks, now = ana.turns.marks, ana.turns.world.now()
        await marks.set_tag(model.id, "default", on=True, by="human:ana", at=now)
        refused = await send(bob, "main")
        assert "hers (human:ana's)" in refused
        assert "'action': 'model.choose'" in refused
        assert await send(bob, "main", model="hers") == "I am hers."
        # A session of hers is answered by what she has, whoever sends.
        await ana.programs.create("session", "shared", {})
        assert await send(bob, "shared") == "I am hers."
        await add_model(bob, "his")
        assert await send(bob, "main") == "I am his."


async def test_only_folders_that_the_workers_user_attached_are_recorded(
    database: Database, tmp_path: Path
) -> None:
    folder = tmp_path / "hers"
    folder.mkdir()

    def write() -> str:
        """Write a file."""
        (folder / "diary.txt").write_text("dear diary", encoding="utf-8")
        return "written"

    async with served_by_ana(database, tmp_path, write) as (ana, bob):
        await add_model(bob, "his", calls="write")
        await bob.turns.record("his", [user("hello")], [assistant("hi")])
        await bob.resources.ensure_directory(str(folder), "his")
        assert await send(bob, "his", model="his") == "I am his."
        assert await bob.resources.pins_of("his") == []
        (folder / "diary.txt").unlink()
        await ana.turns.record("shared", [user("hello")], [assistant("hi")])
        await ana.resources.ensure_directory(str(folder), "shared")
        assert await send(bob, "shared", model="his") == "I am his."
        (pinned,) = await bob.resources.pins_of("shared")
        assert pinned.before is not None
        assert pinned.before != pinned.after


@pytest.mark.parametrize("name", ["human:ana", "system:root", "agent:secret"])
async def test_nobody_sends_in_the_name_of_another(
    database: Database, tmp_path: Path, name: str
) -> None:
    async with served_by_ana(database, tmp_path) as (ana, bob):
        await add_model(ana, "hers", visibility="private")
        await ana.programs.create(
            "agent", "secret", {"default_model": "@(hers)"}, visibility="private"
        )
        await ana.programs.grant("secret", "agent:secret", "invoke")
        kind, _, id = name.partition(":")
        other = Principal(kind, id)  # type: ignore[arg-type]
        with pytest.raises(PermissionDenied, match=f"human:bob cannot send as {name}"):
            await bob.runs.post("main", "Who are you?", by=other, agent="secret")
        forged = Caller(RunId(bob.turns.world.new_id()), "call", other, ())
        with pytest.raises(PermissionDenied, match=f"human:bob cannot send as {name}"):
            await bob.runs.post("main", "Who are you?", caller=forged, agent="secret")


async def test_eight_runs_may_wait_for_one_another(database: Database, tmp_path: Path) -> None:
    """Each agent asks the next one; the ninth is told to answer without asking."""
    async with served_by_ana(database, tmp_path) as (ana, _):
        await add_model(ana, "last")
        after = "last"
        for number in range(10, 0, -1):
            await add_model(ana, f"m{number}", calls=after, args={"message": "next"})
            config: dict[str, Json] = {"default_model": f"@(m{number})", "tools": [f"@({after})"]}
            after = (await ana.programs.create("agent", f"a{number}", config)).name
        posted = await ana.runs.post("@(a1)", "next")
        await ana.runs.wait(posted.run, timeout_s=90)
        turns = {str(one.turn.header.by): one.turn for one in await ana.turns.list_newest()}
        assert sorted(turns) == sorted(f"agent:a{number}" for number in range(1, 10))
        (refused,) = [
            part
            for message in turns["agent:a9"].reply
            for part in message.parts
            if isinstance(part, ToolResult)
        ]
        assert refused.output == "8 runs wait for one another: answer without asking"
        assert {turn.header.outcome for turn in turns.values()} == {"completed"}
