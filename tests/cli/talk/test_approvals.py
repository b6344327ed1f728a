"""``inbox``, ``approve``, ``reject``, ``edit`` and ``answer``: a person decides what waits."""

import os
import subprocess
import sys
from collections.abc import Mapping
from itertools import takewhile
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.cli.conftest import Call
from turntree.boot.open import Settings, open_tree
from turntree.cli.common.request_text import decide_command, draw_args, draw_request
from turntree.cli.common.verdicts import choose_verdict, read_answer, read_args
from turntree.core.canonical import canonical, digest_bytes
from turntree.core.errors import InvalidOperation
from turntree.core.ids import Timestamp
from turntree.policy.approval import Approval, ForeignCall


def ask(args: Mapping[str, Any], key: str = "one", user: str = "ana") -> str:
    """Ask about a call as the hook of a coding agent does, and return the id."""

    async def act() -> str:
        place = os.environ["TURNTREE_DATABASE_URL"]
        settings = Settings(Path(), place, workspace="tests", user=user)
        async with open_tree(settings) as tree:
            call = ForeignCall(
                "claude-code", "Bash", args, key, folder="/srv/project", reason="it deletes files"
            )
            return (await tree.approvals.request_foreign(call)).id

    return anyio.run(act)


def test_inbox_shows_the_command_that_waits_and_approve_allows_it(turntree: Call) -> None:
    request = ask({"command": "rm -r build", "description": "Clean"})
    shown = turntree("inbox")
    assert "claude-code asks to call Bash in /srv/project, now" in shown.out
    assert "why: it deletes files" in shown.out
    assert "    $ rm -r build" in shown.lines
    assert "human:ana may answer until" in shown.out
    assert f"next: turntree approve {request[-8:]}" in shown.err
    (document,) = [one for one in turntree("inbox", "--json").documents if "request" in one]
    assert (document["state"], document["args"]["command"]) == ("pending", "rm -r build")
    assert "the call of Bash is approved" in turntree("approve", request[-8:]).out
    assert "nothing is unread" in turntree("inbox").err
    again = turntree("approve", request[-8:])
    assert again.code == 1
    assert f"{request[-8:]} was answered already: approved by human:ana at 2" in again.err
    assert turntree("approve", "f" * 8).code == 3
    states = [one.get("state") for one in turntree("inbox", "--all", "--json").documents]
    assert "approved" in states


def test_only_waiting_request_needs_no_id(turntree: Call) -> None:
    ask({"command": "a"})
    assert "is rejected" in turntree("reject", "--note", "not today").out
    assert turntree("reject").code == 3
    ask({"command": "b"}, "two")
    ask({"command": "c"}, "three")
    assert "2 requests wait: name one" in turntree("approve").err


def test_edit_allows_other_arguments(turntree: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    ask({"command": "rm -r /"})
    assert "are not JSON" in turntree("edit", "{rm}").err
    done = turntree("edit", '{"command": "rm -r build"}', "--json").document
    assert (done["state"], done["answer"]) == ("edited", {"command": "rm -r build"})
    assert done["allowed_digest"] == digest_bytes(canonical({"command": "rm -r build"}))
    ask({"command": "rm"}, "two")
    monkeypatch.setenv("EDITOR", "sed -i s/rm/ls/")
    assert turntree("edit", "--json").document["answer"] == {"command": "ls"}


def test_answer_of_a_call_is_refused(turntree: Call) -> None:
    ask({"command": "a"})
    assert "is a call, which cannot be answered" in turntree("answer", "yes").err


def test_request_of_another_person_is_absent(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = ask({"command": "a"})
    monkeypatch.setenv("TURNTREE_USER", "bob")
    assert "nothing is unread" in turntree("inbox").err
    assert turntree("approve", request).code == 3


@pytest.mark.parametrize(
    "words",
    [
        ("approve",),
        ("reject",),
        ("edit", "{}"),
        ("answer", "yes"),
        ("send", "main", "--instead", "go on"),
        ("policy", "activate", "0"),
    ],
    ids=" ".join,
)
def test_decision_in_the_shell_of_an_agent_is_refused(
    turntree: Call, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    ask({"command": "a"})
    monkeypatch.setenv("CLAUDECODE", "1")
    refused = turntree(*words)
    assert refused.code != 0
    assert "an agent cannot decide" in refused.err


def test_args_are_drawn_by_their_kind() -> None:
    assert draw_args({"command": "ls\npwd", "timeout": 5}) == [
        "$ ls", "  pwd", "{", '  "timeout": 5', "}",
    ]  # fmt: skip
    edited = draw_args({"path": "a.py", "old": "x = 1\n", "new": "x = 2\n"})
    assert edited == ["--- a/a.py", "+++ b/a.py", "@@ -1 +1 @@", "-x = 1", "+x = 2"]
    assert draw_args({"path": "a.py", "content": "x"})[0] == "--- /dev/null"
    assert draw_args({"n": 1}) == ["{", '  "n": 1', "}"]


HIDDEN = {
    "an escape sequence with text in it": (
        "ls \x1b]0;; rm -rf ~ \x07",
        r"ls \u001b]0;; rm -rf ~ \u0007",
    ),
    "a text that runs backwards": ("ls \u202e# x", r"ls \u202e# x"),
    "characters without width": ("ls a\u200bb\U000e0041", r"ls a\u200bb\udb40\udc41"),
    "line ends of other alphabets": ("ls\r\u2028rm", r"ls\r\u2028rm"),
}


@pytest.mark.parametrize(("text", "shown"), HIDDEN.values(), ids=HIDDEN)
def test_hidden_text_of_a_request_is_shown(text: str, shown: str) -> None:
    assert draw_args({"command": text}) == [f"$ {shown}"]
    assert draw_args({"q": text})[1] == f'  "q": "{shown}"'
    assert draw_args({"path": "a", "content": f"    {text}"})[3:] == [f"+    {shown}"]
    assert draw_args({"path": text, "content": "x"})[1] == f"+++ b/{shown}"


POLICY = '''"""Ask about each call."""

TESTS = [{"request": {"tool": "x"}, "decision": "ask"}]


def decide(request):
    return "ask"
'''


def plant_keeper() -> None:
    """Create an agent that makes a call, with a policy of its own that asks about it."""
    reply = {"tools": [{"tool": "ledger.search", "args": {"query": "depot"}}]}
    rules: Any = [{"when": "", "replies": [reply, {"text": "done"}]}]
    keeper: Any = {"default_model": "@(m)", "functions": ["ledger.search"]}

    async def act() -> None:
        settings = Settings(Path(), os.environ["TURNTREE_DATABASE_URL"], "tests", user="ana")
        async with open_tree(settings) as tree:
            of, provider = tree.programs, {"provider_type": "scripted", "rules": rules}
            await of.create("provider", "script", provider)
            await of.create("model", "m", {"model_id": "scripted-1", "provider": "@(script)"})
            await of.create("agent", "keeper", keeper)
            made = await tree.policies.propose(POLICY, agent="keeper", lane="process")
            await tree.policies.activate(made.number, agent="keeper")

    anyio.run(act)


def test_send_says_that_it_waits_and_always_extends_the_policy_that_asked(turntree: Call) -> None:
    plant_keeper()
    words = [sys.executable, "-m", "turntree", "send", "@(keeper)", "go"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as sending:
        assert sending.stderr is not None
        told = list(takewhile(lambda line: "turntree inbox" not in line, sending.stderr))
        sending.terminate()
    assert told[-1].startswith("a person has to decide first")
    done = turntree("approve", "--always")
    assert "next: turntree policy activate 2 --agent keeper" in done.err
    (extended, *_) = turntree("policy", "history", "--agent", "keeper", "--json").documents
    assert (extended["number"], extended["lane"], extended["tests"]) == (2, "process", 2)


def question(schema: Mapping[str, Any] | None = None) -> Approval:
    at = Timestamp("2026-01-01T00:00:00.000Z")
    asked: dict[str, Any] = {"message": "which?", **({} if schema is None else {"schema": schema})}
    return Approval(
        "0" * 36, "question", "pending", "deploy", "turntree", {}, digest_bytes(b"{}"), "",
        "agent:atlas", ("human:ana",), at, Timestamp("2026-01-08T00:00:00.000Z"), question=asked,
    )  # fmt: skip


def test_question_is_drawn_with_the_tool_that_asks_and_answered() -> None:
    one = question()
    (first, *_) = draw_request(one, one.created_at)
    assert first == "00000000  deploy, which agent:atlas called, asks a question in turntree, now"
    assert decide_command(one) == "turntree answer 00000000 ANSWER"


def test_answer_is_read_as_the_question_expects_it() -> None:
    named = question({"type": "object", "properties": {"name": {"type": "string"}}})
    assert read_answer(named, "12") == {"name": "12"}
    assert read_answer(named, '{"name": "x"}') == {"name": "x"}
    assert read_answer(question(), "12") == 12
    assert read_answer(question(), "blue") == "blue"


def test_verdict_that_is_none_is_asked_again() -> None:
    one = question()
    assert choose_verdict(one, "anything") is not None
    with pytest.raises(InvalidOperation, match="not a JSON object"):
        read_args("[]")
