"""Open a tree from settings: the only place where implementations are wired together.

Besides ``cli`` the only reader of the environment, so that a test can open two trees side by side.
Every part is imported when it is created: most commands need few of these modules, and loading them
all takes longer than most commands do.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field, replace
from functools import cache, cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from turntree.api import Backends, Tree
from turntree.core.errors import Hint, InvalidOperation, Unsupported
from turntree.core.ids import RunId, WorkspaceId
from turntree.core.principal import Principal
from turntree.core.secret_refs import SecretHosts, read_hosts
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING, NOBODY, Sight, sight_of
from turntree.db.embedded.account import default_home
from turntree.db.shard import Shard, ShardMap
from turntree.system.clock import SystemClock

if TYPE_CHECKING:
    from turntree.auth.execution_context import ExecutionContext
    from turntree.boot.workbench import Workbench
    from turntree.boot.worker import WorkerRuntime
    from turntree.core.canonical import Json
    from turntree.core.clock import Clock, Processes
    from turntree.core.program import Program
    from turntree.core.redaction import Redactor
    from turntree.db.database import Database
    from turntree.hooks.judged_store import JudgedStore
    from turntree.hooks.reconcile import HookReconciler
    from turntree.models.provider import Provider
    from turntree.notifications.sender import BeginDeliveries, SendDelivery
    from turntree.policy.evaluate import Evaluator
    from turntree.programs.execution_host import LocalFolder
    from turntree.programs.service import InferenceBackend, Programs, Spoken
    from turntree.resources.driver import ResourceDriver
    from turntree.resources.service import FindKeeper
    from turntree.runs.attempt import RunObserver
    from turntree.runs.engine import Engine
    from turntree.runs.engines.lazy import LazyEngine
    from turntree.runs.live.stream import Hub
    from turntree.runs.run_feed import RunFeed
    from turntree.runs.run_files import RunFiles
    from turntree.sandbox.sandbox import Sandbox
    from turntree.search.embedder import Embedder
    from turntree.stats.prices import GenaiPrices
    from turntree.stats.store import StatsStore
    from turntree.tools.mcp.reach import ServerReach
    from turntree.transcripts.exporter import Exporter
    from turntree.transcripts.handoff_store import HandoffStore
    from turntree.transcripts.importer import Importer, ToolPaths
    from turntree.transcripts.imports import ImportService
    from turntree.transcripts.store import ImportStore

EXPORTERS = "turntree.exporters"
READERS_MAX = 4
"""This many readers are as fast as one process can store; with fewer cores they share them."""
READER = (sys.executable, "-P", "-m", "turntree.transcripts.reader_process")
"""Starts a process that reads transcripts. -P: never import a file of the current folder."""
IMPORTERS = "turntree.importers"
"""Entry-point group of importers."""
RESOURCES = "turntree.resources"
"""Entry-point group of resource drivers."""
LIBRARY_AUDIENCE = "library"
"""The audience of tokens that a program opens a tree with."""
CODE_SANDBOX = "code"
"""The sandbox for the code of programs."""


@value
class EmbedderSettings:
    """An embedding endpoint, used instead of the local model."""

    url: str
    model: str
    dims: int
    """Dimensions of its vectors, which depend on the model. 0 if unset."""
    key: str | None = field(default=None, repr=False)

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> EmbedderSettings | None:
        """Return the embedder of the environment; None if it sets no URL."""
        url, dims = env.get("TURNTREE_EMBEDDER_URL"), env.get("TURNTREE_EMBEDDER_DIMS") or ""
        if not url:
            return None
        # A missing value is reported on the first embedding: everything else works without it.
        length = int(dims) if dims.isascii() and dims.isdigit() else 0
        model = env.get("TURNTREE_EMBEDDER_MODEL") or ""
        return cls(url, model, length, env.get("TURNTREE_EMBEDDER_KEY") or None)


TOKENS_DIGITS_MAX: Final = 15
APPROVAL_S: Final = 7 * 24 * 60 * 60
"""How long a request to a person waits, unless a setting says otherwise."""


@value
class Settings:
    """Where the ledger is and who works with it."""

    home: Path
    """The folder of the embedded server's files."""
    database_url: str | None = None
    """Any PostgreSQL, 15 or later; None starts the embedded one. With ``shards``, the database of
    the workspace."""
    workspace: str = "default"
    user: str = "me"
    token: str | None = field(default=None, repr=False)
    """A token to act with, instead of as the user with all rights."""
    context: ExecutionContext | None = field(default=None, repr=False, compare=False)
    """The context of the token, once ``with_token`` has opened it."""
    session: str | None = None
    """The session that ``HEAD`` names."""
    embedder: EmbedderSettings | None = None
    redacts: bool = True
    """Whether secrets are redacted from what is recorded, sent, imported or returned by tools."""
    secret_hosts: SecretHosts = frozenset()
    """Where this user's secrets may be sent, besides each vendor's own to that vendor."""
    is_user_declared: bool = field(default=False, compare=False)
    """Whether the environment or a file names the user, instead of the operating system."""
    console_url: str | None = None
    """The same database with a read-only login; the embedded server has one."""
    live_url: str | None = field(default=None, repr=False)
    """A Redis or Valkey that passes live text between processes; None keeps it in this one."""
    shards: ShardMap | None = None
    """The databases of a ledger that is spread over several."""
    mail_server: str | None = None
    """The server that takes the notices which leave by mail, as ``smtp://USER@HOST:PORT``."""
    mail_from: str | None = None
    """The address that these mails come from."""
    mail_password: str | None = None
    """``${NAME}``, the variable with the password of the user at that server."""
    agent_tokens_daily: int | None = None
    """Tokens that agents may use in conversations for one person in a day; None for any number."""
    webhook_hosts: frozenset[str] = frozenset()
    """Hosts to which webhooks may leave though their addresses are not public."""
    sandbox_profiles: Path | None = None
    """A TOML file with the sandbox profiles of this machine."""
    notice_command: str | None = None
    """A command that this user's worker runs with their notices on its stdin."""
    approval_s: int = APPROVAL_S
    """How long a request to a person waits for an answer."""
    unsandboxed_connectors: frozenset[str] = frozenset()
    """Names of this user's connectors whose commands run outside of every sandbox."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Return the settings of the ``TURNTREE_*`` variables.

        Raises:
            InvalidOperation: The shard map is invalid, or a single database is named beside it.
        """
        env = os.environ if environment is None else environment
        home, shards = env.get("TURNTREE_HOME"), _find_shards(env)
        profiles = env.get("TURNTREE_SANDBOX_PROFILES")
        settings = cls(
            home=Path(home).expanduser() if home else default_home(),
            database_url=env.get("TURNTREE_DATABASE_URL") or None,
            console_url=env.get("TURNTREE_CONSOLE_URL") or None,
            live_url=env.get("TURNTREE_LIVE_URL") or None,
            workspace=env.get("TURNTREE_WORKSPACE") or "default",
            user=env.get("TURNTREE_USER") or _login(),
            token=env.get("TURNTREE_TOKEN") or None,
            session=env.get("TURNTREE_SESSION") or None,
            embedder=EmbedderSettings.from_environment(env),
            redacts=env.get("TURNTREE_REDACT") != "no",
            secret_hosts=read_hosts(env.get("TURNTREE_SECRET_HOSTS") or ""),
            is_user_declared=bool(env.get("TURNTREE_USER")),
            shards=shards,
            mail_server=env.get("TURNTREE_MAIL_SERVER") or None,
            mail_from=env.get("TURNTREE_MAIL_FROM") or None,
            mail_password=env.get("TURNTREE_MAIL_PASSWORD") or None,
            agent_tokens_daily=read_tokens(env.get("TURNTREE_AGENT_TOKENS_DAILY")),
            webhook_hosts=read_webhook_hosts(env.get("TURNTREE_WEBHOOK_HOSTS")),
            sandbox_profiles=Path(profiles).expanduser() if profiles else None,
            notice_command=env.get("TURNTREE_NOTICE_COMMAND") or None,
            approval_s=read_approval_expiry(env.get("TURNTREE_APPROVAL_EXPIRES")),
            unsandboxed_connectors=read_names(env.get("TURNTREE_UNSANDBOXED_CONNECTORS")),
        )
        return settings.in_workspace(settings.workspace, session=settings.session)

    @property
    def shard(self) -> Shard | None:
        """The shard of the workspace; None if all workspaces are in one database."""
        return None if self.shards is None else self.shards.find_named(self.workspace)

    def in_workspace(self, name: str, *, session: str | None = None) -> Settings:
        """Return the settings of another workspace, with the database that it is in."""
        url = self.database_url
        if self.shards is not None:
            url = self.shards.find_named(name).database_url
        return replace(self, workspace=name, session=session, database_url=url)


def read_names(text: str | None) -> frozenset[str]:
    """Return the names in a text, which commas separate."""
    return frozenset(name.strip() for name in (text or "").split(",") if name.strip())


def read_webhook_hosts(text: str | None) -> frozenset[str]:
    """Return the hosts to which webhooks may leave though their addresses are not public.

    Raises:
        InvalidOperation: One is not a host.
    """
    if not text:
        return frozenset()
    from turntree.webhooks.webhook import read_hosts

    return read_hosts(text)


def read_tokens(text: str | None) -> int | None:
    """Return a number of tokens; None if none is set.

    Raises:
        InvalidOperation: It is not a number.
    """
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > TOKENS_DIGITS_MAX:
        raise InvalidOperation(f"{text[:80]!r} is not a number of tokens")
    return int(text)


def read_approval_expiry(text: str | None) -> int:
    """Return the seconds that a request to a person waits; a week if nothing is set.

    Raises:
        InvalidOperation: It is not a duration.
    """
    if not text:
        return APPROVAL_S
    from turntree.policy.approval import read_duration

    return read_duration(text)


def _find_shards(env: Mapping[str, str]) -> ShardMap | None:
    path = env.get("TURNTREE_SHARDS")
    if not path:
        return None
    if env.get("TURNTREE_DATABASE_URL"):
        raise InvalidOperation(
            "database_url and shards are both set: unset one, so that one says where the ledger is"
        )
    from turntree.boot.shard_file import read_shard_file

    return read_shard_file(Path(path).expanduser())


@asynccontextmanager
async def open_tree(
    settings: Settings | None = None,
    *,
    world: Clock | None = None,
    report: Callable[[str], None] = lambda _: None,
    worker: bool = False,
    tools: Sequence[object] = (),
    providers: Sequence[Provider] = (),
    model: str | None = None,
) -> AsyncGenerator[Tree, None]:
    """Open the ledger, starting the embedded server if no other database is named.

    The embedded server keeps running afterwards, so that the next process starts at once, until
    ``EmbeddedServer.stop``. With ``worker`` this process serves sessions for as long as the
    block lasts, and models may call ``tools``, which are functions or toolsets.

    ``providers`` are objects that run models. This process then serves too, because no other one
    has them, and closes them at the end of the block. ``model`` answers every message that is
    posted through this tree without naming another one: a model that exists, one of the given
    providers' models, or one that a vendor offers whose key is in the environment.

    Raises:
        DatabaseUnavailable: The database does not answer.
        NotFound: There is no such model.
        InvalidOperation: A provider's name belongs to another program.
    """
    chosen = settings or Settings.from_environment()
    here = world or SystemClock()
    async with connect(chosen, here, report=report) as database:
        engine = engine_on(database)
        chosen = await with_token(chosen, database, here, LIBRARY_AUDIENCE)

        def run() -> WorkerRuntime:
            return run_on(database, tree, chosen, here, engine, tools, providers)

        runtime, hub = LazyRuntime(run), LazyHub(chosen)
        tree = tree_on(database, chosen, here, engine=engine, runtime=runtime, find_hub=hub.find)
        try:
            if worker or providers:
                tree = runtime.running.tree
            if providers or model:
                from turntree.boot.python_providers import register

                if model and not providers and await tree.programs.find(model) is None:
                    from turntree.boot.vendor_models import find_model

                    await find_model(
                        tree.programs, begin_context(chosen), chosen.secret_hosts, os.environ, model
                    )
                await register(tree.programs, runtime.running.parts.providers, model)
                tree = tree.with_facets(runs=replace(tree.runs, model=model))
            if worker or providers:
                async with runtime.running.serving(stays_here=True, oversees=True):
                    yield tree
            else:
                yield tree
        finally:
            await runtime.aclose()
            await hub.aclose()
            await engine.close()


class LazyRuntime:
    """The worker runtime of this process, loaded on first use."""

    def __init__(self, run: Callable[[], WorkerRuntime]) -> None:
        """Load nothing yet."""
        self._run = run

    @cached_property
    def running(self) -> WorkerRuntime:
        """The worker runtime."""
        return self._run()

    @property
    def is_loaded(self) -> bool:
        """Whether it was used."""
        return "running" in vars(self)

    async def ensure_served(self) -> None:
        """Serve sessions from now on, unless a worker does."""
        await self.running.ensure_served()

    def end_here(self, run: RunId) -> bool:
        """Cancel what this process does for a run, if anything."""
        return self.is_loaded and self.running.tree.runs.end_here(run)

    async def ask(
        self,
        programs: Programs,
        asked: Program,
        request: Mapping[str, Json],
        hear: Spoken,
        told: Mapping[str, Json],
    ) -> Json:
        """Have a model or an agent reply to one message."""
        return await self.running.voices.ask(programs, asked, request, hear, told)

    async def send(
        self,
        programs: Programs,
        session: Program,
        request: Mapping[str, Json],
        hear: Spoken,
        told: Mapping[str, Json],
    ) -> Json:
        """Send a message to a session and return the reply."""
        return await self.running.voices.send(programs, session, request, hear, told)

    async def list_models(self, provider: Program) -> Json:
        """Return the names of the models that a provider has."""
        return await self.running.voices.list_models(provider)

    def with_runs(self, find_runs: Callable[[], Any]) -> InferenceBackend:
        """Return the same for another principal, whose runs are given."""
        return LazyInference(self, find_runs)

    async def aclose(self) -> None:
        """Stop serving, if it was started."""
        if self.is_loaded:
            await self.running.aclose()


@value
class LazyInference:
    """Asks models on behalf of another principal than the one who opened the tree."""

    runtime: LazyRuntime
    find_runs: Callable[[], Any]

    async def ask(
        self,
        programs: Programs,
        asked: Program,
        request: Mapping[str, Json],
        hear: Spoken,
        told: Mapping[str, Json],
    ) -> Json:
        """Have a model or an agent reply to one message."""
        return await self._voices.ask(programs, asked, request, hear, told)

    async def send(
        self,
        programs: Programs,
        session: Program,
        request: Mapping[str, Json],
        hear: Spoken,
        told: Mapping[str, Json],
    ) -> Json:
        """Send a message to a session and return the reply."""
        return await self._voices.send(programs, session, request, hear, told)

    async def list_models(self, provider: Program) -> Json:
        """Return the names of the models that a provider has."""
        return await self._voices.list_models(provider)

    def with_runs(self, find_runs: Callable[[], Any]) -> InferenceBackend:
        """Return the same for another principal, whose runs are given."""
        return replace(self, find_runs=find_runs)

    @property
    def _voices(self) -> InferenceBackend:
        return self.runtime.running.voices.with_runs(self.find_runs)


def engine_on(database: Database) -> LazyEngine:
    """Return the engine of a database, loaded on first use."""
    from turntree.db.database import sqlalchemy_url
    from turntree.db.embedded.logins import engine_login
    from turntree.runs.engines.dbos_queue import DbosQueue
    from turntree.runs.engines.lazy import LazyEngine

    workspace = WorkspaceId(str(database.workspace))
    engine = engine_login(database.conninfo)
    queue = DbosQueue(database, engine)
    return LazyEngine(database.lend, sqlalchemy_url(engine), workspace, queue)


def run_on(
    database: Database,
    tree: Tree,
    settings: Settings,
    world: Clock,
    engine: LazyEngine,
    tools: Sequence[object] = (),
    providers: Sequence[Provider] = (),
    observers: Sequence[RunObserver] = (),
) -> WorkerRuntime:
    """Return the worker runtime of a tree, for every session including private ones."""
    import platform

    from turntree.boot.python_providers import index_providers
    from turntree.boot.worker import WorkerDeps, load_toolsets, running_on

    context = begin_context(settings)
    parts = WorkerDeps(
        engine,
        database.seen_by(EVERYTHING),
        world,
        context,
        platform.node(),
        lambda: find_server_reach(settings),
        # Workspaces that one worker serves share its tools.
        cache(lambda: load_toolsets(tools)),
        settings.secret_hosts,
        index_providers(providers),
        bool(tools),
        observers,
        lambda programs, files: open_workbench(settings, programs, files),
        lambda: _find_channels(settings, context.environment, world),
    )
    return running_on(tree, parts)


def open_workbench(settings: Settings, programs: Programs, files: RunFiles) -> Workbench:
    """Return the tools for folders, with the sandbox and the profiles of this machine."""
    from turntree.boot.workbench import Workbench
    from turntree.workbench.profile import read_profiles

    return Workbench(
        programs,
        files,
        # Read for each request: a change of the file needs no restart.
        lambda: read_profiles(settings.sandbox_profiles),
        cache(lambda: find_sandboxes(settings.home)[CODE_SANDBOX]),
    )


def find_server_reach(settings: Settings) -> ServerReach:
    """Return which servers of tools this machine's user lets connectors reach."""
    from turntree.boot.workbench import find_view
    from turntree.tools.mcp.reach import ServerReach
    from turntree.workbench.profile import read_profiles

    return ServerReach(
        begin_context(settings),
        settings.secret_hosts,
        # Read for each connection: a change of the file needs no restart.
        lambda name: find_view(read_profiles(settings.sandbox_profiles), name),
        cache(lambda: find_sandboxes(settings.home)[CODE_SANDBOX]),
        settings.unsandboxed_connectors,
    )


def _find_channels(
    settings: Settings, secrets: Mapping[str, str], world: Clock
) -> tuple[Mapping[str, SendDelivery], BeginDeliveries]:
    from turntree.notifications.local_channels import (
        CommandChannel,
        TerminalChannel,
        read_command,
    )
    from turntree.notifications.mail import read_mail_server
    from turntree.notifications.preferences import COMMAND, TERMINAL, WEBHOOK
    from turntree.notifications.sender import make_channels
    from turntree.webhooks.channel import WebhookChannel
    from turntree.webhooks.event_queue import EventQueue

    channels = make_channels(
        read_mail_server(settings.mail_server, settings.mail_from, settings.mail_password, secrets)
    )
    own = f"human:{settings.user}"
    if sys.stderr.isatty():
        channels[TERMINAL] = TerminalChannel(own, partial(print, file=sys.stderr)).send
    if settings.notice_command:
        channels[COMMAND] = CommandChannel(own, read_command(settings.notice_command)).send
    channels[WEBHOOK] = WebhookChannel(world, settings.webhook_hosts).send
    return channels, EventQueue(world).begin


@asynccontextmanager
async def connect(
    settings: Settings,
    world: Clock,
    *,
    report: Callable[[str], None] = lambda _: None,
    is_brief: bool = False,
) -> AsyncGenerator[Database, None]:
    """Open the database of the settings, migrated to the current schema.

    A process that ``is_brief`` has a single connection unless it needs more.
    """
    from turntree.db.database import open_database, open_plain_database, prepare_database

    conninfo = settings.database_url or await embedded_conninfo(settings, report)
    if is_brief:
        name, new_id = settings.workspace, world.new_id()
        async with open_plain_database(conninfo, name, new_id, settings.shard) as database:
            _check_shard(settings, WorkspaceId(str(database.workspace)))
            yield database
        return
    workspace = await prepare_database(conninfo, settings.workspace, world.new_id(), settings.shard)
    _check_shard(settings, workspace)
    async with open_database(conninfo, workspace) as database:
        yield database


def _check_shard(settings: Settings, workspace: WorkspaceId) -> None:
    shard, name = settings.shard, settings.workspace
    if shard is not None and not shard.holds(workspace, name):
        raise InvalidOperation(
            f"the workspace {name!r} is from before the shard map: its id leads to another shard"
            f" than {shard.number}"
        )


def importing_on(
    database: Database, world: Clock, redactor: Redactor | None = None
) -> ImportService:
    """Return the transcript import of a database, as the principal it was opened for."""
    from turntree.core.redaction import Redactor, list_live
    from turntree.ledger.session_store import ReflogStore, SessionStore
    from turntree.transcripts.handoff_store import HandoffStore
    from turntree.transcripts.imports import ImportService
    from turntree.transcripts.store import ImportStore

    redactor = redactor or Redactor(list_live(os.environ))
    everything = database.seen_by(EVERYTHING)
    database = everything if database.sight == NOBODY else database
    return ImportService(
        ImportStore(database),
        HandoffStore(everything),
        SessionStore(everything),
        ReflogStore(everything),
        world,
        moving=SessionStore(database),
        redacting=redactor.is_on,
        live=redactor.live,
        reader_command=READER,
        reader_processes=min(os.cpu_count() or 1, READERS_MAX),
    )


def imports_on(database: Database) -> ImportStore:
    """Return the origins of the imported sessions that the database shows."""
    from turntree.transcripts.store import ImportStore

    return ImportStore(database)


def checkouts_on(database: Database) -> HandoffStore:
    """Return the store of sessions that were written for other tools."""
    from turntree.transcripts.handoff_store import HandoffStore

    return HandoffStore(database)


def settling_on(
    database: Database, tree: Tree, world: Clock, places: ToolPaths, *, private: bool = False
) -> Callable[[], HookReconciler]:
    """Return a factory of hook event importers; each imports as the tree's user."""
    from turntree.hooks.reconcile import HookReconciler
    from turntree.ledger.thread_store import ThreadStore

    importers = load_importers()

    def make() -> HookReconciler:
        own = database.seen_by(sight_of(tree.sessions.by))
        importing = importing_on(own, world, tree.runs.redactor)
        importing.private = private
        threads = ThreadStore(database.seen_by(EVERYTHING))
        return HookReconciler(importing, tree.resources, threads, importers, places, world.now)

    return make


def judged_on(database: Database, tree: Tree) -> JudgedStore:
    """Return what records decisions about the calls of the user's coding agents."""
    from turntree.hooks.judged_store import JudgedStore

    return JudgedStore(database.seen_by(sight_of(tree.sessions.by)))


def stats_on(database: Database) -> StatsStore:
    """Return the statistics of a database."""
    from turntree.stats.store import StatsStore

    return StatsStore(database)


def load_prices() -> GenaiPrices:
    """Return the price list."""
    from turntree.stats.prices import load_genai_prices

    return load_genai_prices()


def begin_context(
    settings: Settings, environment: Mapping[str, str] | None = None
) -> ExecutionContext:
    """Return the context of the settings: that of the token, else of the user with all rights.

    A credential that was not passed in is looked up in the environment.
    """
    from turntree.auth.execution_context import ExecutionContext

    if settings.context is not None:
        return settings.context
    env = os.environ if environment is None else environment
    return ExecutionContext.begin(Principal("human", settings.user), environment=dict(env))


async def with_token(
    settings: Settings, database: Database, world: Clock, audience: str
) -> Settings:
    """Return the settings with the context of their token, if they have one.

    Raises:
        PermissionDenied: The token is not valid here, has expired or was revoked, or another person
            issued it.
    """
    if settings.token is None:
        return settings
    from turntree.auth.store import PermissionStore
    from turntree.auth.tokens import Tokens
    from turntree.core.errors import PermissionDenied

    user = Principal("human", settings.user)
    tokens = Tokens(PermissionStore(database.seen_by(EVERYTHING)), world, user)
    context = await tokens.open(
        settings.token, key=load_token_key(settings), audience=audience, environment=os.environ
    )
    if settings.is_user_declared and str(context.chain.root) != str(user):
        raise PermissionDenied(f"the token is {context.chain.root}'s, and not {user}'s")
    return replace(settings, context=context)


def find_redactor(settings: Settings, environment: Mapping[str, str] | None = None) -> Redactor:
    """Return the redactor of stored text; it knows the secrets of the environment."""
    from turntree.core.redaction import Redactor, list_live

    return Redactor(list_live(os.environ if environment is None else environment), settings.redacts)


def load_token_key(settings: Settings) -> bytes:
    """Return the key that signs tokens here, generated on first use.

    Raises:
        InvalidOperation: The file exists, and does not hold a key.
    """
    from turntree.auth.token_key import read_or_draw_key

    return read_or_draw_key(settings.home)


def find_sandboxes(home: Path | None = None) -> dict[str, Sandbox]:
    """Return all sandboxes by the names that personas use; each may report a fault."""
    from turntree.sandbox.bubblewrap import Bubblewrap
    from turntree.sandbox.node import find_node

    walled = Bubblewrap(node=find_node(), home=home)
    return {walled.name: walled}


def make_evaluator(home: Path) -> Evaluator:
    """Return what evaluates policies, with Monty and with the sandbox of this machine."""
    from turntree.policy.evaluate import Evaluator
    from turntree.sandbox.monty import MontyLane

    return Evaluator(MontyLane(), cache(lambda: find_sandboxes(home)[CODE_SANDBOX]))


def workplace_in(
    folder: Path, home: Path, say: Callable[[str], None] | None = None, *, is_lent: bool = False
) -> LocalFolder:
    """Return a folder to work in, with this machine's sandbox and a terminal, if any.

    No command runs in a folder that contains the home folder, where the server's socket is.
    """
    from turntree.programs.execution_host import LocalFolder

    return LocalFolder(folder, say, lambda: find_sandboxes(home)[CODE_SANDBOX], is_lent)


def load_importers() -> dict[str, Importer]:
    """Return the installed importers, by the tool whose transcripts they read."""
    from importlib.metadata import entry_points

    found = [point.load()() for point in entry_points(group=IMPORTERS)]
    return {importer.origin: importer for importer in found}


def load_exporters() -> dict[str, Exporter]:
    """Return the installed exporters, by the tool that continues their sessions."""
    from importlib.metadata import entry_points

    found = [point.load()() for point in entry_points(group=EXPORTERS)]
    return {exporter.tool: exporter for exporter in found}


def load_keepers(home: Path) -> dict[str, ResourceDriver]:
    """Return the installed resource drivers, by resource kind.

    Snapshots are stored below the home folder.
    """
    from importlib.metadata import entry_points

    found = [point.load()(home) for point in entry_points(group=RESOURCES)]
    return {keeper.kind: keeper for keeper in found}


def keepers_in(home: Path, conninfo: str) -> FindKeeper:
    """Return a look-up of the driver of a kind; drivers are loaded on first use.

    Which ledger uses them is recorded beside their snapshots: several may share a home folder, and
    none can tell which snapshots another one refers to.
    """
    loaded: dict[str, ResourceDriver] = {}

    def find(kind: str) -> ResourceDriver:
        if not loaded:
            loaded.update(load_keepers(home))
            from turntree.db.database import place_of
            from turntree.resources.snapshots.users import note_ledger

            note_ledger(home, place_of(conninfo))
        if kind not in loaded:
            raise Unsupported(f"no driver installed for resource kind {kind!r}")
        return loaded[kind]

    return find


async def list_trees(
    database: Database, settings: Settings, world: Clock
) -> AsyncGenerator[tuple[str, Tree], None]:
    """Yield the tree of every workspace of a ledger, with its name, on the same connections.

    They include what is hidden from the user: gc must retain whatever any user needs.
    """
    for workspace, name in await database.seen_by(EVERYTHING).list_workspaces():
        one = database.in_workspace(WorkspaceId(workspace))
        yield name, tree_on(one, settings, world, sight=EVERYTHING)


def tree_on(  # noqa: PLR0913 - a part that is not given is found when it is needed.
    database: Database,
    settings: Settings,
    world: Clock,
    *,
    embedder: Embedder | None = None,
    keepers: FindKeeper | None = None,
    processes: Processes | None = None,
    workplace: LocalFolder | None = None,
    engine: Engine | None = None,
    sight: Sight | None = None,
    runtime: LazyRuntime | None = None,
    find_hub: Callable[[], Hub] | None = None,
) -> Tree:
    """Return the tree of a database, with the installed embedder and drivers.

    It shows what its user may see, unless another viewer is given; indexing and checks see the rest
    too. Programs work in the folder of this process, unless another host is given. Models can be
    asked if an inference backend is available. Trees that are given the same hub share live text.
    """
    context, find_hub = settings.context, find_hub or LazyHub(settings).find
    by = Principal("human", settings.user) if context is None else context.principal
    on = Backends(
        database.seen_by(sight or sight_of(by)),
        world,
        by,
        settings.session,
        redactor=cache(lambda: find_redactor(settings)),
        embedder=cache(lambda: embedder or find_embedder(settings)),
        engine=cache(lambda: engine or engine_on(database.seen_by(EVERYTHING))),
        execution_host=lambda: workplace or workplace_in(Path(), settings.home),
        find_driver=keepers or keepers_in(settings.home, database.conninfo),
        home=settings.home,
        run_feed=cache(lambda: _make_run_feed(database, find_hub())),
        processes=processes,
        context=context,
        agent_tokens_daily=settings.agent_tokens_daily,
        webhook_hosts=settings.webhook_hosts,
        approval_s=settings.approval_s,
        server_reach=cache(lambda: find_server_reach(settings)),
        find_evaluator=cache(lambda: make_evaluator(settings.home)),
    )
    if runtime is not None:
        on = replace(
            on,
            inference=runtime,
            end_here=runtime.end_here,
            ensure_served=runtime.ensure_served,
        )
    return Tree(on)


class LazyHub:
    """The hub of this process: in memory, or in Redis if ``live_url`` is set.

    Loaded on first use.
    """

    def __init__(self, settings: Settings) -> None:
        """Load nothing yet."""
        self._url = settings.live_url

    def find(self) -> Hub:
        """Return the hub.

        Raises:
            InvalidOperation: The server's client is not installed, or its address is invalid.
        """
        return self._hub

    async def aclose(self) -> None:
        """Close its connections, if it was used."""
        if "_hub" in vars(self):
            await self._hub.aclose()

    @cached_property
    def _hub(self) -> Hub:
        if self._url is not None:
            from turntree.runs.live.redis_hub import make_redis_hub

            return make_redis_hub(self._url)
        from turntree.runs.live.hub import LiveHub

        return LiveHub()


def _make_run_feed(database: Database, hub: Hub) -> RunFeed:
    from turntree.ledger.feed import Feed
    from turntree.runs.run_feed import RunFeed

    return RunFeed(Feed(database.seen_by(EVERYTHING)), hub)


def find_embedder(settings: Settings) -> Embedder | None:
    """Return the embedder of the settings, or the local one, if any."""
    from turntree.search.embedders.minilm import find_minilm
    from turntree.search.embedders.openai_compatible import OpenAiCompatible

    if (chosen := settings.embedder) is not None:
        return OpenAiCompatible(chosen.url, chosen.model, chosen.dims, chosen.key)
    return find_minilm()


def require_server_owner(settings: Settings) -> None:
    """Refuse a user who cannot use the embedded server: it belongs to one person.

    Access to files and keys is decided by user name, so the environment may not name another. A
    command that changes something before it opens the ledger has to ask this first.

    Raises:
        InvalidOperation: The environment names a user other than the operating system's.
    """
    if not settings.is_user_declared or settings.user == _login():
        return
    raise InvalidOperation(
        f"the embedded server belongs to {_login()} and cannot be used as "
        f"{settings.user}: unset TURNTREE_USER and the setting user, or name a "
        "PostgreSQL for several people with TURNTREE_DATABASE_URL",
        hint=Hint("config.unset", {"key": "user"}),
    )


async def embedded_conninfo(settings: Settings, report: Callable[[str], None]) -> str:
    """Start the embedded server if it is not running, and return its connection string.

    Raises:
        InvalidOperation: The environment names a user other than the operating system's.
    """
    from turntree.db.embedded.server import EmbeddedServer

    require_server_owner(settings)
    server = EmbeddedServer(settings.home)
    if (conninfo := server.find_ready()) is not None:
        return conninfo
    import anyio.to_thread

    return await anyio.to_thread.run_sync(server.ensure_running, report)


def _login() -> str:
    """Return the operating system's user name, ignoring the environment."""
    try:
        pwd: Any = import_module("pwd")
        return str(pwd.getpwuid(os.getuid()).pw_name)
    except ImportError:
        # Windows has no ``pwd``.
        return os.getlogin()
    except KeyError:
        return "me"  # A container's uid may have no account.
