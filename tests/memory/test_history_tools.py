"""``ledger.search``, ``ledger.fork`` and ``ledger.send``, called by a model in a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.boot.open import Settings, open_tree
from turntree.core.canonical import Json
from turntree.core.ids import RunId
from turntree.core.message import ToolResult, assistant, user
from turntree.core.principal import Principal

pytestmark = pytest.mark.anyio
CALLS: Sequence[tuple[str, dict[str, Json]]] = (
    ("ledger.search", {"query": "depot"}),
    ("ledger.fork", {"turn": "depots", "label": "second-try"}),
    ("ledger.send", {"to": "@(helper)", "message": "The depot is open."}),
)


async def call_all(tree: Tree, agent: Mapping[str, Json]) -> list[Any]:
    """Return what each call gave to an agent that makes all of them."""
    tools: list[Json] = [{"tool": name, "args": args} for name, args in CALLS]
    rules: list[Json] = [{"when": "go", "replies": [{"tools": tools}, {"text": "Done."}]}]
    await tree.programs.create("provider", "script", {"provider_type": "scripted", "rules": []})
    await tree.programs.create("model", "echo", {"model_id": "scripted-1", "provider": "@(script)"})
    await tree.programs.create("agent", "atlas", {"default_model": "@(echo)", **agent})
    await tree.turns.record("depots", [user("Is the depot open?")], [assistant("It is.")])
    await tree.programs.create("agent", "helper", {"default_model": "@(echo)"})
    await tree.programs.configure("script", {"rules": rules})
    bob = tree.act_as(ExecutionContext.begin(Principal("human", "bob")))
    await bob.programs.create("session", "closed", {}, visibility="private")
    await bob.turns.record("closed", [user("The depot's code?")], [assistant("4711, depot.")])
    posted = await tree.runs.post("main", "go", agent="atlas")
    turn = (await tree.runs.wait(posted.run, timeout_s=60)).turn
    parts = [part for message in turn.reply for part in message.parts]
    results = [part for part in parts if isinstance(part, ToolResult)]
    return sorted(results, key=lambda result: result.call_id)


@pytest.fixture
async def tree(conninfo: str, tmp_path: Path) -> Any:
    settings = Settings(tmp_path, database_url=conninfo, workspace="history", user="ana")
    async with open_tree(settings, worker=True) as opened:
        yield opened


@pytest.mark.parametrize("agent", [{"role": "manager"}, {"functions": ["ledger.*"]}])
async def test_an_agent_searches_forks_and_sends(tree: Tree, agent: Mapping[str, Json]) -> None:
    found, forked, sent = await call_all(tree, agent)
    assert [one.status for one in (found, forked, sent)] == ["ok", "ok", "ok"], (
        found,
        forked,
        sent,
    )
    assert "depot" in found.output
    # Bob's private session is not the sender's, and so not the agent's.
    assert "4711" not in found.output
    assert (await tree.sessions.get("second-try")).head == (await tree.sessions.get("depots")).head
    assert "queued for helper:main" in sent.output
    run = RunId(str(sent.output).split(" as run ")[1].split(";")[0])
    header = (await tree.runs.wait(run, timeout_s=60)).turn.header
    behind = header.by.on_behalf_of
    assert behind is not None
    assert (str(header.by), str(behind), str(behind.on_behalf_of)) == (
        "agent:helper", "agent:atlas", "human:ana",
    )  # fmt: skip


async def test_an_agent_that_may_not_create_does_not_fork(tree: Tree) -> None:
    allow: list[Json] = ["tool:ledger.*", "action:read"]
    agent: dict[str, Json] = {"functions": ["ledger.*"], "permissions": {"allow": allow}}
    found, forked, sent = await call_all(tree, agent)
    assert found.status == "ok"
    assert (forked.status, sent.status) == ("error", "error")
    assert "nothing allows action:create" in forked.output
    assert "nothing allows action:invoke" in sent.output
    assert [one.label async for one in tree.sessions.list_all() if one.label == "second-try"] == []


async def test_an_agent_that_asks_for_nothing_is_offered_none_of_them(tree: Tree) -> None:
    results = await call_all(tree, {})
    assert [str(one.output).startswith("there is no tool") for one in results] == [True] * 3
