"""Installing hooks into a tool's settings, and taking them out again."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from turntree.cli.hook_process import entry as hook_entry
from turntree.cli.hook_process.daemon import LOCK
from turntree.core.errors import InvalidOperation
from turntree.hooks.coding_agents import CLAUDE_CODE, CODEX, OPENCODE, TOOLS, Scope, Tool
from turntree.hooks.install import Installer
from turntree.hooks.launcher import command, launcher_path, write_launcher
from turntree.hooks.spool import FOLDER
from turntree.transcripts.importer import ToolPaths

SCOPES: tuple[Scope, ...] = ("user", "project")
UNTIDY = (
    '{"b":1,   "a" : [1,2],\n  "hooks":{"Stop":[{"hooks":[{"command":"mine","type":"command"}]}]}}'
)


@pytest.fixture
def installer(tmp_path: Path) -> Installer:
    places = ToolPaths(tmp_path / "person", {})
    entry = Path(hook_entry.__file__)
    return Installer(tmp_path / "home", places, tmp_path / "top", Path(sys.executable), entry)


def tree_of(folder: Path) -> dict[str, bytes | None]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_where_there_was_nothing_nothing_is_left(
    installer: Installer, tmp_path: Path, tool: Tool, scope: Scope
) -> None:
    (tmp_path / "person").mkdir()
    (tmp_path / "top").mkdir()
    before = tree_of(tmp_path)
    assert installer.install(tool, scope, trust=True)[0].changed
    state = installer.state(tool, scope)
    assert (state.installed, state.is_complete, state.untrusted) == (True, True, 0)
    assert not any(one.changed for one in installer.install(tool, scope, trust=True))
    assert any(one.changed for one in installer.uninstall(tool, scope))
    after = {name: data for name, data in tree_of(tmp_path).items() if not name.startswith("home")}
    assert after == before
    assert not installer.state(tool, scope).installed


@pytest.mark.parametrize("tool", [CLAUDE_CODE, CODEX], ids=["claude-code", "codex"])
def test_settings_become_what_they_were_byte_for_byte(installer: Installer, tool: Tool) -> None:
    path = tool.file("user", installer.places, installer.top)
    path.parent.mkdir(parents=True)
    path.write_text(UNTIDY, encoding="utf-8")
    path.chmod(0o600)
    config = path.with_name("config.toml")
    config.write_text("# mine\nmodel='x'", encoding="utf-8")
    (change, *_) = installer.install(tool, "user", trust=True)
    assert change.backup is not None
    assert change.backup.read_text(encoding="utf-8") == UNTIDY
    assert json.loads(path.read_text(encoding="utf-8"))["b"] == 1
    installer.install(tool, "user", trust=True)
    installer.uninstall(tool, "user")
    assert path.read_text(encoding="utf-8") == UNTIDY
    assert path.stat().st_mode & 0o777 == 0o600
    assert config.read_text(encoding="utf-8") == "# mine\nmodel='x'"
    assert not any(one.changed for one in installer.uninstall(tool, "user"))


def test_what_somebody_has_changed_since_stays(installer: Installer) -> None:
    path = CODEX.file("user", installer.places, installer.top)
    installer.install(CODEX, "user", trust=True)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["hooks"]["Stop"].insert(0, {"hooks": [{"type": "command", "command": "theirs"}]})
    path.write_text(json.dumps(document), encoding="utf-8")
    config = path.with_name("config.toml")
    config.write_text(f"{config.read_text(encoding='utf-8')}\n[theirs]\n", encoding="utf-8")
    assert installer.state(CODEX, "user").untrusted == 1, "our place has moved"
    installer.uninstall(CODEX, "user")
    assert json.loads(path.read_text(encoding="utf-8")) == {
        "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "theirs"}]}]}
    }
    assert "[theirs]" in config.read_text(encoding="utf-8")


def test_codex_is_told_to_trust_nothing_unless_somebody_says_so(installer: Installer) -> None:
    installer.install(CODEX, "user")
    assert installer.state(CODEX, "user").untrusted == len(CODEX.events)
    assert not (installer.places.home / ".codex" / "config.toml").exists()


def test_settings_that_cannot_be_read_are_left_alone(installer: Installer) -> None:
    path = CLAUDE_CODE.file("user", installer.places, installer.top)
    path.parent.mkdir(parents=True)
    path.write_text("{ // mine\n}", encoding="utf-8")
    with pytest.raises(InvalidOperation, match="left alone"):
        installer.install(CLAUDE_CODE, "user")
    assert path.read_text(encoding="utf-8") == "{ // mine\n}"
    assert installer.state(CLAUDE_CODE, "user").problem is None, "nothing of ours is in it"


def test_a_module_that_is_somebody_elses_is_left_alone(installer: Installer) -> None:
    path = OPENCODE.file("user", installer.places, installer.top)
    path.parent.mkdir(parents=True)
    path.write_text("export const Mine = 1\n", encoding="utf-8")
    with pytest.raises(InvalidOperation, match="was not written by Turntree"):
        installer.install(OPENCODE, "user")
    assert not any(one.changed for one in installer.uninstall(OPENCODE, "user"))


def test_settings_behind_a_link_stay_behind_it(installer: Installer, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles" / "settings.json"
    real.parent.mkdir()
    real.write_text("{}", encoding="utf-8")
    path = CLAUDE_CODE.file("user", installer.places, installer.top)
    path.parent.mkdir(parents=True)
    path.symlink_to(real)
    installer.install(CLAUDE_CODE, "user")
    assert path.is_symlink()
    installer.uninstall(CLAUDE_CODE, "user")
    assert real.read_text(encoding="utf-8") == "{}"


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("broken", ["home", "python", "entry", "nothing"])
def test_a_hook_never_fails_and_never_speaks(tmp_path: Path, shell: str, broken: str) -> None:
    home = tmp_path / "a home"
    python = Path("/nowhere/python") if broken == "python" else Path(sys.executable)
    entry = tmp_path / "gone.py" if broken == "entry" else Path(hook_entry.__file__)
    write_launcher(home, python, entry)
    if broken == "home":
        launcher_path(home).unlink()
    environment = {"PATH": os.defpath, "HOME": str(tmp_path)}
    words = [shell, "-c", command(home, "claude-code", "end")]
    done = subprocess.run(
        words, input=b"this is no JSON", capture_output=True, env=environment, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    if broken == "nothing":
        end_attendant(home)


def end_attendant(home: Path) -> None:
    """Have the process that a hook leaves behind go with the test."""
    told = home / FOLDER / LOCK
    until = time.monotonic() + 30
    while time.monotonic() < until:
        if told.exists() and (pid := told.read_text(encoding="utf-8").strip()):
            os.kill(int(pid), signal.SIGKILL)
            return
        time.sleep(0.02)
