"""A real PostgreSQL for every test: one server a test process, one database a test."""

import os
import shutil
import tempfile
from collections.abc import AsyncGenerator, Generator
from pathlib import Path

import anyio
import hypothesis
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from turntree.boot import Settings, tree_on
from turntree.runtime.tree import Tree
from turntree.store.database import Database, open_database, prepare_database
from turntree.store.embedded import EmbeddedServer
from turntree.testing.worlds import ScriptedWorld

# What a test writes may vanish with the machine; what a proof writes may not.
QUICK = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
WORKSPACE = "tests"

# How long an example takes says more about who else uses the machine than about the test.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("patient")


@pytest.fixture(scope="session")
def place() -> Generator[Path, None, None]:
    """A folder that the server's own account can reach, which pytest's are not for root."""
    folder = Path(tempfile.mkdtemp(prefix="turntree-tests-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def server(place: Path) -> Generator[str, None, None]:
    """A running server; how to reach its maintenance database."""
    embedded = EmbeddedServer(place / "home", QUICK)
    yield embedded.ensure_running()
    embedded.stop(mode="immediate")


@pytest.fixture(scope="session")
def template(server: str) -> str:
    """The name of a database brought up to date once, from which every test's is cloned."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute("CREATE DATABASE ready")
    conninfo = make_conninfo(server, dbname="ready")
    anyio.run(prepare_database, conninfo, WORKSPACE, ScriptedWorld().new_id())
    return "ready"


@pytest.fixture
def conninfo(server: str, template: str) -> Generator[str, None, None]:
    """How to reach a database of the test's own, as its owner."""
    name = f"test_{os.urandom(6).hex()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        yield make_conninfo(server, dbname=name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def database(conninfo: str) -> AsyncGenerator[Database, None]:
    """A database opened as the application opens it."""
    workspace = await prepare_database(conninfo, WORKSPACE, "")
    async with open_database(conninfo, workspace) as opened:
        yield opened


@pytest.fixture
def world() -> ScriptedWorld:
    """A clock that ticks and ids that repeat."""
    return ScriptedWorld()


@pytest.fixture
def tree(database: Database, world: ScriptedWorld, place: Path) -> Tree:
    """The product, on a database of its own."""
    return tree_on(database, Settings(place, user="ana", session="main"), world)
