"""The command line in a folder of its own, on a database of its own."""

import json
import os
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
from click.testing import CliRunner
from psycopg.conninfo import make_conninfo

from tests.cli.hint_runner import HintRunner, make_stubs
from tests.cli.project import Project
from tests.databases import Databases, as_owner
from tests.hint_report import HINTS
from turntree.boot.open import Settings, open_tree
from turntree.cli.root import root
from turntree.db.embedded.logins import CONSOLE, SUPERUSER, as_login
from turntree.demo.planting import plant_demo
from turntree.system.head_file import write_head

FROM_OUTSIDE = (
    "TURNTREE_CONSOLE_URL",
    "TURNTREE_LIVE_URL",
    "TURNTREE_SHARDS",
    "TURNTREE_SESSION",
    "TURNTREE_HOME",
    "TURNTREE_COLOR",
    "NO_COLOR",
    "COLUMNS",
    # Set where an agent runs these tests, which is then refused what a person decides.
    "CLAUDECODE",
    "CODEX_SANDBOX",
    "CODEX_THREAD_ID",
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def documents(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


Call = Callable[..., Answer]


def choose_database(conninfo: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the command line use a database, with the logins of the product."""
    monkeypatch.setenv("TURNTREE_DATABASE_URL", as_owner(conninfo))
    monkeypatch.setenv("TURNTREE_CONSOLE_URL", as_login(conninfo, CONSOLE))


def forging() -> str:
    """How a test reaches the database of the command line past every policy."""
    return as_login(os.environ["TURNTREE_DATABASE_URL"], SUPERUSER)


@pytest.fixture
def hints(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Generator[HintRunner, None, None]:
    """Follows the hints that commands print; the test fails if one of them does not work."""
    seen, unproven = request.config.stash.setdefault(HINTS, (set(), {}))
    stubs = make_stubs(tmp_path_factory.mktemp("hints"))
    runner = HintRunner(tmp_path, stubs, seen, unproven)
    yield runner
    assert not runner.failures, runner.tell()


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hints: HintRunner) -> Call:
    """The command line without a database that answers."""
    for name in FROM_OUTSIDE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TURNTREE_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("TURNTREE_DATABASE_URL", "postgresql://nobody:secret@127.0.0.1:1/nothing")
    monkeypatch.setenv("TURNTREE_WORKSPACE", "tests")
    monkeypatch.setenv("TURNTREE_USER", "ana")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def call(*words: str) -> Answer:
        ended = CliRunner().invoke(root, list(words), prog_name="turntree")
        if ended.exception is not None and not isinstance(ended.exception, SystemExit):
            raise ended.exception
        hints.follow(words, ended.exit_code, ended.stdout, ended.stderr)
        return Answer(ended.exit_code, ended.stdout, ended.stderr)

    return call


@pytest.fixture
def turntree(bare: Call, conninfo: str, monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command line in an empty workspace."""
    choose_database(conninfo, monkeypatch)
    return bare


@pytest.fixture
def project(
    turntree: Call, conninfo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Project:
    """A folder with files in which one stands, and turns can be taken; states are kept apart."""
    home = tmp_path / "home"
    monkeypatch.setenv("TURNTREE_HOME", str(home))
    return Project(Path.cwd(), Settings(home, as_owner(conninfo), workspace="tests", user="ana"))


@pytest.fixture(scope="session")
def demo_template(server: str, template: str) -> str:
    """The name of a database with the sample data, planted once for all tests."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE demo OWNER turntree TEMPLATE {template}")
    conninfo = as_owner(make_conninfo(server, dbname="demo"))

    async def plant() -> None:
        async with open_tree(Settings(Path(), conninfo, workspace="tests", user="ana")) as tree:
            await plant_demo(tree)

    anyio.run(plant)
    return "demo"


@pytest.fixture(scope="session")
def demo_to_read(server: str, demo_template: str) -> str:
    """How to reach one copy of the sample data that no test changes."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE demo_to_read OWNER turntree TEMPLATE {demo_template}")
    return as_owner(make_conninfo(server, dbname="demo_to_read"))


@pytest.fixture
def reader(bare: Call, demo_to_read: str, monkeypatch: pytest.MonkeyPatch) -> Call:
    """The command line before the sample data, for tests that only read: a database costs time."""
    choose_database(demo_to_read, monkeypatch)
    write_head(Path.cwd(), "demo/fix-login")
    return bare


@pytest.fixture
def planted(
    bare: Call, databases: Databases, demo_template: str, monkeypatch: pytest.MonkeyPatch
) -> Generator[Call, None, None]:
    """The command line in a workspace that holds the sample data."""
    with databases.lend(demo_template) as conninfo:
        choose_database(conninfo, monkeypatch)
        write_head(Path.cwd(), "demo/fix-login")
        yield bare
