"""``ps``: what agents do, as their hooks and transcripts tell it, without a database."""

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from proofs.transcripts.claude_code import A, B, Tape, save
from proofs.transcripts.live import LIVE
from tests.cli.conftest import Call
from turntree.cli.hook_process.daemon import find_daemon, stop_daemon
from turntree.hooks.launcher import launcher_path
from turntree.hooks.spool import Spool

WAIT_MAX_S = 20


@pytest.fixture
def home(bare: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A person's home with hooks in Claude Code; the database cannot be reached."""
    person = tmp_path / "person"
    (person / ".claude").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(person))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TURNTREE_HOME", str(tmp_path / "home"))
    (tmp_path / "shop").mkdir()
    bare("hook", "install", "claude-code")
    yield tmp_path / "home"
    stop_daemon(Spool(tmp_path / "home" / "spool"))


def report(home: Path, kind: str, session: str = A, tool: str = "claude-code", **more: Any) -> None:
    """Have an agent's hook report, and wait until the daemon has seen it."""
    said = json.dumps({"session_id": session, "cwd": str(home.parent / "shop"), **more})
    command = ["sh", str(launcher_path(home)), tool, kind]
    subprocess.run(command, input=said, text=True, check=True)
    until = time.monotonic() + WAIT_MAX_S
    while Spool(home / "spool").list_said() or find_daemon(Spool(home / "spool")) is None:
        assert time.monotonic() < until, "no daemon took the report"
        time.sleep(0.02)


def states(bare: Call, *words: str) -> dict[str, str]:
    found = bare("ps", "--json", *words).document
    return {agent["session"]: agent["state"] for agent in found["agents"]}


def test_ps_without_reports_says_what_to_do(turntree: Call, home: Path) -> None:
    answer = turntree("ps")
    assert answer.code == 0
    assert "next: turntree on" in answer.err
    assert turntree("ps", "--json").document == {"agents": [], "overlaps": []}


def test_ps_follows_a_session_from_its_opening_to_its_end(bare: Call, home: Path) -> None:
    expected = [
        ("session", {}, "open"),
        ("begin", {}, "working"),
        ("wait", {"notification_type": "permission_prompt"}, "waiting"),
        ("cut", {}, "working"),
        ("wait", {}, "waiting"),
        ("end", {}, "done"),
        ("wait", {"notification_type": "idle_prompt"}, "done"),
        ("begin", {}, "working"),
        ("end", {"agent_id": "a1"}, "working"),
        ("end", {}, "done"),
    ]
    for kind, more, state in expected:
        report(home, kind, **more)
        assert states(bare) == {A: state}, (kind, more)
    report(home, "close")
    assert states(bare) == {}
    assert states(bare, "--all") == {A: "closed"}


def test_ps_names_the_agent_its_folder_and_question(bare: Call, home: Path) -> None:
    tape = Tape()
    tape.exchange("Round the total")
    save(Path.home() / ".claude", tape)
    (transcript,) = (Path.home() / ".claude" / "projects").rglob("*.jsonl")
    report(home, "begin", transcript_path=str(transcript))
    (line,) = bare("ps").lines
    assert line.startswith("working")
    assert "Claude Code" in line
    assert "shop" in line
    (agent,) = bare("ps", "--json").document["agents"]
    assert agent["folder"] == str(home.parent / "shop")
    assert "Round the total" in agent["title"]


def test_ps_shows_that_a_person_agreed_when_the_transcript_goes_on(bare: Call, home: Path) -> None:
    transcript = home.parent / "t.jsonl"
    transcript.write_text("{}\n", encoding="utf-8")
    report(home, "begin", transcript_path=str(transcript))
    report(home, "wait")
    assert states(bare) == {A: "waiting"}
    later = time.time() + 2
    os.utime(transcript, (later, later))
    assert states(bare) == {A: "working"}
    now = time.time()
    os.utime(transcript, (now, now))
    report(home, "wait")
    assert states(bare) == {A: "waiting"}, "it asks again"


def test_ps_names_files_that_two_agents_edit_at_the_same_time(bare: Call, home: Path) -> None:
    shop = home.parent / "shop"
    ours = LIVE["claude-code"](Path.home(), A, str(shop))
    theirs = LIVE["copilot"](Path.home(), B, str(shop))
    report(home, "begin", transcript_path=str(ours.file))
    report(home, "begin", B, "copilot", transcriptPath=str(theirs.file))
    for agent in (ours, theirs):
        agent.ask("Round the total")
        agent.edit(str(shop / "cart.py"))
    ours.edit(str(shop / "own.py"))
    document = bare("ps", "--json").document
    assert {agent["session"]: agent["files"] for agent in document["agents"]} == {
        A: [str(shop / "cart.py"), str(shop / "own.py")],
        B: [str(shop / "cart.py")],
    }
    assert all(agent["cost"] is not None for agent in document["agents"])
    (overlap,) = document["overlaps"]
    assert overlap["path"] == str(shop / "cart.py")
    assert {one["session"] for one in overlap["sessions"]} == {A, B}
    assert overlap["going_on"]
    told = bare("ps").lines[-1]
    assert told.startswith("two agents are editing ")
    assert "cart.py (" in told
    report(home, "end")
    assert bare("ps").lines[-1].startswith("two agents edited at the same time: ")
    report(home, "begin")
    (overlap,) = bare("ps", "--json").document["overlaps"]
    assert not overlap["going_on"], "its new turn has edited nothing yet"
    report(home, "begin", B, "copilot")
    assert bare("ps", "--json").document["overlaps"] == []


def test_ps_finds_no_overlap_where_one_turn_began_after_the_other_ended(
    bare: Call, home: Path
) -> None:
    shop = home.parent / "shop"
    for tool, session in (("claude-code", A), ("codex", B)):
        agent = LIVE[tool](Path.home(), session, str(shop))
        report(home, "begin", session, tool, transcript_path=str(agent.file))
        agent.ask("Round the total")
        agent.edit(str(shop / "cart.py"))
        agent.answer("Done.")
        report(home, "end", session, tool)
    document = bare("ps", "--json").document
    assert [agent["files"] for agent in document["agents"]] == [[str(shop / "cart.py")]] * 2
    assert document["overlaps"] == []


def test_ps_shows_a_turn_that_a_person_interrupted_as_done(bare: Call, home: Path) -> None:
    agent = LIVE["claude-code"](Path.home(), A, str(home.parent / "shop"))
    report(home, "begin", transcript_path=str(agent.file))
    agent.ask("Round the total")
    assert states(bare) == {A: "working"}
    agent.ask("[Request interrupted by user]")
    assert states(bare) == {A: "done"}


def test_ps_watch_prints_each_change_once(bare: Call, home: Path) -> None:
    report(home, "begin")
    answer = bare("ps", "--watch", "--for", "1.2", "--json")
    assert [document["agents"][0]["state"] for document in answer.documents] == ["working"]
    assert bare("ps", "--for", "1").code == 2
