"""A turn is found by the id that a provider gave to one of its responses."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from turntree.testing.scripted.server import Reply, Rule, ScriptedModel

KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY")
RESPONSE = "resp_68AF40e1c2"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("type", "model", "begins"),
    [("anthropic", "claude-opus-4-8", "msg_"), ("openai", "gpt-5", "resp_")],
)
def test_the_id_of_a_response_names_the_turn(
    turntree: Call, monkeypatch: pytest.MonkeyPatch, type: str, model: str, begins: str
) -> None:
    for name in KEYS:
        monkeypatch.setenv(name, "key")
    with ScriptedModel(rules=[Rule((Reply("Hello."),))]) as server:
        turntree("provider", "create", "vendor", "--type", type, "--base-url", f"{server.url}/v1")
        turntree("model", "create", "asked", "--backend", model, "--provider", "vendor")
        turntree("session", "create", "main", "--model", "asked")
        first = turntree("send", "main", "one", "--json").document
        turntree("send", "main", "two")
        shown = turntree("show", first["turn"], "--json").document
        (response,) = [call["call_id"] for call in shown["calls"]]
        assert response.startswith(begins)
        for text in (response, f"turn:{response}", f"session:main/turn:{response}"):
            assert turntree("show", text, "--json").document == shown
        (line,) = turntree("log", response, "--json").documents
        assert line["id"] == first["turn"]
        # Sending to it forks there, as to any other address of a turn.
        forked = turntree("send", response, "another", "--json").document
        assert forked["session"] == "main-fork"
        titles = [one["title"] for one in turntree("log", "main-fork", "--json").documents]
        assert titles == ["another", "one"]
    # A provider distinguishes capital letters, and the beginning of its id names nothing.
    for text in (response.upper(), response[:-2]):
        missing = turntree("show", text)
        assert missing.code == 3
        assert "neither a session nor the beginning of a turn" in missing.err


def test_an_imported_turn_is_found_by_its_response_and_by_readers_only(
    turntree: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "thread.jsonl"
    usage = {"input_tokens": 9, "output_tokens": 2}
    lines = [
        {"role": "user", "content": "How far is the moon?"},
        {"id": RESPONSE, "role": "assistant", "content": "Far.", "model": "gpt-5", "usage": usage},
    ]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    read = turntree("import", str(path), "--private", "--json")
    assert read.code == 0, read.err
    shown = turntree("show", RESPONSE, "--json").document
    assert shown["title"] == "How far is the moon?"
    (line,) = turntree("log", RESPONSE, "--json").documents
    assert line["id"] == shown["id"]
    monkeypatch.setenv("TURNTREE_USER", "bob")
    for text in (RESPONSE, f"turn:{RESPONSE}", shown["id"]):
        assert turntree("show", text).code == 3
