import os
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
    home: Path, kind: str, answer: Callable[[Path], str | None], **variables: str
) -> tuple[int, str]:
    """Return how the launcher ends and what it prints, when a report gets an answer."""
    process = subprocess.Popen(
        ["sh", str(home / "turntree-hook"), "claude-code", kind],
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
    printed, _ = process.communicate('{"session_id": "s"}', timeout=30)
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
