"""``worker``: a process of its own that answers what others send, and leaves when it is told to."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Call
from tests.cli.talker import SUM, TOOLS, furnish

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
BEGIN_S = 60
END_S = 40
SPEAK_S = 1.0
TELLS_LIBRARIES = """
import atexit, sys
from turntree.cli.main import main
known = {"anthropic", "openai", "google.genai"}
atexit.register(lambda: print(*sorted(known & sys.modules.keys())))
main()
"""
"""Runs a command, and prints at its end which vendors' libraries it has loaded."""
BREAKS_LIBRARY = """
import sys
from turntree.cli.main import main
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("anthropic."):
            raise RuntimeError("built for another machine")
sys.meta_path.insert(0, Broken())
main()
"""
"""Runs a command in an environment where a vendor's library is broken."""


@contextmanager
def working(
    *options: str, through: Sequence[str] = ("-m", "turntree.cli.main")
) -> Generator["subprocess.Popen[str]", None, None]:
    """A worker that serves, and is gone at the end."""
    command = [sys.executable, *through, "worker", "--json", *options]
    # Its tools are a module of these tests.
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as worker:
        try:
            yield worker
        finally:
            worker.kill()


def wait_until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + BEGIN_S
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.1)


def told(worker: "subprocess.Popen[str]") -> dict[str, object]:
    assert worker.stdout is not None
    document: dict[str, object] = json.loads(worker.stdout.readline())
    return document


def test_a_worker_answers_what_others_send_and_drains(turntree: Call) -> None:
    furnish(turntree)
    with working("--name", "bee", "--concurrency", "2", "--tools", TOOLS) as bee:
        assert told(bee) == {
            "worker": "bee", "workspaces": ["tests"], "all": True, "at_once": 2, "engine": "DBOS",
            "tools": [
                "add", "ledger.recall", "ledger.read", "ledger.search", "ledger.fork",
                "ledger.send",
            ],
        }  # fmt: skip
        assert turntree("status", "--json").document["workers"] == ["bee"]
        assert turntree("send", "main", "the sum", "--no-worker").out == "It is 42.\n"
        bee.send_signal(signal.SIGTERM)
        assert bee.wait(END_S) == 0
    assert turntree("status", "--json").document["workers"] == []


def test_a_worker_that_answers_has_loaded_the_libraries_of_its_models(turntree: Call) -> None:
    # Told to stop in its first run, it would spend its whole drain on an import.
    for words in (
        ("provider", "create", "claude", "--type", "anthropic"),
        ("model", "create", "sonnet", "--backend", "claude-sonnet-5-5", "--provider", "claude"),
        ("provider", "create", "cloud", "--type", "cloudflare-ai-gateway"),
        ("model", "create", "mini", "--backend", "openai/gpt-5.4", "--provider", "cloud"),
    ):
        assert turntree(*words).code == 0
    with working(through=("-c", TELLS_LIBRARIES)) as bee:
        told(bee)
        bee.send_signal(signal.SIGTERM)
        printed, _ = bee.communicate(timeout=END_S)
    assert printed == "anthropic openai\n"


def test_a_worker_starts_beside_a_broken_library(turntree: Call) -> None:
    for words in (
        ("provider", "create", "claude", "--type", "anthropic"),
        ("model", "create", "sonnet", "--backend", "claude-sonnet-5-5", "--provider", "claude"),
    ):
        assert turntree(*words).code == 0
    with working(through=("-c", BREAKS_LIBRARY)) as bee:
        told(bee)
        bee.send_signal(signal.SIGTERM)
        bee.communicate(timeout=END_S)
    assert bee.returncode == 0


def test_a_worker_answers_in_other_workspaces_too_unless_it_is_limited(
    turntree: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    furnish(turntree)
    monkeypatch.setenv("TURNTREE_WORKSPACE", "other")
    furnish(turntree)
    with working("--name", "bee", "--tools", TOOLS) as bee:
        assert told(bee)["workspaces"] == ["tests", "other"]
        for name in ("tests", "other"):
            monkeypatch.setenv("TURNTREE_WORKSPACE", name)
            assert turntree("status", "--json").document["workers"] == ["bee"]
            assert turntree("send", "main", "the sum", "--no-worker").out == "It is 42.\n"
    with working("--name", "ant", "--workspace", "tests") as ant:
        assert told(ant)["workspaces"] == ["tests"]
        assert turntree("status", "--json").document["workers"] == []
        monkeypatch.setenv("TURNTREE_WORKSPACE", "tests")
        assert turntree("status", "--json").document["workers"] == ["ant"]
    with working("--workspace", "nowhere") as lost:
        assert lost.wait(BEGIN_S) == 3
        assert lost.stderr is not None
        assert "there is no workspace 'nowhere'" in lost.stderr.read()


def test_a_token_limits_a_worker_to_its_workspace(turntree: Call) -> None:
    token = turntree("token", "issue", "worker", "--json").document["token"]
    with working("--token", token, "--workspace", "other") as refused:
        assert refused.wait(BEGIN_S) == 1
        assert refused.stderr is not None
        assert "the token is for tests, not for other" in refused.stderr.read()
    with working("--token", token) as bee:
        assert told(bee)["workspaces"] == ["tests"]


def test_a_second_worker_of_the_same_name_is_refused(turntree: Call) -> None:
    with working("--name", "bee") as bee:
        told(bee)
        with working("--name", "bee") as other:
            assert other.wait(BEGIN_S) == 1
            assert other.stderr is not None
            assert "a worker named bee is already running" in other.stderr.read()


def test_what_a_killed_worker_left_is_answered_by_the_next_command(turntree: Call) -> None:
    furnish(turntree, [{"when": "long", "replies": [{"text": "word " * 100}]}],
            "--set", "word_delay_s=0.05")  # fmt: skip
    with working("--name", "bee") as bee:
        told(bee)
        run = turntree("send", "main", "a long one", "--no-wait", "--json").document["run"]
        wait_until(lambda: bool(turntree("status", "--json").document["runs"]))
        bee.kill()
        bee.wait(END_S)
    answer = turntree("send", "main", "and you?")
    assert answer.out == "and you?\n"
    turns = turntree("log", "main", "--json").documents
    assert [turn["title"] for turn in turns] == ["and you?", "a long one"]
    assert turns[1]["id"] == run


def test_a_run_that_nobody_answers_any_more_can_be_canceled(turntree: Call) -> None:
    furnish(turntree, [{"when": "long", "replies": [{"text": "word " * 400}]}],
            "--set", "word_delay_s=0.05")  # fmt: skip
    with working("--name", "bee") as bee:
        told(bee)
        turntree("send", "main", "a long one", "--no-wait")
        wait_until(lambda: bool(turntree("status", "--json").document["runs"]))
        said_until = time.monotonic() + SPEAK_S
        wait_until(lambda: time.monotonic() > said_until)
        ended = turntree("cancel", "main", "--json").document
        assert ended["outcome"] == "canceled"
    assert turntree("log", "main", "--json").documents == []
    # What it had said is not lost, and nobody takes it for all of it.
    shown = turntree("show", ended["run"]).out
    assert "assista… word word" in shown
    assert "(cut off here)" in shown
    assert turntree("fsck").code == 0


def test_the_calls_of_an_open_run_are_in_the_view(turntree: Call) -> None:
    slow = {"when": "sum", "replies": [SUM["replies"][0], {"text": "wait", "delay_s": 600}]}
    furnish(turntree, [slow])
    called = "SELECT tool_name, status, params_json, result_json, tool_number FROM tool_calls"

    def calls() -> list[dict[str, Any]]:
        return turntree("sql", "--json", "--whole", called).documents

    with working("--tools", TOOLS):
        turntree("send", "main", "the sum", "--no-wait")
        wait_until(lambda: [row["status"] for row in calls()] == ["completed"])
        (call,) = calls()
        assert (call["tool_name"], call["tool_number"]) == ("add", 1)
        assert (call["params_json"], call["result_json"]) == ({"a": 20, "b": 22}, 42)
        assert turntree("cancel", "main").code == 0
    (call,) = calls()
    assert (call["status"], call["result_json"]) == ("completed", 42)
    stopped = "SELECT to_id FROM edges WHERE kind = 'INTERRUPTS'"
    assert len(turntree("sql", "--json", stopped).documents) == 1


@pytest.mark.parametrize("has_begun", [True, False])
def test_canceling_a_run_cancels_the_runs_that_it_waits_for(
    turntree: Call, *, has_begun: bool
) -> None:
    call = {"tools": [{"tool": "helper", "args": {"message": "long"}}]}
    furnish(turntree, [
        {"when": "manage", "replies": [call, {"text": "done"}]},
        {"when": "long", "replies": [{"text": "wait", "delay_s": 600}]},
    ])  # fmt: skip
    turntree("agent", "create", "helper", "--model", "echo")
    turntree("agent", "create", "atlas", "--model", "echo", "--tool", "helper")
    outcomes = "SELECT DISTINCT outcome FROM turntree.turns"
    with working("--name", "bee") as bee:
        told(bee)
        parent = turntree("send", "@(atlas)", "manage", "--no-wait", "--json").document["run"]
        if has_begun:
            opened = "SELECT id FROM turntree.runs WHERE status <> 'finished' AND id <> "
            wait_until(lambda: bool(turntree("sql", f"{opened}'{parent}'", "--json").out))
        assert turntree("cancel", "atlas:main" if has_begun else parent).code == 0
        wait_until(lambda: bool(turntree("sql", outcomes, "--json").out))
        count = "SELECT count(*) AS n FROM turntree.runs WHERE status <> 'finished'"
        wait_until(lambda: turntree("sql", count, "--json").document == {"n": 0})
    assert turntree("sql", outcomes, "--json").document == {"outcome": "canceled"}
