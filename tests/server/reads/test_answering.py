"""Before and after a message: what would answer it, what waits, and what failed."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest

import turntree
from tests.server.reads.conftest import Reader
from tests.server.reads.scenes import say
from turntree.api import Tree
from turntree.boot.model_setup import ModelSetup
from turntree.boot.open import LazyHub, Settings, engine_on, run_on, tree_on
from turntree.core.secret_refs import read_hosts
from turntree.db.database import Database
from turntree.server.app import make_app
from turntree.server.context import ServerContext
from turntree.server.keys import AccessKeys
from turntree.system.clock import SystemClock
from turntree.testing.fakes import FakeClock
from turntree.testing.scripted.server import MODEL, Reply, ScriptedModel

pytestmark = pytest.mark.anyio


async def furnish(tree: Tree, **script: Any) -> None:
    """Make a model that follows a script."""
    await tree.programs.create("provider", "script", {"provider_type": "scripted", **script})
    await tree.programs.create("model", "teller", {"model_id": "scripted-1", "provider": "script"})


async def test_preview_without_a_model_says_what_is_missing(tree: Tree, reader: Reader) -> None:
    await say(tree, "main", "hello")
    preview = await reader.get("runs", "preview", to="main")
    assert (preview["session"], preview["begins"], preview["model"]) == ("main", None, None)
    assert preview["problem"] == "there is no model that could answer"
    assert preview["is_served"] is False


async def test_preview_names_the_model_and_the_fork(tree: Tree, reader: Reader) -> None:
    await furnish(tree)
    first = await say(tree, "main", "hello")
    head = await say(tree, "main", "again")
    preview = await reader.get("runs", "preview", to="main")
    assert (preview["session"], preview["at"], preview["problem"]) == ("main", head, "")
    answers = {"name": "teller", "model_id": "scripted-1", "provider": "script"}
    assert {**preview["model"], "state": ""} == {**answers, "state": ""}
    assert [one["name"] for one in preview["models"]] == ["teller"]
    fork = await reader.get("runs", "preview", to=first)
    assert (fork["session"], fork["begins"], fork["at"]) == (None, "main-fork", first)
    # The name that the next one gets, once this one is taken.
    await tree.sessions.create("main-fork")
    assert (await reader.get("runs", "preview", to=first))["begins"] == "main-fork-2"
    begun = await reader.get("runs", "preview", to="another")
    assert (begun["session"], begun["begins"], begun["at"]) == (None, "another", None)
    assert (await reader.send("runs", "preview", to="main", model="none")).json()["problem"]
    assert [one.label async for one in _sessions(tree)] == ["main", "main-fork"]


async def test_preview_of_a_session_that_is_only_read_says_so(
    tree: Tree, stranger: Reader, reader: Reader
) -> None:
    await furnish(tree)
    await say(tree, "main", "hello")
    await tree.sessions.fork("main", "shared", visibility="private")
    await tree.programs.grant("shared", "zoe", "read")
    refused = await stranger.get("runs", "preview", to="shared")
    assert refused["problem"].endswith("lets human:zoe read shared, and not send to it")
    assert (await reader.get("runs", "preview", to="shared"))["problem"] == ""


async def test_messages_that_wait_are_listed_in_their_order(tree: Tree, reader: Reader) -> None:
    await furnish(tree)
    await say(tree, "main", "hello")
    sent = [(await tree.runs.post("main", text)).run for text in ("one", "two", "three")]
    await tree.runs.cancel(sent[1])
    listed = await reader.get("sessions", "main", "runs")
    assert [(one["run"], one["text"], one["status"]) for one in listed["runs"]] == [
        (sent[0], "one", "waiting"),
        (sent[2], "three", "waiting"),
    ]
    assert listed["failed"] is None


async def test_a_failure_is_shown_until_the_session_moves(
    conninfo: str, database: Database, place: Path, world: FakeClock
) -> None:
    settings = Settings(place, database_url=conninfo, workspace="failing", user="ana")
    async with turntree.open(settings, worker=True) as tree:
        await furnish(
            tree, rules=[{"when": "fail", "replies": [{"failures": [{"kind": "denied"}]}]}]
        )
        queued = await tree.runs.post("main", "please fail")
        await tree.runs.wait(queued.run)
        async with browser_of(ServerContext(tree, database, settings, world,
                                            lambda _: None, _keys())) as reader:  # fmt: skip
            failed = (await reader.get("sessions", "main", "runs"))["failed"]
            assert (failed["run"], failed["text"]) == (queued.run, "please fail")
            assert "denied" in failed["reason"]
            await tree.ask("main", "hello")
            assert (await reader.get("sessions", "main", "runs"))["failed"] is None


async def test_followed_steps_have_tool_calls_as_the_turn_will(
    conninfo: str, database: Database, place: Path, world: FakeClock
) -> None:
    def weigh(fruit: str) -> str:
        """Weigh a fruit."""
        return f"{fruit}: 120 g"

    settings = Settings(place, database_url=conninfo, workspace="calling", user="ana")
    async with turntree.open(settings, worker=True, tools=[weigh]) as tree:
        call = {"tool": "weigh", "args": {"fruit": "quince"}, "call_id": "call_1"}
        await furnish(tree, script=[{"text": "I weigh it.", "tools": [call]}, {"text": "120 g."}])
        queued = await tree.runs.post("main", "How heavy is it?")
        context = ServerContext(tree, database, settings, world,
                                lambda _: None, _keys())  # fmt: skip
        async with browser_of(context) as reader:
            steps = [one async for one in _steps(reader, queued.run)]
        messages = [one["message"] for one in steps if one["message"] is not None]
        turn = await tree.turns.get(queued.run)
        assert [one["role"] for one in messages] == ["user", "assistant", "tool", "assistant"]
        assert len(messages) == len(turn.turn.messages)
        use = next(part for part in messages[1]["parts"] if part["kind"] == "tool_use")
        result = next(part for part in messages[2]["parts"] if part["kind"] == "tool_result")
        assert (use["tool"], use["call_id"], result["status"]) == ("weigh", "call_1", "ok")
        assert "120 g" in result["output"]
        calls = {one["kind"]: one["call"] for one in steps if one["call"] is not None}
        kinds = ("tool_call.judged", "tool_call.started", "tool_call.finished")
        assert calls == dict.fromkeys(kinds, "call_1")


async def test_a_message_sets_up_a_model_from_a_key(
    database: Database, place: Path, world: FakeClock
) -> None:
    with ScriptedModel([Reply("Hello from the vendor.")]) as model:
        host = model.url.removeprefix("http://")
        settings = Settings(place, user="ana", secret_hosts=read_hosts(f"ANTHROPIC_API_KEY@{host}"))
        environment = {"ANTHROPIC_API_KEY": "sk-ant-test", "ANTHROPIC_BASE_URL": model.url}
        engine, clock = engine_on(database), SystemClock()
        tree = tree_on(database, settings, clock, engine=engine, find_hub=LazyHub(settings).find)
        runtime = run_on(database, tree, settings, clock, engine)
        setup = ModelSetup(runtime, settings, environment)
        context = ServerContext(tree, database, settings, world, lambda _: None, _keys())
        async with browser_of(replace(context, models=setup)) as reader:
            preview = await reader.get("runs", "preview", to="fresh")
            assert (preview["key"], preview["problem"]) == ("ANTHROPIC_API_KEY", "")
            assert model.exchanges == []
            sent = await reader.client.post(
                "/api/v1/runs", json={"to": "fresh", "text": "hello"},
                headers={"Idempotency-Key": "first"},
            )  # fmt: skip
            assert sent.status_code == 200, sent.text
            assert sent.json()["new_model"]["name"] == "claude"
            assert (await reader.get("runs", "preview", to="fresh"))["model"]["model_id"] == MODEL
        async with browser_of(replace(context, models=replace(setup, environment={}))) as reader:
            await tree.programs.move("claude", "deprecated")
            refused = await reader.client.post(
                "/api/v1/runs", json={"to": "none-yet", "text": "hello"},
                headers={"Idempotency-Key": "second"},
            )  # fmt: skip
            assert refused.json()["type"].endswith("provider-not-configured")
            assert "ANTHROPIC_API_KEY" in refused.json()["detail"]
        await engine.close()
    assert [one.label async for one in _sessions(tree)] == ["fresh"]


def _keys() -> AccessKeys:
    return AccessKeys(b"secret", "launch", 1, lambda: 0.0)


@asynccontextmanager
async def browser_of(context: ServerContext) -> AsyncGenerator[Reader, None]:
    """Lend a browser of an application over a context."""
    transport = httpx2.ASGITransport(make_app(context))
    async with httpx2.AsyncClient(transport=transport, base_url="http://test") as client:
        yield Reader(client)


async def _steps(reader: Reader, run: str) -> AsyncGenerator[dict[str, Any], None]:
    text = (await reader.send("runs", run, "events")).text
    for frame in text.split("\n\n"):
        if "event: step" in frame.splitlines():
            yield orjson.loads(frame.partition("data: ")[2])


async def _sessions(tree: Tree) -> AsyncGenerator[Any, None]:
    for session in sorted(
        await tree.sessions.ledger.list_page(limit=10), key=lambda one: one.label
    ):
        yield session
