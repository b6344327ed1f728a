"""What is behind a turn."""

from contextlib import aclosing
from pathlib import Path

import pytest

from tests.server.reads.conftest import Reader
from tests.server.reads.scenes import say
from turntree.api import Tree
from turntree.boot.open import Settings, engine_on, run_on, tree_on
from turntree.core.canonical import Json
from turntree.core.compaction import Compaction
from turntree.core.message import assistant
from turntree.db.database import Database
from turntree.system.clock import SystemClock

pytestmark = pytest.mark.anyio


async def test_context_of_recorded_turn_has_its_thread(tree: Tree, reader: Reader) -> None:
    first = await say(tree, "main", "one")
    await say(tree, "main", "two")
    found = await reader.get("turns", "main", "context")
    assert "taken elsewhere" in found["absence"]
    assert [(one["turn"], one["tokens"]) for one in found["thread"]] == [(first, 4_200)]
    assert (found["thread_total"], found["compaction"], found["calls"]) == (1, None, [])


async def test_context_starts_at_the_compaction(tree: Tree, reader: Reader) -> None:
    first, second = await say(tree, "main", "one"), await say(tree, "main", "two")
    details = Compaction(summarized_through=first, first_kept=second, turns_summarized=1)
    await tree.turns.record("main", [], [assistant("summary")], compaction=details)
    await say(tree, "main", "three")
    found = await reader.get("turns", "main", "context")
    assert [one["title"] for one in found["thread"]] == ["two", "summary"]
    assert found["compaction"]["summarized_through"] == first
    document = await reader.get("turns", "main~1")
    assert document["compaction"]["turns_summarized"] == 1


async def test_permissions_are_empty_where_none_are_recorded(tree: Tree, reader: Reader) -> None:
    await say(tree, "main", "one")
    found = await reader.get("turns", "main", "permissions")
    assert found == {"principal": None, "allowed": [], "withheld": [], "records": []}


async def test_native_turn_tells_its_permissions_and_its_sender(
    database: Database, reader: Reader, place: Path
) -> None:
    settings, world, engine = Settings(place, user="ana"), SystemClock(), engine_on(database)
    tree = tree_on(database, settings, world, engine=engine)
    asks: Json = {"tools": [{"tool": name, "args": {}} for name in ("note", "forget")]}
    rules: Json = [{"when": "", "replies": [asks, {"text": "Done."}]}]
    await tree.programs.create("provider", "script", {"provider_type": "scripted", "rules": rules})
    await tree.programs.create("model", "echo", {"modelId": "scripted-1", "provider": "script"})
    rights: Json = {"allow": ["tool:*"], "deny": ["tool:forget"]}
    await tree.programs.create("agent", "gardener", {"permissions": rights})
    given = [note, forget]
    running = run_on(database, tree, settings, world, engine, tools=given)
    async with aclosing(running), running.serving(stays_here=True):
        posted = await tree.runs.post("@(gardener)", "go")
        turn = (await tree.runs.wait(posted.run, timeout_s=60)).turn.id
    found = await reader.get("turns", turn, "permissions")
    who = "agent:gardener for human:ana"
    assert (found["principal"], found["withheld"]) == (who, ["tool:forget"])
    assert "tool:*" in found["allowed"]
    told = {(one["action"], one["decision"], one["principal"]) for one in found["records"]}
    assert told == {("tool:note", "used", who), ("tool:forget", "denied", who)}
    causes = await reader.get("turns", turn, "causes")
    assert causes["principal"] == who
    assert [one["text"] for one in causes["steps"]] == ["Was started by a message of human:ana"]


def note() -> str:
    """Note something."""
    return "noted"


def forget() -> str:
    """Forget everything."""
    return "gone"


async def test_causes_name_the_fork(tree: Tree, reader: Reader) -> None:
    first = await say(tree, "main", "one")
    await tree.sessions.fork(first, "side")
    await say(tree, "side", "two")
    found = await reader.get("turns", "side", "causes")
    (step,) = found["steps"]
    assert (step["kind"], step["turn"], step["session"]) == ("forked", first, "side")
    assert step["text"] == "side was forked from: one"
    assert not found["is_cut"]


async def test_raw_bytes_are_verified(tree: Tree, reader: Reader) -> None:
    await say(tree, "main", "one")
    turn = await say(tree, "main", "two")
    found = await reader.get("turns", turn, "raw")
    assert (found["verified"], found["turn"], found["records"]) == (True, turn, [])
    assert '"turntree":"turn/1"' in found["canonical"]
    assert found["bytes"] == len(found["canonical"].encode())
    await tree.turns.erase(turn, 0, reason="asked for")
    erased = await reader.get("turns", turn, "raw")
    assert erased["verified"]
    assert "erased" in erased["findings"][0]
