"""The embedded server through the command line."""

from pathlib import Path

import pytest

from tests.cli.conftest import Call


@pytest.mark.slow
def test_the_server_is_started_seen_and_stopped(
    bare: Call, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TURNTREE_DATABASE_URL")
    monkeypatch.delenv("TURNTREE_USER")
    monkeypatch.setenv("TURNTREE_HOME", str(place / "cli"))
    assert bare("status", "--json").document["server"] == "absent"
    assert bare("status").err == "next: turntree up\n"
    try:
        started = bare("up")
        assert started.out.startswith("PostgreSQL 18 runs as process ")
        assert "undo with: turntree down" in started.err
        assert bare("up", "--json").document["state"] == "running"
        assert bare("status", "--json").document["turns"] == 0
        assert bare("doctor").code == 0
    finally:
        assert bare("down").out == "the server has stopped\n"
    assert bare("down").out == "the server was not running\n"
    assert bare("status", "--json").document["server"] == "stopped"
