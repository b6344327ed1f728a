"""Backups, as a person makes and restores them on the embedded server of a home."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.conftest import Answer
from tests.cli.hint_runner import HintRunner
from turntree.cli.root import root
from turntree.db.embedded.server import EmbeddedServer

pytestmark = pytest.mark.slow

Call = Callable[..., subprocess.CompletedProcess[str]]
SAID = """{"role":"user","content":"hello"}
{"role":"assistant","content":"hello to you"}
"""

_homes = count(1)


@pytest.fixture
def at_home(place: Path, tmp_path: Path) -> Generator[Call, None, None]:
    """The command line in an environment of its own, which starts a server of its own."""
    home = place / f"backup-{os.getpid()}-{next(_homes)}"
    keep = {name: text for name, text in os.environ.items() if not name.startswith("TURNTREE_")}
    environment = {**keep, "TURNTREE_HOME": str(home), "TURNTREE_CONFIG": str(tmp_path / "none")}

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "turntree", *words],
            check=False, capture_output=True, text=True, env=environment, cwd=tmp_path,
        )  # fmt: skip

    yield call
    EmbeddedServer(home).stop(mode="immediate")


def test_hint_of_a_verified_backup_restores_it_in_an_empty_home(
    at_home: Call, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hints: HintRunner
) -> None:
    assert at_home("session", "create", "before").returncode == 0
    assert at_home("backup", "create", "one.zip").returncode == 0
    verified = at_home("backup", "verify", "one.zip")
    empty = place / f"restored-{os.getpid()}"
    for name in [name for name in os.environ if name.startswith("TURNTREE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TURNTREE_HOME", str(empty))
    monkeypatch.setenv("TURNTREE_CONFIG", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
    try:
        hints.follow_in_shell(
            Answer(verified.returncode, verified.stdout, verified.stderr),
            "turntree backup restore one.zip",
            by="backup",
        )
        listed = CliRunner().invoke(root, ["session", "list", "--json"])
        assert '"before"' in listed.stdout
    finally:
        EmbeddedServer(empty).stop(mode="immediate")


def test_backup_is_verified_restored_and_undone(at_home: Call, tmp_path: Path) -> None:
    assert at_home("session", "create", "before").returncode == 0
    (tmp_path / "chat.jsonl").write_text(SAID, encoding="utf-8")
    assert at_home("import", "chat.jsonl", "--from", "messages").returncode == 0
    made = at_home("backup", "create", "one.zip")
    assert "rows and" in made.stdout, made.stderr
    assert "one.zip" in made.stdout
    assert at_home("backup", "create", "one.zip").returncode == 1
    assert "is complete" in at_home("backup", "verify", "one.zip").stdout
    assert at_home("session", "create", "after").returncode == 0
    refused = at_home("backup", "restore", "one.zip")
    assert refused.returncode == 1
    assert "already holds a ledger" in refused.stderr
    assert "next: turntree backup restore" in refused.stderr
    restored = json.loads(at_home("backup", "restore", "one.zip", "--replace", "--json").stdout)
    assert restored["rows"] > 0
    listed = at_home("session", "list", "--json").stdout
    assert "before" in listed
    assert "after" not in listed
    assert at_home("fsck").returncode == 0
    # Rows are numbered on after those that were restored.
    (tmp_path / "again.jsonl").write_text(SAID.replace("hello", "again"), encoding="utf-8")
    again = at_home("import", "again.jsonl", "--from", "messages")
    assert again.returncode == 0, again.stderr
    _, *undo = restored["undo"].split()
    assert at_home(*undo).returncode == 0
    assert "after" in at_home("session", "list", "--json").stdout
    whole = (tmp_path / "one.zip").read_bytes()
    for name, damaged in {"cut": whole[:-200], "bit": whole[:400] + b"?" + whole[401:]}.items():
        (tmp_path / f"{name}.zip").write_bytes(damaged)
        for verb in ("verify", "restore"):
            bad = at_home("backup", verb, f"{name}.zip")
            assert bad.returncode == 1, name
            assert "Traceback" not in bad.stderr
