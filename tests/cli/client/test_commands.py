"""Each command that works over a server, typed: it prints what it prints at the database."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.cli.client.conftest import Served
from tests.cli.conftest import Answer
from tests.cli.hint_runner import HintRunner

pytestmark = pytest.mark.slow
AGE = re.compile(r"\b\d+[smh]\b|\bnow\b|\d+(?:\.\d+)? (?:ms|s)\b")


def plain(answer: Answer) -> list[str]:
    """Return the lines of an answer without what passing time changes."""
    assert answer.code in (0, 1), answer.err
    return [AGE.sub("-", line).rstrip() for line in answer.lines]


def both(served: Served, *words: str) -> tuple[list[str], list[str]]:
    """Return what a command prints at the database, and over the server."""
    served.here()
    here = plain(served.turntree(*words))
    served.there()
    return here, plain(served.turntree(*words))


def run(served: Served, *words: str) -> Answer:
    answer = served.turntree(*words)
    assert answer.code == 0, answer.err
    assert served.key not in answer.out + answer.err
    return answer


READS: Sequence[Sequence[str]] = (
    ("log",), ("log", "main", "-n", "1"), ("log", "--short"), ("log", "--json"),
    ("log", "main~1", "side", "--since", "2020-01-01"),
    ("show",), ("show", "main~1"), ("show", "--short"), ("show", "--full"), ("show", "--raw"),
    ("show", "HEAD:msg/0"), ("show", "main~1:tool/1", "--json"),
    ("search", "sum"), ("search", "nothing-like-it"),
    ("tail",), ("tail", "side", "-n", "1"), ("tail", "--json"),
    ("session", "show", "side"),
)  # fmt: skip


def test_commands_print_the_same_over_a_server(served: Served) -> None:
    served.there()
    answer = run(served, "send", "main", "What is the sum?", "--wait")
    assert "It is 42." in answer.out or answer.out
    assert run(served, "send", "main", "hello there").lines == ["hello there"]
    run(served, "fork", "main~1", "side")
    run(served, "send", "side", "another way")
    served.here()
    run(served, "tag", "add", "main", "good")
    for words in READS:
        here, there = both(served, *words)
        if words[0] == "session":
            # A server does not say who sees a session, nor when its row was written.
            here = [line for line in here if not line.startswith(("seen", "updated"))]
        if words[:1] == ("show",) and "--json" not in words:
            assert [line.split()[:2] for line in there] == [line.split()[:2] for line in here]
        assert there == here, words
    here, there = both(served, "session", "list")
    assert [line.split()[:2] for line in there] == [line.split()[:2] for line in here]


def test_session_is_created_moved_named_and_archived(served: Served) -> None:
    served.there()
    turntree = served.turntree
    assert "begins" in run(served, "send", "desk/one", "first").err
    run(served, "send", "desk/one", "second")
    moved = run(served, "rewind", "desk/one~1")
    assert re.match(r"desk/one moved \w+ <- \w+   \(\w+ stays", moved.out)
    assert "undo with: turntree undo desk/one" in moved.err
    again = run(served, "undo", "desk/one", "--json").document
    assert again["undo"] == "turntree undo desk/one"
    assert run(served, "tail", "desk/one", "-n", "1").lines[-1] == "second"
    assert turntree("rewind", "desk/one", "desk/one").code == 1
    run(served, "rewind", "desk/one", "desk/one~1", "--before")
    assert "no turns yet" in run(served, "session", "show", "desk/one").out
    assert run(served, "session", "create", "empty").lines == ["empty begins, with no turns yet"]
    assert turntree("session", "create", "empty").code == 1
    run(served, "session", "rename", "empty", "full")
    run(served, "session", "archive", "full")
    assert "full" not in run(served, "session", "list").out
    assert "full" in run(served, "session", "list", "--all").out
    run(served, "session", "unarchive", "full")
    labels = [one["label"] for one in run(served, "session", "list", "--json").documents]
    assert {"full", "desk/one", "main"} <= set(labels)
    assert run(served).lines == run(served, "session", "list").lines
    missing = turntree("show", "nothing-here")
    assert (missing.code, "next: turntree session list" in missing.err) == (3, True)


def test_message_is_streamed_queued_and_followed(served: Served) -> None:
    served.there()
    streamed = run(served, "send", "main", "hello you", "--stream")
    assert streamed.lines[0] == "hello you"
    queued = run(served, "send", "main", "one more", "--no-wait", "--idempotency-key", "k").err
    run_id = re.search(r"tail -f (\S+)", queued)
    assert run_id is not None
    followed = run(served, "tail", "-f", run_id[1])
    assert followed.lines[:2] == ["user> one more", "one more"]
    repeated = run(served, "send", "main", "one more", "--idempotency-key", "k", "--json")
    assert repeated.document["turn"] == run_id[1]
    assert run(served, "tail", "main", "-f", "--for", "2").lines[-1] == "one more"
    assert "nothing is being answered" in run(served, "cancel", "main").out


def test_server_option_is_in_the_hints_and_the_key_is_nowhere(
    served: Served, hints: HintRunner
) -> None:
    served.there()
    served.patch.delenv("TURNTREE_SERVER")
    made = run(served, "--server", served.url, "session", "create", "mine", "--json")
    assert made.document["undo"] == f"turntree --server {served.url} session archive mine"
    after = run(served, "session", "show", "mine", "--server", served.url)
    assert "mine" in after.out
    served.patch.delenv("TURNTREE_KEY")
    refused = served.turntree("--server", served.url, "log")
    assert (refused.code, served.url in refused.err) == (4, True)
    words = [sys.executable, "-m", "turntree", "key", "store", served.url]
    stored = subprocess.run(
        words, input=f"{served.key}\n", capture_output=True, text=True, check=True
    )
    assert served.key not in stored.stdout + stored.stderr
    printed = Answer(stored.returncode, stored.stdout, stored.stderr)
    hints.follow_in_shell(printed, f"turntree --server {served.url} session list", by="key")
    assert run(served, "--server", served.url, "session", "show", "mine").code == 0
    run(served, "key", "forget", served.url)
    served.patch.setenv("TURNTREE_KEY", f"{served.key[:-1]}~")
    wrong = served.turntree("--server", served.url, "log")
    assert wrong.code == 4
    assert served.key[:-1] not in wrong.err
    assert os.environ["TURNTREE_KEY"] not in wrong.err


def test_people_are_let_in_and_out_over_a_server(served: Served) -> None:
    served.there()
    turntree = served.turntree
    assert run(served, "member", "add", "bo").lines == ["bo is a member"]
    changed = run(served, "member", "role", "bo", "guest")
    assert changed.lines == ["bo was a member, and is a guest"]
    assert "undo with: turntree member role bo member" in changed.err
    assert turntree("member", "role", "nobody-here", "guest").code == 3
    invited = run(served, "invitation", "create", "cy@example.net", "--json").document
    assert invited["code"].startswith("tti_")
    made = run(served, "key", "create", "ci", "--allow", "action:read", "--json").document
    assert (made["state"], made["scopes"]) == ("valid", {"actions": {"allow": ["read"]}})
    for words in (
        ("member", "list"), ("invitation", "list"), ("key", "list"),
        ("member", "list", "--json"), ("invitation", "list", "--json"), ("key", "list", "--json"),
    ):  # fmt: skip
        here, there = both(served, *words)
        assert there == here, words
    served.there()
    removed = run(served, "member", "remove", "bo", "--json").document
    assert (removed["before"], removed["undo"]) == ("guest", "turntree member add --role guest bo")
    run(served, "invitation", "revoke", invited["id"])
    run(served, "key", "revoke", made["id"], "--reason", "a test")
    assert invited["id"] not in run(served, "invitation", "list").out
    assert "a test" in run(served, "key", "list", "--all").out
