"""Calls that a policy asks about: decided where the chat asks, passed over, or allowed for good."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from tests.cli.talk.test_approvals import ask
from tests.cli.talker import SUM, TOOLS, chat, furnish

POLICY = '''"""Ask before adding."""

TESTS = [
    {"request": {"tool": "add"}, "decision": "ask"},
]


def decide(request):
    if request["tool"] == "add":
        return {"decision": "ask", "reason": "sums are delicate"}
    return "allow"
'''
LATER = {"when": "later", "replies": [{"text": "Then later."}]}


@pytest.fixture
def asking(turntree: Call, tmp_path: Path) -> Call:
    """A session whose agent adds, under a policy that asks about it."""
    furnish(turntree, [SUM, LATER])
    file = tmp_path / "policy.py"
    file.write_text(POLICY, encoding="utf-8")
    for words in (("propose", str(file)), ("activate", "1")):
        done = turntree("policy", *words)
        assert done.code == 0, done.err
    return turntree


def last_result(turntree: Call) -> str:
    """Return what the last call of the session gave its model."""
    messages = json.loads(turntree("export", "main", "--format", "openai").out)
    return str([one for one in messages if one["role"] == "tool"][-1]["content"])


def state_of_request(turntree: Call) -> str:
    (request,) = [one for one in turntree("inbox", "--all", "--json").documents if "request" in one]
    return str(request["state"])


def test_chat_asks_about_a_call_and_yes_makes_it(asking: Call) -> None:
    done = chat(["a sum", "y go on"], "--tools", TOOLS)
    assert "sums are delicate" in done.out + done.err
    assert "It is 42." in done.out
    assert (state_of_request(asking), last_result(asking)) == ("used", "42")


def test_chat_asks_about_a_call_and_no_tells_the_model_why(asking: Call) -> None:
    done = chat(["a sum", "n not today"], "--tools", TOOLS)
    assert "It is 42." in done.out
    assert state_of_request(asking) == "rejected"
    assert "not today" in last_result(asking)


def test_chat_asks_about_a_call_and_edit_makes_another(
    asking: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat(["a sum", 'e {"a": 1, "b": 2}'], "--tools", TOOLS)
    assert (state_of_request(asking), last_result(asking)) == ("used", "3")
    monkeypatch.setenv("EDITOR", "sed -i s/20/5/")
    chat(["a sum", "e"], "--tools", TOOLS)
    assert last_result(asking) == "27"


def test_chat_asks_again_until_a_line_decides(asking: Call) -> None:
    done = chat(["a sum", "why?", "e {", "yes"], "--tools", TOOLS)
    assert "are not JSON" in done.out + done.err
    assert (state_of_request(asking), last_result(asking)) == ("used", "42")


def test_message_sent_instead_rejects_what_waits(asking: Call) -> None:
    # The chat ends at the question, and the call goes on waiting.
    chat(["a sum"], "--tools", TOOLS)
    assert state_of_request(asking) == "pending"
    done = asking("send", "main", "later", "--instead", "--tools", TOOLS)
    assert "1 request rejected; this message is answered instead" in done.err
    assert "Then later." in done.out
    assert state_of_request(asking) == "rejected"


def test_approving_always_proposes_a_policy_and_changes_nothing(asking: Call) -> None:
    chat(["a sum"], "--tools", TOOLS)
    done = asking("approve", "--always", "--yes")
    assert "proposed as policy 2; next: turntree policy activate 2" in done.err
    versions = [json.loads(line) for line in asking("policy", "history", "--json").lines]
    assert [one["number"] for one in versions if one["is_active"]] == [1]
    chat(["another sum"], "--tools", TOOLS)
    assert "sums are delicate" in asking("inbox").out, "it is asked about as before"
    asking("reject")
    assert asking("policy", "activate", "2").code == 0
    done = chat(["one more sum"], "--tools", TOOLS)
    assert "sums are delicate" not in done.out + done.err, "from now on, this call is allowed"
    assert last_result(asking) == "42"


def test_approving_always_a_call_of_another_agent_proposes_a_policy(turntree: Call) -> None:
    request = ask({"command": "make"})
    done = turntree("approve", request, "--always", "--yes")
    assert "proposed as policy 1" in done.err
    tested = turntree("policy", "test", "1")
    assert tested.code == 0, tested.out
    (active,) = [
        one
        for one in map(json.loads, turntree("policy", "history", "--json").lines)
        if one["is_active"]
    ]
    assert active["number"] == 0
