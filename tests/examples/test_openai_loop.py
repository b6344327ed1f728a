"""The example that records a loop: short to add, and true in what it keeps."""

import difflib
import re
import tomllib
from pathlib import Path

import pytest

from examples import openai_loop, record_openai_loop
from turntree.boot.open import Settings, connect, open_tree, tree_on
from turntree.core.message import ToolResult, ToolUse
from turntree.core.usage import Usage
from turntree.core.viewer import EVERYTHING
from turntree.integrity.verify import verify_thread
from turntree.system.clock import SystemClock
from turntree.testing.scripted.server import Call, Reply, ScriptedModel
from turntree.transcripts import openai_chat

pytestmark = pytest.mark.anyio

ADDED_LINES_MAX = 10
EXAMPLES = Path(__file__).parent.parent.parent / "examples"
WORKSPACE = "examples"

SCRIPT = [
    Reply(
        calls=(Call("weather", {"city": "Oslo"}, "call-1"), Call("weather", {"city": "Bergen"})),
        usage=Usage(input=90, output=30, reasoning=12),
    ),
    Reply(calls=(Call("calculate", {"expression": "7 - 4"}, "call-3"),)),
    Reply("Bergen is 3 degrees warmer.", usage=Usage(input=86, output=8, cached_input=64)),
    Reply(calls=(Call("weather", "{city: Oslo}", "call-4"),)),
    Reply("You are welcome."),
]
QUESTIONS = ["How much warmer is Bergen than Oslo?", "Thanks!"]


@pytest.fixture
def settings(conninfo: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Settings:
    """What the example's reader would have set."""
    monkeypatch.setenv("TURNTREE_DATABASE_URL", conninfo)
    monkeypatch.setenv("TURNTREE_WORKSPACE", WORKSPACE)
    monkeypatch.setenv("OPENAI_API_KEY", "scripted")
    return Settings(tmp_path, database_url=conninfo, workspace=WORKSPACE)


async def run_example(monkeypatch: pytest.MonkeyPatch) -> ScriptedModel:
    with ScriptedModel(SCRIPT) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
        await record_openai_loop.chat(QUESTIONS)
    return model


def test_recording_a_loop_takes_ten_lines() -> None:
    plain, recorded = (
        (EXAMPLES / name).read_text(encoding="utf-8").splitlines()
        for name in ("openai_loop.py", "record_openai_loop.py")
    )
    added = [line[2:] for line in difflib.ndiff(plain, recorded) if line.startswith("+ ")]
    code = [line for line in added if line.strip()]
    assert len(code) <= ADDED_LINES_MAX
    # The docstring differs; everything else that differs says so.
    assert [line for line in code[1:] if not line.endswith("# turntree")] == []


async def test_each_exchange_becomes_a_turn_with_its_tool_calls(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await run_example(monkeypatch)
    assert capsys.readouterr().out.splitlines()[0] == "Bergen is 3 degrees warmer."
    async with open_tree(settings) as tree:
        first, second = (placed.turn for placed in await tree.threads.read("weather"))
    assert [m.role for m in first.query] == ["system", "user"]
    assert [m.role for m in first.reply] == [
        "assistant", "tool", "tool", "assistant", "tool", "assistant",
    ]  # fmt: skip
    parts = [part for m in first.reply for part in m.parts]
    assert ToolUse("call-3", "calculate", {"expression": "7 - 4"}) in parts
    assert ToolResult("call-1", "ok", "rain, 4 degrees") in parts
    assert first.header.model == record_openai_loop.MODEL
    assert ToolUse("call-4", "weather", "{city: Oslo}") in second.reply[0].parts
    assert second.header.parent == first.digest


async def test_usage_counts_every_call_once(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_example(monkeypatch)
    async with open_tree(settings) as tree:
        await tree.sessions.fork("weather~1", "again")
        usage, count = await tree.threads.usage("weather", "again")
    assert count == len(SCRIPT)
    assert usage == Usage(input=206, output=53, cached_input=64, reasoning=12)


async def test_the_recorded_thread_verifies(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await run_example(monkeypatch)
    async with connect(settings, SystemClock()) as database:
        head = (await tree_on(database, settings, SystemClock()).resolve("weather")).turn
        verified = await verify_thread(database.seen_by(EVERYTHING), head)
    assert (verified.whole, verified.erased, verified.broken) == (2, 0, [])


async def test_a_recorded_thread_can_be_sent_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = await run_example(monkeypatch)
    async with open_tree(settings) as tree:
        thread = await tree.threads.read("weather")
    again = openai_chat.to_chat(thread)
    sent = model.requests[-1]["messages"]
    assert [_said(document) for document in again[: len(sent)]] == [_said(d) for d in sent]


async def test_the_loop_works_without_us_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "scripted")
    with ScriptedModel(SCRIPT) as model:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{model.url}/v1")
        await openai_loop.chat(QUESTIONS)
    assert capsys.readouterr().out == "Bergen is 3 degrees warmer.\nYou are welcome.\n"


def _said(document: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in document.items() if value is not None}


def test_the_wheel_holds_the_examples_that_the_tutorial_runs() -> None:
    build = tomllib.loads((EXAMPLES.parent / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = build["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"] == {EXAMPLES.name: "turntree/examples"}
    page = EXAMPLES.parent / "docs/tutorial/record-your-agent.md"
    named = re.findall(r"python -m turntree\.examples\.(\w+)", page.read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not (EXAMPLES / f"{name}.py").is_file()] == []
