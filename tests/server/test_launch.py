"""The file of a running server: one server a workspace, and a secret that only its owner reads."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from turntree.boot.open import Settings
from turntree.server.launch import FOLDER, LaunchFile


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path / "home", user="ana")


def test_second_server_of_a_workspace_is_refused_until_the_first_ends(settings: Settings) -> None:
    first, second = LaunchFile(settings), LaunchFile(settings)
    assert first.claim()
    assert not second.claim()
    assert LaunchFile(replace(settings, workspace="other")).claim()
    first.release()
    assert second.claim()


def test_restart_keeps_the_secret_and_changes_the_id(settings: Settings) -> None:
    file = LaunchFile(settings)
    assert file.claim()
    first, second = file.write(8733), file.write(8734)
    assert first.secret == second.secret
    assert first.id != second.id
    assert LaunchFile(settings).find() == second


def test_file_is_readable_by_its_owner_only(settings: Settings) -> None:
    file = LaunchFile(settings)
    assert file.claim()
    file.write(8733)
    folder = settings.home / FOLDER
    (written,) = folder.glob("*.json")
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"port": 1}', '{"port": 1, "id": "a", "secret": "zz"}']
)
def test_damaged_file_is_replaced(settings: Settings, text: str) -> None:
    file = LaunchFile(settings)
    assert file.claim()
    before = file.write(8733)
    (written,) = (settings.home / FOLDER).glob("*.json")
    written.write_text(text)
    assert file.find() is None
    assert file.write(8733).secret != before.secret
