"""Compactions that a model makes, typed on the command line."""

from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.cli.talker import chat, furnish

SUMMARY = "They want tea, and the shop is in Hill Street."
RULES: list[dict[str, Any]] = [
    {"when": "Summarize this conversation", "replies": [{"text": SUMMARY}]},
]


@pytest.fixture
def talk(turntree: Call) -> Call:
    """Return the command line, with a session of four turns."""
    furnish(turntree, RULES)
    for number in range(1, 5):
        assert turntree("send", "main", f"remark {number} " + "about tea " * 40).code == 0
    return turntree


def ask(turntree: Call, statement: str) -> list[dict[str, Any]]:
    answer = turntree("sql", "--json", "--whole", statement)
    assert answer.code == 0, answer.err
    return answer.documents


def test_a_session_is_summarized_and_goes_on_from_the_summary(talk: Call) -> None:
    (before,) = ask(talk, "SELECT count(*) AS turns FROM turns")
    answer = talk("compact", "main", "--keep", "1", "--focus", "the shop")
    assert answer.code == 0, answer.err
    assert "3 turns summarized" in answer.out
    (made,) = ask(talk, "SELECT * FROM compactions")
    assert made["summary"] == SUMMARY
    assert (made["turns_summarized"], made["compaction_type"], made["trigger"]) == (
        3, "summary", "manual",
    )  # fmt: skip
    assert made["tokens_before"] > made["tokens_after"] > made["summary_tokens"] > 0
    assert made["summarization_input_tokens"] > 0
    assert made["summarization_output_tokens"] > 0
    assert made["duration_ms"] >= 0
    (asked,) = ask(
        talk, "SELECT content FROM messages JOIN compactions USING (turn_id) WHERE sequence = 0"
    )
    assert asked["content"].endswith("Keep above all: the shop")

    assert talk("send", "main", "and now?").code == 0
    seen = talk("show", "main", "--call", "1").out
    assert SUMMARY in seen
    assert "That covers turns 1 to 3" in seen
    assert "remark 4" in seen
    assert not any(f"remark {number}" in seen for number in (1, 2, 3))
    (after,) = ask(talk, "SELECT count(*) AS turns FROM turns")
    assert after["turns"] == before["turns"] + 2
    for revision in ("main", "main~1"):
        assert talk("replay", revision).code == 0
    assert talk("fsck").code == 0


def test_undo_takes_a_compaction_back(talk: Call) -> None:
    talk("compact", "main", "--keep", "0")
    assert talk("undo", "main").code == 0
    assert talk("send", "main", "and now?").code == 0
    seen = talk("show", "main", "--call", "1").out
    assert SUMMARY not in seen
    assert all(f"remark {number}" in seen for number in (1, 2, 3, 4))


def test_a_second_compaction_covers_the_first(talk: Call) -> None:
    talk("compact", "main", "--keep", "1")
    refused = talk("compact", "main")
    assert refused.code == 1
    assert "nothing to summarize" in refused.err
    for number in (5, 6):
        talk("send", "main", f"remark {number}")
    assert talk("compact", "main", "--keep", "1").code == 0
    first, second = ask(talk, "SELECT * FROM compactions ORDER BY turn_id")
    # The turn that the first one kept, the first one itself, and one turn after it.
    assert (first["turns_summarized"], second["turns_summarized"]) == (3, 3)
    talk("send", "main", "and now?")
    seen = talk("show", "main", "--call", "1").out
    assert seen.count(SUMMARY) == 1
    assert "turns 1 to 6" in seen
    assert "remark 6" in seen
    assert "remark 5" not in seen
    assert talk("fsck").code == 0


def test_a_model_without_a_summary_compacts_nothing(turntree: Call) -> None:
    furnish(turntree, [{"when": "Summarize this", "replies": [{"text": " "}]}])
    turntree("send", "main", "remark 1")
    refused = turntree("compact", "main", "--keep", "0")
    assert refused.code == 1
    assert "without a summary" in refused.err
    assert ask(turntree, "SELECT * FROM compactions") == []


def test_an_agent_writes_its_summary_without_tools(turntree: Call) -> None:
    furnish(turntree, RULES)
    turntree("agent", "create", "atlas", "--prompt", "You are atlas.", "--model", "echo")
    turntree("session", "create", "desk", "--owner", "atlas")
    turntree("send", "desk", "remark 1")
    assert turntree("compact", "desk", "--keep", "0").code == 0
    first, second = ask(turntree, "SELECT tools_available, turn_type FROM turns ORDER BY id")
    assert first["tools_available"]
    assert (second["tools_available"], second["turn_type"]) == (None, "compaction")


def test_a_chat_is_compacted(talk: Call) -> None:
    answer = chat(["/compact the shop", "/context"], "main")
    assert "2 turns summarized" in answer.out
    (made,) = ask(talk, "SELECT * FROM compactions")
    assert made["summary"] == SUMMARY
