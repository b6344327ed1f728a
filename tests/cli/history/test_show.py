"""Show a turn: everything that was said can be read, however long it is."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call

OPENING = "Please read this log"
LOG = OPENING + "".join(f"\nline {number} of the log" for number in range(1_000))
OUTPUT = "".join(f"{number} is printed\n" for number in range(1_000))


@pytest.fixture
def session(turntree: Call, tmp_path: Path) -> str:
    """A session whose message and tool result are too large for a body; sample data."""
    chat = tmp_path / "chat.json"
    call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    chat.write_text(
        json.dumps(
            [
                {"role": "user", "content": LOG},
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "c1", "content": OUTPUT},
                {"role": "assistant", "content": "The log is fine."},
            ]
        )
    )
    turntree("import", str(chat))
    (found,) = turntree("session", "list", "--json").documents
    return str(found["label"])


def test_a_long_message_is_shown_and_names_its_turn(turntree: Call, session: str) -> None:
    assert f"{OPENING} line" in turntree("log", session).out
    shown = turntree("show", session)
    assert OPENING in shown.out
    assert "line 3 of the log" in shown.out
    assert "line 999 of the log" in turntree("show", session, "--full").out
    assert turntree("show", f"{session}:msg/0").lines == LOG.splitlines()
    assert OPENING in turntree("tail", session).out
    assert "kept as" not in shown.out


def test_a_long_message_is_among_the_messages_of_a_log(turntree: Call, session: str) -> None:
    assert "line 999 of the log" in turntree("log", session, "--messages").out
    first = turntree("log", session, "--messages", "--json").documents[0]
    assert first["message"]["content"].splitlines() == LOG.splitlines()


def test_a_long_tool_result_is_shown(turntree: Call, session: str) -> None:
    assert "    999 is printed" in turntree("show", f"{session}:tool/1").lines
    assert "999 is printed" in turntree("show", session, "--full").out


def test_an_object_is_shown_by_its_digest(turntree: Call, session: str) -> None:
    stored = turntree("show", session, "--raw").lines
    (digest,) = [
        part["object"]
        for line in stored[1:]
        for part in json.loads(line)["parts"]
        if part.get("part") == "tool_result"
    ]
    assert "999 is printed" in turntree("show", digest).lines
    assert turntree("show", digest, "--json").document["output"] == OUTPUT
    missing = turntree("show", "sha256:" + "0" * 64)
    assert missing.code != 0
    assert "there is no object sha256:000" in missing.err


def test_a_turn_is_shown_by_the_id_of_a_message(turntree: Call, session: str) -> None:
    (shown,) = turntree("show", session, "--json").documents
    for text in (f"{shown['id']}/3", shown["id"].replace("-", "")[:30]):
        assert turntree("show", text, "--json").documents == [shown]
