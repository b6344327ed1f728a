"""A shard map, as the typed commands honour it."""

import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psycopg
import pytest

from tests.boot.test_shards import FIRST, SECOND, empty, write_map
from tests.cli.conftest import Call
from tests.cli.talker import furnish
from tests.databases import Databases, as_owner

pytestmark = pytest.mark.slow
SOON_S = 60.0


@pytest.fixture
def spread(
    bare: Call, databases: Databases, template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Generator[Call, None, None]:
    """The command line with a map of two databases, in the workspace of the first."""
    with databases.lend(template) as one, databases.lend(template) as two:
        empty(as_owner(two))
        path = write_map(tmp_path / "shards.toml", as_owner(one), as_owner(two))
        monkeypatch.delenv("TURNTREE_DATABASE_URL")
        monkeypatch.setenv("TURNTREE_SHARDS", str(path))
        monkeypatch.setenv("TURNTREE_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("TURNTREE_WORKSPACE", FIRST)
        yield bare


@contextmanager
def running(*words: str) -> Generator[dict[str, object], None, None]:
    """A command that serves until it is told to stop, and what it printed first."""
    command = [sys.executable, "-m", "turntree.cli.main", *words, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())
            process.send_signal(signal.SIGTERM)
            assert process.wait(SOON_S) == 0
        finally:
            process.kill()


def test_server_answers_in_both_databases(spread: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: dict[str, str] = {}
    for name in (FIRST, SECOND):
        monkeypatch.setenv("TURNTREE_WORKSPACE", name)
        assert spread("session", "create", f"of-{name}").code == 0
        keys[name] = spread("key", "create", "laptop", "--json").document["key"]
    with running("serve", "--no-worker", "--port", "0") as told:
        assert told["shards"] == [
            {"shard": 1, "workspaces": 2}, {"shard": 2, "workspaces": 1},
        ]  # fmt: skip
        for name, other in ((FIRST, SECOND), (SECOND, FIRST)):
            url = f"http://127.0.0.1:{told['port']}/w"
            headers = {"authorization": f"Bearer {keys[name]}"}
            page = httpx2.get(f"{url}/{name}/api/v1/sessions", headers=headers, timeout=SOON_S)
            assert f"of-{name}" in page.text
            assert f"of-{other}" not in page.text
            assert httpx2.get(f"{url}/{other}/api/v1/sessions", headers=headers).is_error


def test_worker_of_a_shard_answers_there_and_nowhere_else(
    spread: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    furnish(spread)
    monkeypatch.setenv("TURNTREE_WORKSPACE", SECOND)
    furnish(spread)
    monkeypatch.setenv("TURNTREE_WORKSPACE", FIRST)
    with running("worker", "--shard", "2") as told:
        assert (told["shard"], told["workspaces"]) == (2, [SECOND])
        assert spread("status", "--json").document["workers"] == []
        monkeypatch.setenv("TURNTREE_WORKSPACE", SECOND)
        assert spread("send", "main", "hello", "--no-worker").code == 0


def test_shard_that_is_not_in_the_map_is_refused(spread: Call) -> None:
    assert "there is no shard 3; there are 1 to 2" in spread("worker", "--shard", "3").err


def test_worker_of_a_shard_without_a_map_is_refused(turntree: Call) -> None:
    answer = turntree("worker", "--shard", "1")
    assert answer.code == 1
    assert "there is no shard map" in answer.err


def test_doctor_tells_what_is_in_each_database(spread: Call) -> None:
    assert spread("session", "create", "main").code == 0
    answer = spread("doctor", "--json")
    found = {one["name"]: one for one in answer.documents}
    assert found["1 shard"]["sentence"].startswith("shard 1 (slots 0-2047): 2 workspaces")
    assert found["1 server"]["verdict"] == found["2 server"]["verdict"] == "ok"
    assert found["1 shard"]["verdict"] == found["2 shard"]["verdict"] == "ok"
    stray = "INSERT INTO turntree.workspaces (id, name) VALUES (%s, 'atlas')"
    with psycopg.connect(read_urls()[0]) as connection:
        connection.execute(stray, ["00000000-0000-0000-0000-000000000fff"])
    answer = spread("doctor", "--json")
    found = {one["name"]: one for one in answer.documents}
    assert "leads to another shard: atlas" in found["1 shard"]["sentence"]
    assert (answer.code, found["1 shard"]["verdict"]) == (1, "fail")


def test_database_with_workspaces_of_other_slots_only_is_not_taken_as_new(
    spread: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    stray = "INSERT INTO turntree.workspaces (id, name) VALUES (%s, 'atlas')"
    with psycopg.connect(read_urls()[1]) as connection:
        connection.execute(stray, ["00000000-0000-0000-0000-000000000000"])
    monkeypatch.setenv("TURNTREE_WORKSPACE", SECOND)
    assert "workspaces of other slots only, like 'atlas'" in spread("session", "list").err
    spread("doctor", "--record-slots")
    assert spread("session", "list").code == 0


def read_urls() -> list[str]:
    """Return the addresses of the databases of the map."""
    document = tomllib.loads(Path(os.environ["TURNTREE_SHARDS"]).read_text())
    return [shard["database_url"] for shard in document["shard"]]


def swap(path: Path) -> None:
    """Exchange the addresses of the two databases of a map."""
    one, two = read_urls()
    write_map(path, two, one)


def test_map_with_swapped_addresses_finds_and_creates_nothing(
    spread: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(os.environ["TURNTREE_SHARDS"])
    for name in (FIRST, SECOND):
        monkeypatch.setenv("TURNTREE_WORKSPACE", name)
        assert spread("session", "create", f"of-{name}").code == 0
    swap(path)
    for name in (FIRST, SECOND, "quince"):
        monkeypatch.setenv("TURNTREE_WORKSPACE", name)
        for words in (("session", "list"), ("serve", "--no-worker", "--port", "0")):
            answer = spread(*words)
            assert answer.code == 1
            assert "correct the addresses in the map" in answer.err
    assert (
        "shard 2 (slots 2048-4095) holds the slots 0-2047" in spread("worker", "--shard", "2").err
    )
    report = spread("doctor", "--json")
    found = {one["name"]: one for one in report.documents}
    assert found["1 shard"]["next"] == "turntree doctor --record-slots"
    refused = spread("doctor", "--record-slots")
    assert (refused.code, "in the database of shard 1" in refused.err) == (1, True)
    swap(path)
    monkeypatch.setenv("TURNTREE_WORKSPACE", FIRST)
    assert f"of-{FIRST}" in spread("session", "list").out


def test_ranges_that_were_changed_on_purpose_are_recorded(spread: Call) -> None:
    path = Path(os.environ["TURNTREE_SHARDS"])
    assert spread("session", "create", "main").code == 0
    path.write_text(path.read_text().replace("2047", "1999").replace("2048", "2000"))
    assert "holds the slots 0-2047" in spread("session", "list").err
    spread("doctor", "--record-slots")
    assert "main" in spread("session", "list").out
    # Nothing moves what is there.
    path.write_text(path.read_text().replace("1999", "5").replace("2000", "6"))
    assert "nothing moves them: " in spread("doctor", "--record-slots").err


def test_shard_that_is_opened_without_the_map_creates_nothing_of_others(
    spread: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert spread("session", "create", "main").code == 0
    monkeypatch.setenv("TURNTREE_DATABASE_URL", read_urls()[0])
    monkeypatch.delenv("TURNTREE_SHARDS")
    assert "main" in spread("session", "list").out
    monkeypatch.setenv("TURNTREE_WORKSPACE", SECOND)
    assert "leads to another shard: set shards" in spread("session", "list").err
