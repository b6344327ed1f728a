import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from turntree.cli.hook_process import entry
from turntree.hooks.launcher import write_launcher

ANSWER = '{"hookSpecificOutput":{}}'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home in which this process passes for the hook daemon."""
    write_launcher(tmp_path, Path(sys.executable), Path(entry.__file__))
    spool = tmp_path / "spool"
    spool.mkdir()
    os.mkfifo(spool / "daemon.fifo")
    (spool / "daemon.lock").write_text(f"{os.getpid()}\n", encoding="utf-8")
    return tmp_path


def ask(
    home: Path,
    kind: str,
    answer: Callable[[Path], str | None],
    *,
    tool: str = "claude-code",
    report: str = '{"session_id":"s"}',
    **variables: str,
) -> tuple[int, str]:
    """Return how the launcher ends and what it prints, when a report gets an answer."""
    process = subprocess.Popen(
        ["sh", str(home / "turntree-hook"), tool, kind],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=home,
        env={**os.environ, **variables},
    )  # fmt: skip

    def serve() -> None:
        until = time.monotonic() + 10
        while time.monotonic() < until:
            for path in (home / "spool").glob("*.raw"):
                text = answer(path)
                if text is not None:
                    path.with_suffix(".answer").write_text(text, encoding="utf-8")
                path.unlink()
                return

    server = threading.Thread(target=serve)
    server.start()
    printed, _ = process.communicate(report, timeout=30)
    server.join()
    return process.returncode, printed


def test_launcher_prints_the_answer_to_its_own_report(home: Path) -> None:
    assert ask(home, "judge", lambda path: f"{path.stem}\n{ANSWER}\n") == (0, f"{ANSWER}\n")
    assert not [*(home / "spool").glob("ask-*")]


def test_launcher_prints_no_answer_to_another_report(home: Path) -> None:
    assert ask(home, "judge", lambda _: f"ask-another\n{ANSWER}\n") == (0, "")
    assert ask(home, "permit", lambda _: ANSWER) == (0, "")


def test_launcher_that_records_nothing_asks_the_judge_all_the_same(home: Path) -> None:
    def answer(path: Path) -> str:
        return f"{path.stem}\n{ANSWER}\n"

    assert ask(home, "judge", answer, TURNTREE_HOOKS="off") == (0, f"{ANSWER}\n")


def test_launcher_without_an_answer_prints_nothing(home: Path) -> None:
    assert ask(home, "judge", lambda _: None) == (0, "")


def test_launcher_that_is_not_asking_prints_nothing(home: Path) -> None:
    assert ask(home, "call", lambda path: f"{path.stem}\n{ANSWER}\n") == (0, "")


BYPASSING = '{"session_id":"s","permission_mode":"bypassPermissions","tool_name":"Bash"}'
"""What both tools report where the user told them to ask nothing: a call without answer is made."""


def word_of(printed: str) -> str:
    document = json.loads(printed)["hookSpecificOutput"]
    assert document["hookEventName"] == "PreToolUse"
    assert "gave no answer" in document["permissionDecisionReason"]
    return str(document["permissionDecision"])


@pytest.mark.parametrize(
    ("tool", "mode", "word"),
    [
        ("claude-code", "bypassPermissions", "ask"),
        # The tool itself decides, and asks nobody.
        ("claude-code", "auto", "ask"),
        ("codex", "bypassPermissions", "deny"),
    ],
)
def test_launcher_without_an_answer_refuses_where_the_tool_asks_nobody(
    home: Path, tool: str, mode: str, word: str
) -> None:
    report = BYPASSING.replace("bypassPermissions", mode)
    for text in (None, f"ask-another\n{ANSWER}\n"):

        def answer(_: Path, text: str | None = text) -> str | None:
            return text

        ended, printed = ask(home, "judge", answer, tool=tool, report=report)
        assert (ended, word_of(printed)) == (0, word)


def test_launcher_leaves_what_was_decided_to_the_tool(home: Path) -> None:
    def answer(path: Path) -> str:
        return f"{path.stem}\n"

    assert ask(home, "judge", answer, tool="codex", report=BYPASSING) == (0, "")


def test_launcher_without_an_answer_leaves_a_question_of_codex_to_codex(home: Path) -> None:
    assert ask(home, "permit", lambda _: None, tool="codex", report=BYPASSING) == (0, "")


def test_call_cannot_hide_the_mode_from_the_launcher(home: Path) -> None:
    said = json.loads(BYPASSING) | {"tool_input": {"command": '"permission_mode":"default"'}}
    report = json.dumps(said, separators=(",", ":"))
    _, printed = ask(home, "judge", lambda _: None, report=report)
    assert word_of(printed) == "ask"
    said = {"session_id": "s", "permission_mode": "default",
            "tool_input": {"command": '"permission_mode":"bypassPermissions"'}}  # fmt: skip
    assert ask(home, "judge", lambda _: None, report=json.dumps(said)) == (0, "")


@pytest.mark.parametrize("what", ["spool", "python"])
def test_launcher_refuses_where_nothing_can_be_started(home: Path, what: str) -> None:
    if what == "spool":
        (home / "spool").chmod(0o500)
        if os.geteuid() == 0:
            shutil.rmtree(home / "spool")
            (home / "spool").write_text("", encoding="utf-8")
    else:
        write_launcher(home, home / "gone", Path(entry.__file__))
        (home / "spool/daemon.lock").write_text("", encoding="utf-8")
    done = subprocess.run(
        ["sh", str(home / "turntree-hook"), "claude-code", "judge"], input=BYPASSING, text=True,
        capture_output=True, check=False, env={"PATH": os.defpath, "HOME": str(home)},
    )  # fmt: skip
    assert (done.returncode, word_of(done.stdout)) == (0, "ask")
