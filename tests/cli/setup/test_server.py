"""The embedded server through the command line."""

import os
import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Call

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root lends an account")


@pytest.fixture
def embedded(bare: Call, monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command line where no database is named."""
    monkeypatch.delenv("TURNTREE_DATABASE_URL")
    monkeypatch.delenv("TURNTREE_USER")
    return bare


@pytest.mark.slow
def test_the_server_is_started_seen_and_stopped(
    embedded: Call, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = embedded
    monkeypatch.setenv("TURNTREE_HOME", str(place / "cli"))
    assert bare("status", "--json").document["server"] == "absent"
    assert bare("status").err == "next: turntree on\n"
    try:
        started = bare("on", "--no-hooks")
        assert started.out.startswith("PostgreSQL 18 runs as process ")
        # A path is never cut, and the one of this test may be long.
        told = [*started.lines, *started.err.splitlines()]
        assert all(len(line) <= 80 for line in told if "/" not in line)
        assert "host=" not in started.out
        assert "undo with: turntree down" in started.err
        assert bare("on", "--no-hooks", "--json").document["state"] == "running"
        assert bare("status", "--json").document["turns"] == 0
        assert bare("doctor").code == 0
    finally:
        assert bare("down").out == "the server has stopped\n"
    assert bare("down").out == "the server was not running\n"
    assert bare("status", "--json").document["server"] == "stopped"


@needs_root
def test_two_homes_of_root_never_share_a_ledger(
    embedded: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[str] = []
    (tmp_path / "link").symlink_to(tmp_path / "ana")
    for name in ("ana", "bruno", "link"):
        (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.setenv("HOME", str(tmp_path / name))
        folders.append(embedded("status", "--json").document["data"])
    ana, bruno, link = (Path(folder) for folder in folders)
    assert ana.parent.parent == bruno.parent.parent == Path("/var/lib/turntree")
    assert ana == link != bruno


@pytest.mark.slow
@needs_root
def test_root_is_told_at_the_first_start_where_the_data_is(
    embedded: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    home = Path(embedded("status", "--json").document["data"]).parent
    assert not home.exists()
    before = os.umask(0o077)
    try:
        first = embedded("on", "--no-import", "--no-hooks")
        assert f"initialising a new PostgreSQL 18 cluster in {home}\n" in first.err
        assert first.code == 0
        assert home.stat().st_mode & 0o777 == 0o755, "the server's account passes through"
    finally:
        os.umask(before)
        embedded("down")
        shutil.rmtree(home, ignore_errors=True)


@pytest.mark.slow
@needs_root
@pytest.mark.parametrize("first", [("hook", "install", "claude-code"), ("hook", "sync")])
def test_server_of_root_enters_a_home_that_another_command_has_made(
    embedded: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: tuple[str, ...]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    home = Path(embedded("status", "--json").document["data"]).parent
    before = os.umask(0o077)
    try:
        embedded(*first)
        assert home.stat().st_mode & 0o777 == 0o755
        assert embedded("on", "--no-import", "--no-hooks").code == 0
    finally:
        os.umask(before)
        embedded("down")
        shutil.rmtree(home, ignore_errors=True)
