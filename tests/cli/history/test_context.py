"""What the model saw, and turns taken again, on the command line."""

import json
import os
import sys
from pathlib import Path

import anyio
import pexpect
import pytest

from tests.cli.conftest import Call
from turntree.boot.open import Settings, open_tree
from turntree.core.message import assistant, user

SCRIPT = [
    {"text": "Let me look.", "tools": [{"tool": "shout", "args": {"text": "hi"}}]},
    {"text": "It says HI."},
]
SHOUT = '''
def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()
'''


@pytest.fixture
def talked(turntree: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """A session in which an agent answered with a tool."""
    Path("loud.py").write_text(SHOUT, encoding="utf-8")
    monkeypatch.syspath_prepend(str(Path.cwd()))
    scripted = json.dumps(
        {"provider_type": "scripted", "rules": [{"when": "say", "replies": SCRIPT}]}
    )
    model = json.dumps({"model_id": "scripted-1", "provider": "@(script)", "temperature": 0.5})
    agent = json.dumps({"system_prompt": "Be brief.", "default_model": "@(plain)"})
    for kind, name, config in (
        ("provider", "script", scripted), ("model", "plain", model), ("agent", "atlas", agent)
    ):  # fmt: skip
        assert turntree("program", "create", kind, name, "--config", config).code == 0
    made = turntree("session", "create", "main", "--owner", "@(atlas)")
    assert made.code == 0, made.err
    for words in ("hello", "say it"):
        sent = turntree("send", "main", words, "--tools", "loud:shout")
        assert sent.code == 0, sent.err
    return turntree


def test_every_call_of_a_turn_is_told(talked: Call) -> None:
    told = talked("show", "main", "--context")
    assert told.code == 0, told.err
    text = told.out
    assert "scripted-1 · scripted" in told.lines[0]
    assert "Be brief." in text
    assert "shout, ledger.recall, ledger.read, about " in text
    assert "call 1   1 turn of the thread; 1 message of its own: 1 user" in text
    assert "call 2   1 turn of the thread; 3 messages of its own" in text
    assert text.count("assembled again it is the same") == 2
    assert " reported (" in text
    assert told.err == "all of it with: turntree show main --call 2\n"


def test_one_call_is_told_in_full(talked: Call) -> None:
    lines = talked("show", "main", "--context", "--call", "2").lines
    assert lines[:2] == ["system", "  Be brief."]
    assert "tool shout: Say it loudly." in lines
    assert lines.index("the turn itself") > lines.index("  hello")
    assert "HI" in lines[-1]
    assert talked("show", "main", "--context", "--call", "3").code == 3


def test_the_document_holds_the_prompts_and_their_proof(talked: Call) -> None:
    told = talked("show", "main", "--context", "--json").document
    first, second = told["calls"]
    assert first["same"] is second["same"] is True
    assert first["recorded_digest"] == first["prompt"]["digest"]
    assert (
        second["prompt"]["messages"][: len(first["prompt"]["messages"])]
        == (first["prompt"]["messages"])
    )
    assert first["request"]["param_sources"]["temperature"] == {
        "value": 0.5,
        "from": "model",
        "address": "@(plain)",
    }
    assert len(talked("show", "main", "--context", "--call", "2", "--json").document["calls"]) == 1


def test_a_prompt_of_an_earlier_version_is_not_compared(
    talked: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr("turntree.runs.request_builder.RECIPE", "prompt/1")
        earlier.setattr("turntree.models.prompt.RECIPE", "prompt/1")
        talked("send", "main", "once more")
    told = talked("show", "main", "--context")
    assert "an earlier version assembled it differently, by prompt/1" in told.out
    document = talked("show", "main", "--context", "--json").document
    assert {call["same"] for call in document["calls"]} == {None}
    assert talked("replay", "main", "--json").document["prompts"] == []


def test_what_was_erased_is_said_to_be_the_reason(talked: Call, conninfo: str) -> None:
    async def erase() -> None:
        settings = Settings(Path(), conninfo, workspace="tests", user="ana")
        async with open_tree(settings) as tree:
            await tree.turns.erase("main~1", 0, reason="asked for")

    anyio.run(erase)
    assert talked("show", "main", "--context").out.count("something was erased since") == 2


def test_a_turn_that_was_taken_elsewhere_says_so(turntree: Call, conninfo: str) -> None:
    async def record() -> None:
        settings = Settings(Path(), conninfo, workspace="tests", user="ana")
        async with open_tree(settings) as tree:
            await tree.turns.record("main", [user("hi")], [assistant("hello")], model="gpt-5")

    anyio.run(record)
    told = turntree("show", "main", "--context")
    assert told.code == 0
    assert "it was taken elsewhere" in told.out
    played = turntree("replay", "main")
    assert played.code == 1
    assert "next: turntree rerun " in played.err


def test_a_turn_is_played_again_from_its_journal(talked: Call) -> None:
    played = talked("replay", "main")
    assert played.code == 0, played.err
    assert "comes out the same, and 2 calls of the model" in played.out
    document = talked("replay", "main", "--json").document
    assert document["same"] is True
    assert document["digest"] == document["replayed_digest"]
    assert document["prompts"] == [True, True]


def test_a_turn_is_taken_again_beside_itself(talked: Call) -> None:
    config = json.dumps({"provider_type": "scripted", "script": [{"text": "No."}, {"text": "No!"}]})
    assert talked("program", "create", "provider", "curt", "--config", config).code == 0
    model = json.dumps({"model_id": "scripted-1", "provider": "@(curt)"})
    assert talked("program", "create", "model", "curter", "--config", model).code == 0
    same = talked("rerun", "main", "--tools", "loud:shout", "--yes")
    assert same.code == 0, same.err
    assert "the same was said" in same.out
    assert "undo with: turntree session archive rerun-" in same.err
    other = talked("rerun", "main", "--model", "curter", "--session", "curt", "--json").document
    assert (other["session"], other["differ"]) == ("curt", True)
    assert "+  No!" in other["lines"]
    assert talked("diff", "--stat", "main", "curt").code == 0


def test_rerun_of_a_turn_with_an_unrepeatable_tool_needs_consent(talked: Call) -> None:
    refused = talked("rerun", "main", "--tools", "loud:shout")
    assert refused.code == 1
    assert "the turn called shout, which is not declared repeatable" in refused.err
    assert refused.err.endswith("next: turntree rerun --yes --tools loud:shout main\n")
    assert "rerun-" not in talked("session", "list", "--json").out, "nothing was begun"
    # Where the tool cannot be called, there is nothing to ask about.
    assert talked("rerun", "main").code == 0


def test_rerun_of_a_turn_with_a_repeatable_tool_does_not_ask(talked: Call) -> None:
    text = Path("loud.py").read_text(encoding="utf-8")
    marked = text.replace("def shout", "@tool(is_repeatable=True)\ndef shout")
    Path("calm.py").write_text(
        "from turntree.tools.functions import tool\n" + marked, encoding="utf-8"
    )
    assert talked("rerun", "main", "--tools", "calm:shout").code == 0


@pytest.mark.slow
def test_rerun_on_a_terminal_asks_before_it_calls_a_tool_again(talked: Call) -> None:
    def watch(answer: str) -> str:
        shown = pexpect.run(
            f"{sys.executable} -m turntree.cli.main rerun main --tools loud:shout",
            env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"},
            events={"call it again": answer},
            timeout=120,
            dimensions=(24, 80),
            encoding="utf-8",
        )
        return str(shown)

    refused = watch("n\n")
    assert "The turn called shout, which is not declared repeatable." in refused
    assert "stopped" in refused
    assert "rerun-" not in talked("session", "list", "--json").out
    assert "the same was said" in watch("y\n")
