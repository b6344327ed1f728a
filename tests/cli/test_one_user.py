"""The embedded server is one person's: the environment does not name another."""

import os
import pwd
from pathlib import Path

import pytest

from tests.cli.conftest import Call

LOGIN = pwd.getpwuid(os.getuid()).pw_name


@pytest.fixture
def embedded(bare: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command line where no database is named, and none runs yet."""
    monkeypatch.delenv("TURNTREE_DATABASE_URL")
    monkeypatch.delenv("TURNTREE_USER")
    monkeypatch.setenv("TURNTREE_HOME", str(tmp_path / "home"))
    return bare


@pytest.mark.parametrize("words", ["session list", "on --no-import --no-hooks", "send main hello"])
def test_the_embedded_server_is_used_as_its_own_user_alone(
    embedded: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    monkeypatch.setenv("TURNTREE_USER", "somebody-else")
    told = embedded(*words.split())
    assert told.code != 0
    assert f"belongs to {LOGIN}" in told.err
    assert "TURNTREE_DATABASE_URL" in told.err
    assert told.err.endswith("next: unset TURNTREE_USER\n"), "no file has the setting"
    assert not (tmp_path / "home" / "data").exists(), "no server was started"


@pytest.mark.parametrize(
    "words",
    ["on --yes", "up --yes", "hook install", "hook install codex --project", "mcp install codex",
     "demo"],
)  # fmt: skip
def test_another_user_is_refused_before_anything_is_changed(
    embedded: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    home = tmp_path / "person"
    for name in (".claude", ".codex", "work"):
        (home / name).mkdir(parents=True)
    (home / ".claude/settings.json").write_text('{"model": "opus"}')
    (home / ".codex/config.toml").write_text('model = "o3"\n')
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TURNTREE_USER", "somebody-else")
    monkeypatch.chdir(home / "work")
    before = _list_all(tmp_path)
    told = embedded(*words.split())
    assert told.code != 0
    assert f"belongs to {LOGIN}" in told.err
    assert _list_all(tmp_path) == before


def test_a_settings_file_names_no_other_user_either(embedded: Call) -> None:
    assert embedded("config", "set", "user", "somebody-else").code == 0
    assert "turntree config unset user" in embedded("session", "list").err
    assert embedded("config", "list").code == 0


def test_the_user_is_the_operating_systems_whatever_the_shell_says(
    embedded: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    assert embedded("config", "get", "user").out == f"{LOGIN}\n"


def _list_all(folder: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}
