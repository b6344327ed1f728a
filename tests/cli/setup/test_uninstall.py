"""``uninstall`` and ``down``: what they stop and remove, seen on the screen and on the disk."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pexpect
import pytest

from tests.cli.conftest import Call
from tests.cli.hint_runner import HintRunner, begin_and_end
from turntree.cli.hook_process.daemon import find_daemon
from turntree.hooks.launcher import launcher_path
from turntree.hooks.spool import Spool


@pytest.fixture
def home(bare: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A person's home with settings of two agents, and one of ours in it."""
    person = tmp_path / "person"
    (person / ".claude").mkdir(parents=True)
    (person / ".claude" / "settings.json").write_text('{ "model":"opus" }', encoding="utf-8")
    (person / ".codex").mkdir()
    monkeypatch.setenv("HOME", str(person))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{person / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("TURNTREE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def report_turn(home: Path, kind: str = "begin") -> int:
    """Have an agent's hook report, and return the process id of the daemon this starts."""
    said = json.dumps({"session_id": "s1", "cwd": str(Path.cwd())})
    command = ["sh", str(launcher_path(home)), "claude-code", kind]
    subprocess.run(command, input=said, text=True, check=True)
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if pid := find_daemon(Spool(home / "spool")):
            return pid
        time.sleep(0.02)
    raise AssertionError("no daemon came up")


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended may not have been waited for yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def ends(pid: int) -> bool:
    """Return whether a process ends soon: it gives its lock back before Python has shut down."""
    until = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not is_alive(pid)


def test_down_stops_the_hook_daemon_and_says_what_starts_it_again(bare: Call, home: Path) -> None:
    bare("hook", "install", "claude-code")
    pid = report_turn(home)
    answer = bare("down")
    assert answer.code == 0
    assert f"the hook daemon (process {pid}) has stopped" in answer.out
    assert "the next turn of an agent with hooks starts it again" in answer.err
    assert ends(pid)
    assert len(list((home / "spool").glob("*.event"))) == 1, "what it was told is not lost"
    assert bare("down", "--json").document["daemon"] is None
    again = report_turn(home)
    assert again != pid
    assert bare("down", "--json").document["daemon"] == again


def test_uninstall_shows_removes_and_leaves_the_data(bare: Call, home: Path) -> None:
    settings = home.parent / "person" / ".claude" / "settings.json"
    bare("hook", "install")
    project = home.parent / "elsewhere"
    (project / ".git").mkdir(parents=True)
    here = Path.cwd()
    os.chdir(project)
    bare("hook", "install", "gemini", "--project")
    os.chdir(here)
    pid = report_turn(home)
    preview = bare("uninstall", "--dry-run")
    assert preview.code == 0
    assert f"hooks   Claude Code, in {settings}" in preview.out
    assert f"hooks   Gemini CLI, in {project / '.gemini' / 'settings.json'}" in preview.out
    assert f"daemon  process {pid}" in preview.out
    assert is_alive(pid)
    assert "turntree-hook" in settings.read_text(encoding="utf-8")
    answer = bare("uninstall", "--yes")
    assert answer.code == 0
    assert answer.err.endswith("last step: pip uninstall turntree\n")
    assert settings.read_text(encoding="utf-8") == '{ "model":"opus" }'
    assert not (project / ".gemini").exists()
    assert ends(pid)
    assert not launcher_path(home).exists()
    assert (home / "spool").is_dir(), "what was recorded stays"
    assert bare("uninstall", "--yes").out == "there is nothing to remove\n"


def test_mcp_server_is_installed_and_removed_with_everything_else(bare: Call, home: Path) -> None:
    settings = home.parent / "person" / ".cursor" / "mcp.json"
    answer = bare("mcp", "install", "cursor")
    assert answer.out == f"Cursor can ask Turntree: {settings}\n"
    assert answer.err == "undo with: turntree mcp uninstall cursor\n"
    assert bare("mcp", "install", "cursor", "--json").document["undo"] is None
    assert "mcp     Cursor" in bare("uninstall", "--dry-run").out
    answer = bare("uninstall", "--yes")
    assert "undo with: turntree mcp install cursor" in answer.err
    assert not settings.exists()
    assert "(nothing to change)" in bare("mcp", "uninstall", "cursor").out


def test_uninstall_deletes_data_only_with_both_options_and_only_its_own(
    bare: Call, home: Path
) -> None:
    bare("hook", "install")
    bare("config", "set", "color", "never")
    report_turn(home)
    (home / "notes.txt").write_text("the user's", encoding="utf-8")
    refused = bare("uninstall", "--data")
    assert refused.code == 1
    assert "next: turntree uninstall --yes --data" in refused.err
    assert (home / "spool").exists()
    document = bare("uninstall", "--data", "--yes", "--json").document
    assert document["removed"]
    assert document["last_step"] == "pip uninstall turntree"
    assert f"{home / 'notes.txt'}, which is not Turntree's" in document["stays"]
    assert [path.name for path in home.iterdir()] == ["notes.txt"]
    assert not Path(os.environ["TURNTREE_CONFIG"]).exists()


def test_uninstall_never_deletes_data_from_a_home_folder(
    bare: Call, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    person = home.parent / "person"
    (person / "data").mkdir()
    monkeypatch.setenv("TURNTREE_HOME", str(person))
    answer = bare("uninstall", "--data", "--yes")
    assert answer.code == 1
    assert "holds more than Turntree's data" in answer.err
    assert (person / "data").is_dir()


def test_uninstall_keeps_the_data_while_hooks_cannot_be_removed(bare: Call, home: Path) -> None:
    settings = home.parent / "person" / ".claude" / "settings.json"
    bare("hook", "install", "claude-code")
    text = settings.read_text(encoding="utf-8")
    settings.write_text(text.rstrip("}\n"), encoding="utf-8")
    answer = bare("uninstall", "--data", "--yes")
    assert answer.code == 1
    assert f"{settings} was left alone" in answer.err
    assert list((home / "hooks").glob("*.before")), "the copy of the old settings is still there"


@pytest.mark.parametrize("word", ["delete", "yes"])
def test_uninstall_in_a_terminal_asks_twice_before_it_deletes_data(
    bare: Call, home: Path, word: str
) -> None:
    bare("hook", "install", "claude-code")
    typed = pexpect.spawn(
        sys.executable,
        ["-m", "turntree.cli.main", "uninstall", "--data"],
        env={**os.environ, "TERM": "xterm-256color"},
        encoding="utf-8",
        timeout=60,
    )
    typed.expect_exact("hooks   Claude Code")
    typed.expect_exact("remove this?")
    typed.sendline("y")
    typed.expect_exact("type delete to delete it")
    typed.sendline(word)
    typed.expect(pexpect.EOF)
    typed.close()
    assert typed.exitstatus == (0 if word == "delete" else 1)
    assert home.exists() == (word != "delete")


@pytest.mark.parametrize("answers", [["n"], ["y", "delete"], ["y", "no"]])
def test_uninstall_in_a_terminal_asks_about_the_data(
    bare: Call, home: Path, answers: list[str]
) -> None:
    bare("hook", "install", "claude-code")
    typed = pexpect.spawn(
        sys.executable,
        ["-m", "turntree.cli.main", "uninstall"],
        env={**os.environ, "TERM": "xterm-256color"},
        encoding="utf-8",
        timeout=60,
    )
    typed.expect_exact("remove this?")
    typed.sendline("y")
    typed.expect_exact("delete what was recorded too?")
    typed.sendline(answers[0])
    for word in answers[1:]:
        typed.expect_exact("type delete to delete it")
        typed.sendline(word)
    typed.expect(pexpect.EOF)
    typed.close()
    assert typed.exitstatus == (1 if answers[-1] == "no" else 0)
    assert home.exists() == (answers[-1] != "delete")
    has_hooks = "turntree" in (home.parent / "person/.claude/settings.json").read_text()
    assert has_hooks == (answers[-1] == "no")


def test_backups_stay_and_are_named(bare: Call, home: Path) -> None:
    (home / "backups").mkdir(parents=True, exist_ok=True)
    (home / "backups/before.zip").touch()
    assert bare("uninstall", "--data", "--yes").code == 0
    assert (home / "backups/before.zip").exists()
    told = bare("uninstall", "--data", "--dry-run").err
    assert f"stays: {home / 'backups'}, your backups" in told


@pytest.mark.slow
def test_uninstall_with_data_leaves_nothing_of_a_used_server(
    bare: Call, home: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TURNTREE_DATABASE_URL")
    monkeypatch.delenv("TURNTREE_USER")
    monkeypatch.setenv("TURNTREE_HOME", str(place / "used"))
    bare("on", "--no-import")
    bare("demo")
    bare("token", "issue", "--permission", "read", "--expires-in", "5")
    report_turn(place / "used")
    assert begin_and_end(["ui", "--no-open"])[0] in (0, -signal.SIGTERM)
    assert (place / "used/ui").exists()
    document = bare("uninstall", "--data", "--yes", "--json").document
    assert document["stays"] == []
    assert ends(document["server"])
    assert not (place / "used").exists()


@pytest.mark.slow
def test_each_undo_of_the_set_up_works_in_a_shell(
    bare: Call, home: Path, place: Path, hints: HintRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TURNTREE_DATABASE_URL")
    monkeypatch.delenv("TURNTREE_USER")
    monkeypatch.setenv("TURNTREE_HOME", str(place / "undone"))
    settings = home.parent / "person" / ".claude" / "settings.json"
    before = settings.read_text(encoding="utf-8")
    try:
        hints.follow_in_shell(bare("on"), "turntree off && turntree down")
        assert settings.read_text(encoding="utf-8") == before
        assert bare("down").out == "the server was not running\n"
        hints.follow_in_shell(
            bare("config", "set", "color", "never"), "turntree config unset color"
        )
        assert bare("config", "get", "color").out == "auto\n"
        assert bare("hook", "install").code == 0
        hints.follow_in_shell(bare("uninstall", "--yes"), "turntree on")
        assert "turntree-hook" in settings.read_text(encoding="utf-8")
        hints.follow_in_shell(bare("down"), "turntree on")
        assert bare("status", "--json").document["server"] == "running"
    finally:
        bare("down")
