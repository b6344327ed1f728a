"""The home screen, the list of sessions and the choice from it."""

import os
import sys
from pathlib import Path

import pexpect
import pytest

from tests.cli.conftest import Call
from tests.cli.project import Project

LONG = "claude-code/-home-ana-some-longer-project/24e44709"


@pytest.fixture
def shop(turntree: Call, project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Two sessions worked in this folder, and one elsewhere."""
    monkeypatch.setenv("COLUMNS", "80")
    project.say("Elsewhere", session="elsewhere")
    project.turn("Write the cart", {"cart.py": "1\n", "b.py": "2\n"}, session="first")
    project.turn("Make it faster", {"cart.py": "2\n"}, session=LONG)
    return project


def test_home_shows_the_newest_sessions_here(turntree: Call, shop: Project) -> None:
    answer = turntree()
    assert answer.code == 0
    title, newest, older = answer.lines
    assert title == str(shop.folder)
    assert " ".join(newest.split()) == "* 24e44709 1 turn 1 file now Make it faster"
    assert " ".join(older.split()) == "first 1 turn 2 files now Write the cart"
    assert answer.err.splitlines()[0].startswith("next: turntree log 24e44709 ")
    assert answer.err.splitlines()[-1].endswith(" all 3 sessions")
    assert "turntree rewind HEAD --before --files   undo the last turn and its files" in answer.err
    assert all(len(line) <= 80 for line in (*answer.lines[1:], *answer.err.splitlines()))
    documents = turntree("--json").documents
    assert [one["label"] for one in documents] == [LONG, "first"]
    assert (documents[0]["title"], documents[0]["files"]) == ("Make it faster", 1)
    assert documents[0]["folder"] == str(shop.folder)
    # What is printed can be typed.
    for line in answer.err.splitlines():
        words = line[6:].split("   ")[0].split()
        assert turntree(*words[1:]).code == 0, line


def test_home_in_another_folder_shows_the_newest_of_all(
    turntree: Call, shop: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    answer = turntree()
    assert answer.err.startswith("no session has worked in this folder yet; the newest of others:")
    assert len(answer.lines) == 3


def test_home_without_anything_points_to_up(bare: Call, turntree: Call) -> None:
    answer = turntree()
    assert (answer.code, answer.out) == (0, "")
    assert answer.err.startswith("nothing is recorded yet.\nnext: turntree on ")
    assert turntree("--json").out == ""


def test_home_starts_no_server(bare: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNTREE_DATABASE_URL")
    monkeypatch.setenv("TURNTREE_HOME", str(tmp_path / "never"))
    assert "next: turntree on" in bare().err
    assert not (tmp_path / "never").exists()


def test_session_list_is_newest_first_and_filtered(turntree: Call, shop: Project) -> None:
    def labels(*options: str) -> list[str]:
        return [one["label"] for one in turntree("session", "list", "--json", *options).documents]

    assert labels() == [LONG, "first", "elsewhere"]
    assert labels("--here") == [LONG, "first"]
    assert labels("--from", str(shop.folder)) == [LONG, "first"]
    assert labels("--from", ".") == [LONG, "first"]
    assert labels("--from", "codex") == labels("--tool", "codex") == []
    assert labels("--since", "yesterday") == [LONG, "first", "elsewhere"]
    assert turntree("session", "list", "--since", "never").code == 2
    assert turntree("session", "list", "--tool", "codex").err.startswith("no session matches.")
    listed = turntree("session", "list").lines
    assert [line.split()[0] for line in listed] == ["*", "first", "elsewhere"]
    assert all(len(line) <= 80 for line in listed)
    assert "Make it faster" in listed[0]
    assert turntree("session", "list", "--pick").lines == listed, "a pipe is never asked"
    assert turntree("switch").code == 2


def test_switch_on_a_terminal_lets_a_person_choose(turntree: Call, shop: Project) -> None:
    terminal = pexpect.spawn(
        sys.executable,
        ["-m", "turntree", "switch"],
        env={**os.environ, "TERM": "xterm-256color"},
        cwd=str(shop.folder),
        dimensions=(30, 80),
        encoding="utf-8",
        timeout=30,
    )
    terminal.expect("Which session")
    terminal.expect("elsewhere")
    terminal.send("\x1b[B")
    terminal.send("\r")
    terminal.expect("HEAD is first now")
    terminal.expect(pexpect.EOF)
    assert (shop.folder / ".turntree/HEAD").read_text() == "first\n"
