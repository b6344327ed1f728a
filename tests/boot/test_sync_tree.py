"""The synchronous face: the same tree, for a script, a notebook and a person who presses Ctrl-C."""

import asyncio
import inspect
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest

import turntree
from tests.sync_stub import STUB, write_stub
from turntree.boot.open import Settings
from turntree.core.canonical import Json

SOON_S = 30.0
SCRIPT: dict[str, Json] = {"provider_type": "scripted", "word_delay_s": 0.01}
ECHO: dict[str, Json] = {"model_id": "scripted-1", "provider": "@(script)"}
WAITING = """
import turntree
with turntree.open_sync() as tree:
    slow = [{"when": "", "replies": [{"text": "late", "delay_s": 600}]}]
    tree.programs.ensure("provider", "script", {"provider_type": "scripted", "rules": slow})
    tree.programs.ensure("model", "echo", {"model_id": "scripted-1", "provider": "@(script)"})
    print("waiting", flush=True)
    tree.ask("talk", "Hello?")
"""
FORGETFUL = """
import turntree
from turntree import assistant, user
tree = turntree.open_sync(worker=True)
tree.turns.record("main", [user("Name a tree.")], [assistant("Oak.")])
print("end", flush=True)
"""


@pytest.fixture
def settings(conninfo: str, tmp_path: Path) -> Settings:
    return Settings(tmp_path, database_url=conninfo, workspace="blocking", user="ana")


@pytest.fixture
def tree(settings: Settings) -> Generator[turntree.SyncTree, None, None]:
    with turntree.open_sync(settings) as opened:
        opened.programs.ensure("provider", "script", SCRIPT)
        opened.programs.ensure("model", "echo", ECHO)
        yield opened
    assert "turntree" not in [thread.name for thread in threading.enumerate()]


def environment(conninfo: str, tmp_path: Path) -> dict[str, str]:
    names = {"TURNTREE_DATABASE_URL": conninfo, "TURNTREE_HOME": str(tmp_path)}
    return {**os.environ, **names, "TURNTREE_WORKSPACE": "blocking"}


def test_the_types_are_those_of_the_asynchronous_tree() -> None:
    assert STUB.read_text(encoding="utf-8") == write_stub(), "python -m tests.sync_stub"


def test_calls_return_results_and_raise_errors(tree: turntree.SyncTree) -> None:
    query, reply = [turntree.user("Name a tree.")], [turntree.assistant("Oak.")]
    placed = tree.turns.record("main", query, reply)
    assert tree.recorder("main").record(query, reply).parent == placed.turn.id
    assert tree.ask("talk", "Say this again.").text == "Say this again."
    assert [session.label for session in tree.sessions.list_all()] == ["main", "talk"]
    assert tree.search("oak").hits
    with pytest.raises(turntree.NotFound):
        tree.resolve("nothing")


def test_a_run_can_be_followed_and_left_in_the_middle(tree: turntree.SyncTree) -> None:
    posted = tree.runs.post("talk", "one two three")
    tree.ask("talk", "and four", timeout_s=SOON_S)
    kinds = [type(news).__name__ for news in tree.runs.follow(posted.run)]
    assert kinds.count("RunEvent") >= 3
    following = tree.runs.follow(posted.run)
    next(following)
    following.close()
    with pytest.raises(turntree.NotFound):
        list(tree.runs.follow("no-session"))
    with tree.search.filling():
        pass


def test_completion_and_help_are_those_of_the_tree(tree: turntree.SyncTree) -> None:
    assert "ask" in dir(tree)
    assert "close" in dir(tree)
    assert "inbox" not in dir(tree.runs)
    assert "record" in dir(tree.turns)
    assert "query" in inspect.signature(tree.turns.record).parameters
    assert "seal" in (inspect.getdoc(tree.turns.record) or "").lower()


def test_a_closed_tree_says_so(settings: Settings) -> None:
    tree = turntree.open_sync(settings)
    tree.close()
    tree.close()
    with pytest.raises(turntree.InvalidOperation, match="the tree is closed"):
        tree.resolve("main")


def test_an_error_in_the_block_closes_the_tree(settings: Settings) -> None:
    with pytest.raises(KeyError), turntree.open_sync(settings, worker=True):
        raise KeyError("raised early")
    assert "turntree" not in [thread.name for thread in threading.enumerate()]


def test_a_database_that_cannot_be_reached_leaves_no_thread(tmp_path: Path) -> None:
    with pytest.raises(turntree.DatabaseUnavailable):
        turntree.open_sync(Settings(tmp_path, database_url="postgresql://127.0.0.1:1/none"))
    assert "turntree" not in [thread.name for thread in threading.enumerate()]


def test_it_works_where_a_loop_is_running_already(settings: Settings) -> None:
    async def cell() -> int:
        with turntree.open_sync(settings) as tree:
            tree.turns.record("main", [turntree.user("q")], [turntree.assistant("a")])
            return tree.sessions.get("main").depth

    assert asyncio.run(cell()) == 1


def test_ctrl_c_ends_a_script_that_waits(conninfo: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WAITING],
        env=environment(conninfo, tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    ) as script:  # fmt: skip
        assert script.stdout is not None
        assert script.stdout.readline() == "waiting\n"
        time.sleep(1)  # Until it has asked; any moment will do.
        script.send_signal(signal.SIGINT)
        _, errors = script.communicate(timeout=SOON_S)
    assert errors.splitlines()[-1] == "KeyboardInterrupt"
    assert script.returncode == -signal.SIGINT


def test_a_script_that_forgets_to_close_ends(conninfo: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORGETFUL],
        env=environment(conninfo, tmp_path), capture_output=True, text=True, check=False,
        timeout=SOON_S,
    )  # fmt: skip
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "end\n", "")
