"""``hook``: installed, asked about, and read when the database is back."""

import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Call
from turntree.adapters.hooks.launcher import launcher_path
from turntree.adapters.hooks.spool import FOLDER


@pytest.fixture
def home(bare: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home, and one of ours in it."""
    person = tmp_path / "person"
    person.mkdir()
    monkeypatch.setenv("HOME", str(person))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TURNTREE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def leave(home: Path, kind: str, at_ms: int, session: str = "s1") -> None:
    """Leave a sighting, as the attendant does."""
    folder = home / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    told = {
        "version": 1, "tool": "claude-code", "kind": kind, "at_ms": at_ms, "session": session,
        "agent": None, "transcript": str(home / "there" / f"{session}.jsonl"), "place": None,
        "pid": os.getpid(),
    }  # fmt: skip
    (folder / f"{at_ms:020d}-1.sighting").write_text(json.dumps(told), encoding="utf-8")


def test_installing_says_where_how_to_undo_it_and_what_is_next(bare: Call, home: Path) -> None:
    answer = bare("hook", "install", "claude-code")
    settings = home.parent / "person" / ".claude" / "settings.json"
    assert str(settings) in answer.out
    assert "undo with: turntree hook uninstall claude-code" in answer.err
    command = json.loads(settings.read_text(encoding="utf-8"))["hooks"]["Stop"][0]["hooks"][0]
    assert str(launcher_path(home)) in command["command"]
    again = bare("hook", "install", "claude-code")
    assert "nothing to change" in again.out
    assert bare("hook", "uninstall", "claude-code").code == 0
    assert not settings.exists()


def test_a_project_gets_hooks_of_its_own(
    bare: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path.cwd() / ".git").mkdir()
    deep = Path.cwd() / "deep"
    deep.mkdir()
    monkeypatch.chdir(deep)
    document = bare("hook", "install", "claude-code", "--project", "--json").document
    assert document["path"] == str(deep.parent / ".claude" / "settings.local.json")
    assert document["complete"]


def test_codex_waits_for_a_review_unless_told_otherwise(bare: Call, home: Path) -> None:
    assert "/hooks" in bare("hook", "install", "codex").err
    assert "wait for your review" in bare("hook", "status").out
    bare("hook", "install", "codex", "--trust")
    assert "your review" not in bare("hook", "status").out


def test_status_shows_what_waits_and_what_went_wrong(bare: Call, home: Path) -> None:
    assert "install claude-code" in bare("hook", "status").err
    leave(home, "begin", 1000)
    leave(home, "end", 2000)
    failed = bare("hook", "drain")
    assert failed.code == 5
    assert bare("hook", "drain", "--quietly").code == 0
    document = bare("hook", "status", "--json").document
    assert document["waiting"] == 2
    assert "drain" in document["error"]
    assert {hook["installed"] for hook in document["hooks"]} == {False}
    assert "2 sightings wait" in bare("hook", "status").out


def test_what_waited_is_read_when_the_database_is_back(turntree: Call, home: Path) -> None:
    leave(home, "session", 1000)
    answer = turntree("hook", "drain")
    assert answer.out == "1 sightings read, 0 turns added, 0 pinned; 0 sightings wait\n"
    assert "claude-code/there/s1" in turntree("session", "list").out
    last = turntree("hook", "status", "--json").document["last"]
    assert (last["tool"], last["kind"]) == ("claude-code", "session")
    assert turntree("hook", "drain", "--json").document["read"] == 0


def test_up_reads_what_waited_too(turntree: Call, home: Path) -> None:
    leave(home, "session", 1000, "s2")
    turntree("up", "--no-import")
    assert "claude-code/there/s2" in turntree("session", "list").out
