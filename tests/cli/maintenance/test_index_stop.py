"""``index embed`` in a process of its own, which a person stops with Ctrl-C."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.databases import as_owner
from turntree.api import Tree
from turntree.core.message import assistant, user
from turntree.search.embedders.minilm import find_minilm

TURNS = 150
WORDS = [sys.executable, "-m", "turntree", "index", "embed"]
pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.mark.skipif(find_minilm() is None, reason="the weights are not installed")
async def test_ctrl_c_stops_embedding_and_keeps_what_was_done(
    tree: Tree, conninfo: str, tmp_path: Path
) -> None:
    for number in range(TURNS):
        await tree.turns.record("main", [user(f"turn {number}")], [assistant("ok")])
    environment = {
        **os.environ, "TURNTREE_DATABASE_URL": as_owner(conninfo), "TURNTREE_WORKSPACE": "tests",
        "TURNTREE_CONFIG": str(tmp_path / "none"), "TURNTREE_HOME": str(tmp_path), "TERM": "xterm",
        "TURNTREE_USER": "ana",
    }  # fmt: skip
    shown = stop_after_a_batch(environment, tmp_path)
    assert b"embedding\xe2\x80\xa6 0 turns" in shown
    assert b"stopped; " in shown
    (kept,) = await tree.meanings.list_stats()
    assert 32 <= kept.total < TURNS
    rest = finish(environment)
    assert f"embedded {TURNS - kept.total} that had no vector yet, " in rest
    assert "per second" in rest


def stop_after_a_batch(environment: dict[str, str], folder: Path) -> bytes:
    """Send what Ctrl-C sends when the first batch is stored; return what the terminal showed."""
    screen, its_stderr = pty.openpty()
    process = subprocess.Popen(WORDS, stderr=its_stderr, env=environment, cwd=folder)
    os.close(its_stderr)
    shown = b""
    while b"32 turns, " not in shown:
        shown += os.read(screen, 1000)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    while b"next: turntree index embed" not in shown:
        shown += os.read(screen, 1000)
    os.close(screen)
    return shown


def finish(environment: dict[str, str]) -> str:
    done = subprocess.run(WORDS, capture_output=True, text=True, env=environment, check=True)
    return done.stdout
