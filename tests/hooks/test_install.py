"""Installing hooks into a tool's settings, and taking them out again."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from turntree.cli.hook_process import entry as hook_entry
from turntree.cli.hook_process.daemon import LOCK
from turntree.core.errors import InvalidOperation
from turntree.hooks.coding_agents import CLAUDE_CODE, CODEX, CURSOR, OPENCODE, TOOLS, Scope, Tool
from turntree.hooks.install import JUDGE_TIMEOUT_S, Installer
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
def test_hook_that_asks_the_judge_may_take_longer_than_others(
    installer: Installer, tool: Tool
) -> None:
    # A tool that gives up a hook makes the call.
    installer.install(tool, "user", judge=True, trust=True)
    state = installer.state(tool, "user")
    assert (state.is_complete, state.judges, state.untrusted) == (True, True, 0)
    text = tool.file("user", installer.places, installer.top).read_text(encoding="utf-8")
    hooks = json.loads(text)["hooks"]
    limits = {event: groups[0]["hooks"][0]["timeout"] for event, groups in hooks.items()}
    judged = {event for event, limit in limits.items() if limit == JUDGE_TIMEOUT_S}
    assert judged == tool.judged.keys()
    assert {limits[event] for event in limits.keys() - judged} == {tool.timeout}


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


def test_hooks_of_cursor_are_put_beside_the_users_and_taken_out_alone(installer: Installer) -> None:
    path = CURSOR.file("user", installer.places, installer.top)
    path.parent.mkdir(parents=True)
    theirs = {"command": "theirs", "loop_limit": 3}
    before = {"version": 1, "hooks": {"stop": [theirs]}}
    path.write_text(json.dumps(before, indent=2), encoding="utf-8")
    installer.install(CURSOR, "user")
    document = json.loads(path.read_text(encoding="utf-8"))
    first, ours = document["hooks"]["stop"]
    assert first == theirs
    assert ours["command"].endswith("turntree-hook cursor end; }; echo '{}'")
    words = ["sh", "-c", ours["command"]]
    assert subprocess.run(words, input=b"", capture_output=True, check=True).stdout == b"{}\n"
    document["hooks"]["stop"].append({"command": "newer"})
    path.write_text(json.dumps(document), encoding="utf-8")
    installer.uninstall(CURSOR, "user")
    kept = [theirs, {"command": "newer"}]
    assert json.loads(path.read_text(encoding="utf-8")) == {"version": 1, "hooks": {"stop": kept}}


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


def test_a_link_to_nothing_is_a_link_to_nothing_again(installer: Installer, tmp_path: Path) -> None:
    settings = CLAUDE_CODE.file("user", installer.places, installer.top)
    settings.parent.mkdir(parents=True)
    (tmp_path / "dotfiles").mkdir()
    settings.symlink_to(tmp_path / "dotfiles" / "claude.json")
    installer.install(CLAUDE_CODE, "user")
    assert (tmp_path / "dotfiles" / "claude.json").is_file()
    installer.uninstall(CLAUDE_CODE, "user")
    assert settings.is_symlink()
    assert list((tmp_path / "dotfiles").iterdir()) == []


def test_nothing_is_changed_unless_everything_can_be(installer: Installer, tmp_path: Path) -> None:
    hooks = CODEX.file("user", installer.places, installer.top)
    hooks.parent.mkdir(parents=True)
    hooks.write_text(UNTIDY, encoding="utf-8")
    (hooks.parent / "config.toml").write_text("model = ", encoding="utf-8")
    with pytest.raises(InvalidOperation, match="not TOML"):
        installer.install(CODEX, "user", trust=True)
    assert hooks.read_text(encoding="utf-8") == UNTIDY
    (hooks.parent / "config.toml").unlink()
    (hooks.parent / "config.toml").symlink_to(tmp_path / "loop")
    (tmp_path / "loop").symlink_to(hooks / "below a file" / "x")
    with pytest.raises(InvalidOperation, match="cannot be"):
        installer.install(CODEX, "user", trust=True)
    assert hooks.read_text(encoding="utf-8") == UNTIDY


INSTALL_AND_TAKE_OUT = """
import sys
from pathlib import Path
from turntree.hooks.coding_agents import TOOLS
from turntree.hooks.install import Installer
from turntree.transcripts.importer import ToolPaths
home, person, entry = map(Path, sys.argv[1:4])
installer = Installer(home, ToolPaths(person, {}), person, Path(sys.executable), entry)
print("ready", flush=True)
sys.stdin.readline()
for _ in range(40):
    installer.install(TOOLS["claude-code"], "user")
    if len(sys.argv) > 4:
        installer.uninstall(TOOLS["claude-code"], "user")
"""


@pytest.mark.parametrize("last_word", [(), ("uninstall",)])
def test_many_processes_at_once_leave_whole_settings(
    installer: Installer, last_word: tuple[str, ...]
) -> None:
    settings = CLAUDE_CODE.file("user", installer.places, installer.top)
    settings.parent.mkdir(parents=True)
    settings.write_text(UNTIDY, encoding="utf-8")
    words = [str(installer.home), str(installer.places.home), str(installer.entry), *last_word]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", INSTALL_AND_TAKE_OUT, *words],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for _ in range(4)
    ]  # fmt: skip
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    errors = [process.communicate()[1] for process in processes]
    assert errors == [""] * 4
    assert installer.state(CLAUDE_CODE, "user").is_complete == (not last_word)
    installer.uninstall(CLAUDE_CODE, "user")
    assert settings.read_text(encoding="utf-8") == UNTIDY
    assert [path.name for path in settings.parent.iterdir()] == ["settings.json"]


def test_settings_keep_their_owner_and_their_copy_is_private(
    installer: Installer, tmp_path: Path
) -> None:
    settings = CLAUDE_CODE.file("user", installer.places, installer.top)
    settings.parent.mkdir(parents=True)
    settings.write_text(UNTIDY, encoding="utf-8")
    settings.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(settings, 12345, 12345)
    owner = settings.stat().st_uid, settings.stat().st_gid
    (change,) = installer.install(CLAUDE_CODE, "user")
    assert (settings.stat().st_uid, settings.stat().st_gid) == owner
    assert settings.stat().st_mode & 0o777 == 0o640
    assert change.backup is not None
    assert change.backup.stat().st_mode & 0o077 == 0
    installer.uninstall(CLAUDE_CODE, "user")
    assert (settings.stat().st_uid, settings.stat().st_mode & 0o777) == (owner[0], 0o640)


def test_settings_that_are_read_only_stay_as_they_are(installer: Installer) -> None:
    # Root may write everything, so the settings are another account's.
    folder = Path(tempfile.mkdtemp(prefix="tt-"))
    account = 65534 if os.geteuid() == 0 else os.geteuid()
    settings = folder / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text(UNTIDY, encoding="utf-8")
    settings.chmod(0o444)
    for path in (folder, settings.parent, settings):
        os.chown(path, account, -1)
    mine = replace(installer, home=folder / "home", places=ToolPaths(folder, {}))
    before = os.geteuid()
    try:
        os.seteuid(account)
        with pytest.raises(InvalidOperation, match=r"settings\.json is read-only"):
            mine.install(CLAUDE_CODE, "user")
        settings.parent.chmod(0o555)
        settings.chmod(0o644)
        with pytest.raises(InvalidOperation, match="cannot be written: Permission denied"):
            mine.install(CLAUDE_CODE, "user")
        assert [path.name for path in settings.parent.iterdir()] == ["settings.json"]
    finally:
        os.seteuid(before)
        assert settings.read_text(encoding="utf-8") == UNTIDY
        settings.parent.chmod(0o755)
        shutil.rmtree(folder)
