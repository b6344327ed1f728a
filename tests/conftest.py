"""A real PostgreSQL for every test: one server a test process, one database a test."""

import shutil
import signal
import tempfile
from collections.abc import AsyncGenerator, Generator
from itertools import count
from pathlib import Path

import anyio
import hypothesis
import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests import hint_report
from tests.databases import Databases, as_owner, as_superuser
from tests.workshop import Workshop
from turntree.api import Tree
from turntree.boot.open import Settings, engine_on, tree_on
from turntree.core.ids import WorkspaceId
from turntree.core.viewer import EVERYTHING
from turntree.db.database import Database, open_database, prepare_database
from turntree.db.embedded.server import EmbeddedServer
from turntree.runs.engines.inline import InlineEngine
from turntree.runs.engines.lazy import LazyEngine
from turntree.runs.inbox_store import InboxStore
from turntree.runs.worker_store import WorkerStore
from turntree.testing.fakes import FakeClock

# What a test writes may vanish with the machine; what a proof writes may not. Nobody tidies up
# meanwhile: whether a table was looked at would depend on how long the tests before took.
QUICK = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
}
_NUMBERS = count()
WORKSPACE = "tests"
TEMPLATE = "ready"
FAST_EXAMPLES_MAX = 10
"""So many examples of a property are enough to work with; all of them are tried before landing."""

# How long an example takes says more about who else uses the machine than about the test.
hypothesis.settings.register_profile(
    "patient", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile(
    "fast", hypothesis.settings.get_profile("patient"), max_examples=FAST_EXAMPLES_MAX
)


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples where somebody asks for the fast tier; let Ctrl-C be heard."""
    # A shell's background job ignores it, and so would every program that a test interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    is_fast = config.getoption("markexpr") == "not slow"
    hypothesis.settings.load_profile("fast" if is_fast else "patient")
    # Here and not beside the tests of the command line: with several processes, the one that
    # starts the others loads this file only.
    config.pluginmanager.register(hint_report)


@pytest.fixture(autouse=True)
def process_hints(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Where processes of the command line take down what they print, with the hints in it."""
    records = tmp_path_factory.getbasetemp() / f"process-hints-{next(_NUMBERS)}"
    monkeypatch.setenv("HINT_RECORDS", str(records))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent / "process_hints"), prepend=":")
    return records


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Function) -> Generator[None, object, object]:
    """Follow hints that change something while the test's database is still there."""
    result = yield
    given = getattr(item, "funcargs", {})
    runner, records = given.get("hints"), given.get("process_hints")
    if isinstance(records, Path) and (runner is not None or records.exists()):
        # Only here, because most tests need nothing of the command line.
        from tests.cli.hint_runner import finish_hints  # noqa: PLC0415

        finish_hints(item, runner, records)
    return result


@pytest.fixture(scope="session")
def place() -> Generator[Path, None, None]:
    """A folder that the server's own account can reach, which pytest's are not for root."""
    folder = Path(tempfile.mkdtemp(prefix="turntree-tests-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def server(place: Path) -> Generator[str, None, None]:
    """A running server; how to reach its maintenance database, as a superuser."""
    embedded = EmbeddedServer(place / "home", QUICK)
    yield as_superuser(embedded.ensure_running())
    embedded.stop(mode="immediate")


@pytest.fixture(scope="session")
def workspace_id(server: str) -> WorkspaceId:
    """The workspace of every test, in a database that is brought up to date once."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {TEMPLATE} OWNER turntree")
    conninfo = as_owner(make_conninfo(server, dbname=TEMPLATE))
    return anyio.run(prepare_database, conninfo, WORKSPACE, FakeClock().new_id())


@pytest.fixture(scope="session")
def template(workspace_id: WorkspaceId) -> str:
    """The name of the database that every test's is cloned from."""
    return TEMPLATE


@pytest.fixture(scope="session")
def databases(server: str) -> Databases:
    """The databases of this process, which tests borrow and which are put back after each."""
    return Databases(server)


@pytest.fixture
def conninfo(databases: Databases, template: str) -> Generator[str, None, None]:
    """How to reach a database of the test's own, as a superuser."""
    with databases.lend(template) as lent:
        yield lent


@pytest.fixture
async def database(conninfo: str, workspace_id: WorkspaceId) -> AsyncGenerator[Database, None]:
    """A database opened as the application opens it."""
    async with open_database(as_owner(conninfo), workspace_id, sight=EVERYTHING) as opened:
        yield opened


@pytest.fixture
def world() -> FakeClock:
    """A clock that ticks and ids that repeat."""
    return FakeClock()


@pytest.fixture
async def lazy_engine(database: Database) -> AsyncGenerator[LazyEngine, None]:
    """What wakes sessions, loaded by the first message."""
    engine = engine_on(database)
    yield engine
    await engine.close()


@pytest.fixture
def tree(database: Database, world: FakeClock, place: Path, lazy_engine: LazyEngine) -> Tree:
    """The product, on a database of its own."""
    settings = Settings(place, user="ana", session="main")
    return tree_on(database, settings, world, engine=lazy_engine)


@pytest.fixture
async def shop(tree: Tree, database: Database, world: FakeClock) -> AsyncGenerator[Workshop, None]:
    """One session, and nobody at work yet."""
    session = await tree.sessions.create("main")
    engine = InlineEngine(database.lend)
    workers = WorkerStore(database, engine)
    inbox = InboxStore(database, engine)
    yield Workshop(tree, database, world, engine, inbox, workers, session.id)
    for name in await workers.list_workers():
        await workers.leave(name)
