"""Settings become adapters become a tree: the only wiring.

With ``cli/`` the only reader of the environment, so that a test can open a tree beside another
without either noticing.
"""

import getpass
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path

import anyio.to_thread

from turntree.adapters.embedders.minilm import find_minilm
from turntree.adapters.embedders.openai_compatible import OpenAiCompatible
from turntree.adapters.prices.genai import find_genai_prices
from turntree.adapters.worlds.system import SystemWorld
from turntree.domain.principal import Principal
from turntree.ports.embedder import Embedder
from turntree.ports.exporters import Exporter
from turntree.ports.importers import Importer
from turntree.ports.prices import Prices
from turntree.ports.stats import Stats
from turntree.ports.world import World
from turntree.runtime.imports import Importing
from turntree.runtime.tree import Tree, assemble
from turntree.store.checks import PostgresChecks
from turntree.store.database import Database, ensure_database, open_database, prepare_database
from turntree.store.edges import PostgresEdges
from turntree.store.embedded import EmbeddedServer, default_home
from turntree.store.feed import PostgresFeed
from turntree.store.imports import PostgresImports
from turntree.store.ledger import PostgresLedger, PostgresMarks
from turntree.store.meanings import PostgresMeanings
from turntree.store.search import PostgresSearch
from turntree.store.search_writer import PostgresSearchWriter
from turntree.store.sessions import PostgresReflog, PostgresSessions
from turntree.store.stats import PostgresStats
from turntree.store.threads import PostgresIndex, PostgresThreads

DATABASE_NAME = "turntree"
EXPORTERS = "turntree.exporters"
IMPORTERS = "turntree.importers"
"""The group of entry points under which importers are installed."""


@dataclass(frozen=True, slots=True)
class EmbedderSettings:
    """An endpoint that embeds texts, instead of the model on this machine."""

    url: str
    model: str
    dims: int
    """How many numbers its vectors have: that belongs to the model. 0 if nobody said so."""
    key: str | None = field(default=None, repr=False)

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> "EmbedderSettings | None":
        """Return what the variables of an embedder ask for; None if they name no address."""
        url, dims = env.get("TURNTREE_EMBEDDER_URL"), env.get("TURNTREE_EMBEDDER_DIMS") or ""
        if not url:
            return None
        # What is missing is said when somebody embeds: everything else works without it.
        length = int(dims) if dims.isascii() and dims.isdigit() else 0
        model = env.get("TURNTREE_EMBEDDER_MODEL") or ""
        return cls(url, model, length, env.get("TURNTREE_EMBEDDER_KEY") or None)


@dataclass(frozen=True, slots=True)
class Settings:
    """Where the ledger lives and who is working with it."""

    home: Path
    """Where the embedded server keeps its files."""
    database_url: str | None = None
    """Any PostgreSQL from 15 on; None starts the embedded one."""
    workspace: str = "default"
    user: str = "me"
    session: str | None = None
    """What ``HEAD`` stands for."""
    embedder: EmbedderSettings | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> "Settings":
        """Return the settings that ``TURNTREE_*`` variables ask for."""
        env = os.environ if environment is None else environment
        home = env.get("TURNTREE_HOME")
        return cls(
            home=Path(home).expanduser() if home else default_home(),
            database_url=env.get("TURNTREE_DATABASE_URL") or None,
            workspace=env.get("TURNTREE_WORKSPACE") or "default",
            user=env.get("TURNTREE_USER") or _login(),
            session=env.get("TURNTREE_SESSION") or None,
            embedder=EmbedderSettings.from_environment(env),
        )


@asynccontextmanager
async def open_tree(
    settings: Settings | None = None,
    *,
    world: World | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> AsyncGenerator[Tree, None]:
    """Open the ledger, starting the embedded server if no other database is named.

    The embedded server keeps running afterwards, so that the next process starts at once;
    ``turntree down`` stops it.

    Raises:
        Unreachable: The database does not answer.
    """
    chosen = settings or Settings.from_environment()
    here = world or SystemWorld()
    async with connect(chosen, here, report=report) as database:
        yield tree_on(database, chosen, here)


@asynccontextmanager
async def connect(
    settings: Settings, world: World, *, report: Callable[[str], None] = lambda _: None
) -> AsyncGenerator[Database, None]:
    """Open the database the settings name, brought up to date."""
    conninfo = settings.database_url or await embedded_conninfo(settings, report)
    workspace = await prepare_database(conninfo, settings.workspace, world.new_id())
    async with open_database(conninfo, workspace) as database:
        yield database


def importing_on(database: Database, world: World) -> Importing:
    """Return what imports transcripts into a database."""
    return Importing(
        PostgresImports(database), PostgresSessions(database), PostgresReflog(database), world
    )


def stats_on(database: Database) -> Stats:
    """Return what counts in a database."""
    return PostgresStats(database)


def find_prices() -> Prices | None:
    """Return the list of prices that is installed, if any."""
    return find_genai_prices()


def load_importers() -> dict[str, Importer]:
    """Return every importer that is installed, by the tool whose transcripts it reads."""
    found = [point.load()() for point in entry_points(group=IMPORTERS)]
    return {importer.origin: importer for importer in found}


def load_exporters() -> dict[str, Exporter]:
    """Return every exporter that is installed, by the tool that continues what it writes."""
    found = [point.load()() for point in entry_points(group=EXPORTERS)]
    return {exporter.tool: exporter for exporter in found}


def tree_on(
    database: Database, settings: Settings, world: World, *, embedder: Embedder | None = None
) -> Tree:
    """Return the tree that lives in a database; the embedder is the one installed, if any."""
    return assemble(
        ledger=PostgresLedger(database),
        marks=PostgresMarks(database),
        sessions=PostgresSessions(database),
        reflog=PostgresReflog(database),
        threads=PostgresThreads(database),
        index=PostgresIndex(database),
        feed=PostgresFeed(database),
        checks=PostgresChecks(database),
        edges=PostgresEdges(database),
        search_reader=PostgresSearch(database),
        search_writer=PostgresSearchWriter(database),
        meanings=PostgresMeanings(database),
        world=world,
        by=Principal("human", settings.user),
        current=settings.session,
        embedder=embedder or find_embedder(settings),
    )


def find_embedder(settings: Settings) -> Embedder | None:
    """Return the embedder that the settings name, or the one on this machine, if any."""
    if (chosen := settings.embedder) is not None:
        return OpenAiCompatible(chosen.url, chosen.model, chosen.dims, chosen.key)
    return find_minilm()


async def embedded_conninfo(settings: Settings, report: Callable[[str], None]) -> str:
    """Start the embedded server if it is not running and return how to reach our database."""
    server = EmbeddedServer(settings.home)
    conninfo = await anyio.to_thread.run_sync(server.ensure_running, report)
    return await ensure_database(conninfo, DATABASE_NAME)


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "me"  # A container's uid without an account.
