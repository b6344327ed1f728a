"""Secrets are taken out of whatever is stored: what is recorded, sent, given by tools, imported."""

from dataclasses import replace
from pathlib import Path

import pytest

from proofs.transcripts.claude_code import Tape, save
from turntree import assistant, user
from turntree.api import Tree
from turntree.boot.open import Settings, engine_on, importing_on, load_importers, run_on, tree_on
from turntree.core.message import ToolResult, ToolUse, tool
from turntree.db.database import Database
from turntree.integrity.fsck import fsck
from turntree.system.clock import SystemClock

pytestmark = pytest.mark.anyio

KEY = "sk-ant-api03-" + "aB3d" * 22
LIVE = "correct-horse-7-battery"
SAID = f"the file says ANTHROPIC_API_KEY={KEY} and {LIVE}"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("DEPLOY_PASSWORD", LIVE)
    return Settings(tmp_path, user="ana")


@pytest.fixture
def own(database: Database, settings: Settings) -> Tree:
    return tree_on(database, settings, SystemClock())


def holds_secret(said: object) -> bool:
    return KEY in repr(said) or LIVE in repr(said)


async def test_a_record_holds_no_secret(own: Tree, database: Database) -> None:
    use = ToolUse("c1", "read", {"path": LIVE})
    replies = [
        replace(assistant("I look"), parts=(use,)),
        tool(ToolResult("c1", "ok", {"lines": [SAID]})),
        assistant(SAID),
    ]
    await own.turns.record("notes", [user(SAID)], replies)
    turn = (await own.turns.get("notes")).turn
    assert not holds_secret(turn.messages)
    assert repr(turn.messages).count("[redacted]") >= 3
    assert await fsck(database) == []


async def test_a_tool_s_result_holds_no_secret(database: Database, settings: Settings) -> None:
    def read_env() -> str:
        """Read a file."""
        return SAID

    world, engine = SystemClock(), engine_on(database)
    tree = tree_on(database, settings, world, engine=engine)
    running = run_on(database, tree, settings, world, engine, [read_env])
    try:
        async with running.serving(stays_here=True):
            replies = [{"tools": [{"tool": "read_env", "args": {}}]}, {"text": "done"}]
            script = {"provider_type": "scripted", "rules": [{"when": "", "replies": replies}]}
            await tree.programs.create("provider", "s", script)  # type: ignore[arg-type]
            await tree.programs.create("model", "m", {"model_id": "scripted-1", "provider": "@(s)"})
            posted = await running.tree.runs.post("tools", f"look, my key is {KEY}")
            placed = await running.tree.runs.wait(posted.run, timeout_s=30)
    finally:
        await running.aclose()
    assert [said.role for said in placed.turn.messages].count("tool") == 1
    assert not holds_secret(placed.turn.messages)
    assert await fsck(database) == []


async def test_an_import_holds_no_live_value(
    database: Database, own: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = Tape()
    tape.exchange("first", SAID)
    file = save(tmp_path / "claude", tape)
    importer = load_importers()["claude-code"]
    found = [(importer, bundle) for bundle in importer.open(file)]
    done = await importing_on(database, SystemClock(), own.runs.redactor).run(found)
    assert (done.secrets, done.failed) == (2, {})
    (session,) = await own.sessions.ledger.list_page()
    assert not holds_secret((await own.turns.get(session.label)).turn.messages)
    # Another environment knows nothing of it, and nothing has changed.
    monkeypatch.delenv("DEPLOY_PASSWORD")
    again = await importing_on(database, SystemClock()).run(found)
    assert again.bundles_unchanged == 1


async def test_a_setting_keeps_what_is_said(database: Database, settings: Settings) -> None:
    tree = tree_on(database, replace(settings, redacts=False), SystemClock())
    await tree.turns.record("notes", [user(LIVE)], [assistant("ok")])
    assert holds_secret((await tree.turns.get("notes")).turn.messages)
    assert not Settings.from_environment({"TURNTREE_REDACT": "no"}).redacts
    assert Settings.from_environment({}).redacts
