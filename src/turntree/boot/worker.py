"""Wire the worker runtime of this process: engine, inbox, providers, tools and workers.

Slow imports wait until something is sent or served. Knows every implementation of the runtime. Must
never read the environment: boot passes in what it found there.
"""

import asyncio
import os
import random
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import Any, Final, Protocol

import anyio
import anyio.to_thread

from turntree.agents.assignments import Assignments
from turntree.agents.inference import Inference
from turntree.agents.task_supervisor import TaskSupervisor
from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext, find_current
from turntree.boot.workbench import OpenWorkbench
from turntree.conversations.answers import ConversationAnswers
from turntree.conversations.poster import Poster
from turntree.conversations.ranker import AgentRanker
from turntree.conversations.route_tool import route_tools
from turntree.conversations.store import ConversationStore
from turntree.core.canonical import Json
from turntree.core.clock import Clock
from turntree.core.errors import TurntreeError
from turntree.core.ids import Digest, RunId, SessionId, WorkspaceId
from turntree.core.principal import Principal
from turntree.core.program import Program, name_in
from turntree.core.run import reader_of
from turntree.core.secret_refs import SecretHosts
from turntree.core.value import value
from turntree.core.viewer import sight_of
from turntree.db.database import Database
from turntree.ledger.session_store import SessionStore
from turntree.ledger.store import Ledger
from turntree.ledger.thread_store import ThreadStore
from turntree.memory.history_tools import history_tools
from turntree.models.prompt import ToolSpec
from turntree.models.provider import Provider
from turntree.models.providers.factory import ProviderCache, load_library
from turntree.notifications.sender import (
    DELIVER_S,
    BeginDeliveries,
    NoticeSender,
    SendDelivery,
)
from turntree.policy.judge import PolicyJudge
from turntree.policy.store import PolicyStore
from turntree.programs.model_choice import Choice, without_provider
from turntree.programs.service import Programs
from turntree.programs.store import ProgramStore
from turntree.resources.service import Resources
from turntree.resources.store import AttachmentStore, ResourceStore, TurnSnapshotStore
from turntree.routing.route import Route
from turntree.runs.approving.approval_store import ApprovalStore
from turntree.runs.approving.approval_sweep import ApprovalSweep
from turntree.runs.attempt import RunObserver, moment_of
from turntree.runs.engine import Engine
from turntree.runs.engines.lazy import LazyEngine
from turntree.runs.follow import RunFollower
from turntree.runs.inbox_store import InboxStore
from turntree.runs.judging.call_judge import CallJudge
from turntree.runs.judging.call_questions import CallQuestions
from turntree.runs.model_call import ModelCaller
from turntree.runs.request_builder import RequestBuilder
from turntree.runs.request_resolver import RequestResolver, agent_in, no_workbench
from turntree.runs.run_files import RunFiles
from turntree.runs.runner import Runner
from turntree.runs.service import Runs
from turntree.runs.session_loop import SessionLoop
from turntree.runs.shared_worker import WorkspaceLoop
from turntree.runs.tool_calls import ToolCaller
from turntree.runs.worker import SILENT_S, Worker, repeat
from turntree.runs.worker_store import WorkerStore
from turntree.system.guarded_environment import VariableReader, guard_environment
from turntree.tools.ledger import ledger_tools
from turntree.tools.mcp.connections import ServerConnections
from turntree.tools.mcp.connector_tools import ConnectorTools
from turntree.tools.mcp.reach import ServerReach
from turntree.tools.program_tools import ProgramTools
from turntree.tools.toolset import Toolset

# Sessions wait for models most of the time, so one process can serve many.
AT_ONCE: Final = 32
DRAIN_S: Final = 2.0
"""How long a process that serves only itself waits for its runs; the rest continues later."""


MANIFESTS_MAX: Final = 256
"""Manifests whose tools are kept from step to step."""
LOOK_S: Final = 0.4
LOOK_IDLE_S: Final = 0.4
"""A session that waits this long without being claimed is processed here."""


@value
class WorkerDeps:
    """The dependencies of runs."""

    engine: LazyEngine
    database: Database
    """Seen by a viewer from whom nothing is hidden: a worker serves private sessions too."""
    world: Clock
    context: ExecutionContext
    """The context whose credentials providers get."""
    host: str
    find_server_reach: Callable[[], ServerReach]
    """Which servers of tools this process may reach, and how."""
    load_toolsets: Callable[[], tuple[Toolset, ...]]
    """Called once, when serving starts: importing tools runs third-party code."""
    secret_hosts: SecretHosts = frozenset()
    """Where each credential may be sent."""
    providers: Mapping[str, Provider] = field(default_factory=dict[str, Provider])
    """Providers that are objects of this process, by name."""
    has_own_tools: bool = False
    """Whether only this process has some of its tools."""
    observers: Sequence[RunObserver] = ()
    """What watches the runs of this process, in any workspace."""
    open_workbench: OpenWorkbench | None = None
    """Makes the tools for folders; None where no sandbox can be."""
    find_channels: Callable[[], tuple[Mapping[str, SendDelivery], BeginDeliveries]] | None = None
    """Called where notices and events are sent: by which channels they leave the ledger, and what
    begins the deliveries of events."""

    def delivering(
        self,
        only: Sequence[WorkspaceId] | None = None,
        place: Callable[[WorkspaceId], tuple[Database, Engine]] | None = None,
    ) -> AbstractAsyncContextManager[None]:
        """Send notices and events while the block lasts: of all workspaces, or of some.

        What waits for a person is looked after too. ``place`` returns the database and the engine
        of each workspace; None stands for the one of this runtime.

        Raises:
            InvalidOperation: The settings of a channel are invalid.
            ProviderNotConfigured: The library of a channel is not installed.
        """
        own = ApprovalStore(self.database, self.engine)
        sweep = ApprovalSweep(
            own, self.world, lambda at: own if place is None else ApprovalStore(*place(at))
        )
        sender = None
        if self.find_channels is not None:
            sender = NoticeSender(self.database, self.world, *self.find_channels())

        async def look(_number: int) -> None:
            await sweep.look(only)
            if sender is not None:
                await sender.look(only)

        return _in_background(partial(repeat, look, DELIVER_S))


@dataclass(slots=True)
class WorkerRuntime:
    """A tree whose sessions can be served."""

    tree: Tree
    parts: WorkerDeps
    following: RunFollower
    assignments: Assignments
    providers: ProviderCache
    actors: list[SessionLoop]
    voices: Inference
    _runner: Runner | None = None
    _servers: "ServerConnections | None" = None
    _own: "tuple[Worker, asyncio.Task[None]] | None" = None
    _pumps: "set[asyncio.Task[None]]" = field(default_factory=set["asyncio.Task[None]"])
    """Sessions that tool calls of this worker wait for."""

    @property
    def serves_itself(self) -> bool:
        """Whether this process started to serve because no other one does."""
        return self._own is not None

    @property
    def engine_name(self) -> str:
        """What wakes sessions."""
        return "this process alone" if self.parts.engine.is_here else "DBOS"

    @property
    def tool_specs(self) -> tuple[ToolSpec, ...]:
        """The tools that models may call here."""
        return self._get_runner().calling.specs

    async def check_model(self, route: Route, options: Mapping[str, Json]) -> Choice:
        """Return the model that would answer a message along a route now, without storing anything.

        If this process would answer, it also checks that the provider can be used from here: its
        library is installed and its key may be sent.

        Raises:
            InvalidOperation: No model is configured, or the situation does not exist.
            NotFound: A program that is named does not exist.
            ProviderNotConfigured: The model has no provider, or one that cannot be used from here.
            PermissionDenied: The provider needs a secret that may not be sent to it.
        """
        database = self.parts.database
        resolver = RequestResolver(
            replace(
                self.tree.programs, store=ProgramStore(database), sessions=SessionStore(database)
            ),
            Ledger(database),
            ThreadStore(database),
        )
        started: dict[str, Json] = {"by": str(self.tree.runs.by), "options": dict(options)}
        choice = await resolver.preview(route.session, route.head, started)
        if choice.provider is None:
            raise without_provider(choice.model.address)
        # Another worker has its own keys and libraries, which this process cannot see.
        workers = await self.tree.runs.workers.list_workers() if self.actors else []
        if self.serves_itself or len(workers) == 1:
            self.providers.build(choice.provider)
        return choice

    async def ensure_served(self) -> None:
        """Serve from now on, unless a worker in this or another process does.

        Another process is not enough if only this one has the tools or the provider.
        """
        if self.actors and (self._own is None or not self._own[1].done()):
            return
        is_needed = self.parts.has_own_tools or bool(self.parts.providers)
        if is_needed or not await self.tree.runs.workers.list_workers():
            self.parts.engine.stay_here()
            self._own = await self._start(None, AT_ONCE, DRAIN_S)

    async def load_libraries(self) -> None:
        """Import the libraries of the models that can be asked here.

        On a busy machine that takes longer than a worker that is told to stop gives its runs. So a
        worker does it before it claims a run.
        """
        database = self.parts.database
        programs = replace(
            self.tree.programs, store=ProgramStore(database), sessions=SessionStore(database)
        )
        providers = {one.name: one.config async for one in programs.list_all(kind="provider")}
        async for model in programs.list_all(kind="model"):
            config = providers.get(name_in(str(model.config.get("provider"))))
            # A library may raise anything when it is imported. The run that needs it says what is
            # wrong, and the other models still answer.
            with suppress(Exception):
                await anyio.to_thread.run_sync(
                    load_library, config or {}, str(model.config.get("model_id"))
                )

    @asynccontextmanager
    async def serving(
        self,
        *,
        name: str | None = None,
        at_once: int = AT_ONCE,
        drain_s: float = DRAIN_S,
        stays_here: bool = False,
        oversees: bool = False,
    ) -> AsyncGenerator[str, None]:
        """Serve while the block lasts, under a name; running turns may finish afterwards.

        ``stays_here`` is for a process that serves only itself: it polls for messages of others.
        One that ``oversees`` also completes started tasks that no process follows, and sends
        notices.

        Raises:
            Conflict: A worker of that name is already running.
        """
        if stays_here:
            self.parts.engine.stay_here()
        worker, task = await self._start(name, at_once, drain_s)
        try:
            if oversees:
                own = WorkspaceId(str(self.parts.database.workspace))
                async with (
                    self.parts.delivering([own]),
                    _in_background(TaskSupervisor(self.assignments).oversee),
                ):
                    yield worker.name
            else:
                yield worker.name
        finally:
            await self._stop(worker, task)

    async def aclose(self) -> None:
        """Stop serving, if it was started."""
        if self._own is not None:
            own, self._own = self._own, None
            await self._stop(*own)
        for pump in self._pumps:
            pump.cancel()
        if self._servers is not None:
            await self._servers.aclose()
        await self.providers.aclose()
        await self.parts.engine.close()

    async def _start(
        self, name: str | None, at_once: int, drain_s: float
    ) -> "tuple[Worker, asyncio.Task[None]]":
        parts = self.parts
        workers = WorkerStore(parts.database, parts.engine)
        actor = self._add_actor(name or make_worker_name(parts.host), workers)
        worker = Worker(parts.engine, workers, actor, parts.world, at_once=at_once, grace_s=drain_s)
        return worker, await start_serving(partial(self._serve, worker))

    def join(self, name: str, registration: WorkerStore) -> WorkspaceLoop:
        """Return what a worker of several workspaces needs in this one."""
        workers = registration.in_workspace(self.parts.database, self.parts.engine)
        supervisor = TaskSupervisor(self.assignments)
        return WorkspaceLoop(self._add_actor(name, workers), workers, supervisor.look)

    def _add_actor(self, name: str, workers: WorkerStore) -> SessionLoop:
        database, engine = self.parts.database, self.parts.engine
        actor = SessionLoop(
            name,
            InboxStore(database, engine),
            workers,
            Ledger(database),
            self._get_runner(),
            moment_of(self.parts.world),
            self.parts.observers,
        )
        self.actors.append(actor)
        return actor

    async def _serve(self, worker: Worker, *, ready: Callable[[], None]) -> None:
        if not self.parts.engine.is_here:
            await worker.serve(ready=ready)
            return
        async with _in_background(self._look):
            await worker.serve(ready=ready)

    async def _look(self) -> None:
        """Poll for messages of other processes: their wake-ups do not reach this one."""
        while True:
            # The next round tries again; without the database there is nothing to wake.
            with suppress(TurntreeError):
                await self.tree.runs.workers.wake_stuck(silent_s=SILENT_S, idle_s=LOOK_IDLE_S)
            await asyncio.sleep(LOOK_S)

    async def _stop(self, worker: Worker, task: "asyncio.Task[None]") -> None:
        worker.drain()
        try:
            await task
        finally:
            self.actors.remove(worker.actor)
            # Another worker continues what is left, as with every other session of this one.
            for pump in self._pumps:
                pump.cancel()

    def _pump(self, session: SessionId) -> None:
        """Process a session's inbox in the background, besides the sessions served at once."""
        pump = asyncio.create_task(self.actors[0].handle(session))
        self._pumps.add(pump)
        pump.add_done_callback(self._pumps.discard)
        # Retrieve the exception, or asyncio logs that it was never retrieved. The session's own
        # wake-up remains, and is tried again.
        pump.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    def _get_runner(self) -> Runner:
        if self._runner is None:
            database, hub = self.parts.database, self.tree.runs.hub
            ledger = Ledger(database)
            toolsets = self.parts.load_toolsets()
            guard_environment(_find_reader)
            programs = replace(
                self.tree.programs,
                store=ProgramStore(database),
                sessions=SessionStore(database),
                voices=Inference(self.providers.build, self._worker_runs(), _is_served, self._pump),
            )
            own = ledger_tools(
                ledger,
                lambda started: ThreadStore(database.seen_by(sight_of(reader_of(started)))),
            )
            talks = ConversationStore(database)
            routing = route_tools(talks.list_routable)
            history = history_tools(self.tree.act_as)
            files = RunFiles(self._worker_resources(), self.tree.programs.user)
            open_workbench = self.parts.open_workbench
            bench = None if open_workbench is None else open_workbench(programs, files)
            pinning = RequestResolver(
                programs, ledger, ThreadStore(database), toolsets, tuple(own.specs), (routing,),
                no_workbench if bench is None else bench.offer, tuple(history.specs),
            )  # fmt: skip
            assembly = RequestBuilder(
                pinning, ledger, ThreadStore(database), self.providers.build, database.keep_together
            )
            asking = ModelCaller(hub, time.monotonic, random.random)

            made: dict[tuple[Json, Principal], Sequence[Toolset]] = {}

            async def own_programs(
                reader: Principal, request: Mapping[str, Json]
            ) -> Sequence[Toolset]:
                # What a manifest pins never changes, and a run asks for it at every step. Whether
                # the reader may still call a program is asked at every call.
                key = request.get("manifest"), reader
                if key not in made:
                    specs, versions = await pinning.list_programs(request)
                    if len(made) >= MANIFESTS_MAX:
                        made.clear()
                    own = replace(programs, by=reader)
                    made[key] = await split_tools(own, self.servers, specs, versions)
                return made[key]

            async def own_tools(
                reader: Principal, request: Mapping[str, Json]
            ) -> Sequence[Toolset]:
                found = [*await own_programs(reader, request)]
                if bench is not None and "sandbox" in request:
                    agent = await programs.find(agent_in(request) or "")
                    found += await bench.tools_of(agent, reader, request)
                return found

            async def environment_for(agent: str) -> Mapping[str, str]:
                # The environment is this user's. Owning an agent is not enough: a person who may
                # configure it could list a credential.
                found = await programs.find(agent)
                is_own = found is not None and await programs.is_own(found)
                return self.parts.context.environment if is_own else {}

            async def context_of(
                started: Mapping[str, Json], request: Mapping[str, Json]
            ) -> ExecutionContext:
                return await pinning.context_of(started, request, environment_for)

            approvals = ApprovalStore(database, self.parts.engine)
            find_active = PolicyStore(database).find_active
            judge = PolicyJudge(self.tree.policies.find_evaluator(), find_active)
            poster = Poster(
                talks, ledger, self.parts.world, self.tree.runs.model,
                self.tree.conversations.poster.tokens_daily,
            )  # fmt: skip
            self._runner = Runner(
                ledger,
                assembly,
                asking,
                ToolCaller((*toolsets, own, routing, history), redactor=self.tree.runs.redactor),
                hub,
                CallJudge(judge, approvals.of_run, self.tree.approvals.expires_s),
                questions=CallQuestions(
                    approvals.of_run,
                    self.tree.approvals.expires_s,
                ),
                own_tools=own_tools,
                context_of=context_of,
                files=files,
                answers=ConversationAnswers(
                    poster,
                    self.parts.engine,
                    context_of,
                    AgentRanker(lambda: self.tree.search.embedder),
                ),
                together=database.keep_together,
                forget=assembly.forget,
            )
        return self._runner

    @property
    def servers(self) -> ServerConnections:
        """The tool servers that this worker is connected to; each when it is first called."""
        if self._servers is None:
            self._servers = ServerConnections(self.parts.find_server_reach())
        return self._servers

    def _worker_runs(self) -> Runs:
        """Return the runs of every session: the tools of a run act for its sender, not for the
        user of this process."""
        database, engine, runs = self.parts.database, self.parts.engine, self.tree.runs
        return replace(
            runs,
            inbox=InboxStore(database, engine),
            workers=WorkerStore(database, engine),
            ledger=Ledger(database),
            threads=ThreadStore(database),
            sessions=replace(runs.sessions, ledger=SessionStore(database)),
        )

    def _worker_resources(self) -> Resources:
        """Return the resources of every session: a worker serves private ones too."""
        database, resources = self.parts.database, self.tree.resources
        return replace(
            resources,
            ledger=ResourceStore(database),
            attachments=AttachmentStore(database),
            pins=TurnSnapshotStore(database),
        )


async def split_tools(
    programs: Programs,
    connections: ServerConnections,
    specs: Sequence[ToolSpec],
    versions: Mapping[str, Digest],
) -> list[Toolset]:
    """Return the toolsets of the programs that a run pinned: one for each connector."""
    served: dict[str, list[ToolSpec]] = {}
    rest: list[ToolSpec] = []
    kinds: dict[str, Program | None] = {}
    for spec in specs:
        address = str(spec.program)
        if address not in kinds:
            kinds[address] = await programs.find(address)
        found = kinds[address]
        if found is not None and found.kind == "connector":
            served.setdefault(address, []).append(spec)
        else:
            rest.append(spec)
    toolsets: list[Toolset] = [ProgramTools(programs, tuple(rest), versions)] if rest else []
    for address, own in served.items():
        program = kinds[address]
        assert program is not None, "looked up above"
        pinned = replace(program, version=await programs.find_version(program, versions[address]))
        toolsets.append(ConnectorTools(connections, programs, pinned, tuple(own)))
    return toolsets


class Serve(Protocol):
    """Serves until it is told to stop."""

    def __call__(self, *, ready: Callable[[], None]) -> Coroutine[Any, Any, None]:
        """Serve; call ``ready`` once work is being claimed."""
        ...


async def start_serving(serve: Serve) -> "asyncio.Task[None]":
    """Serve in the background; return once work is being claimed, or raise what prevents it."""
    begun = asyncio.Event()
    task = asyncio.create_task(serve(ready=begun.set))
    ready = asyncio.create_task(begun.wait())
    await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()
    if task.done():
        await task
    return task


def make_worker_name(host: str) -> str:
    """Return a name no other process ever has: a dead worker's claims must not look like ours."""
    return f"{host}-{os.getpid()}-{secrets.token_hex(3)}"


async def _is_served() -> bool:
    """Return False: a worker asks, and its providers are checked when the run starts."""
    return False


def _find_reader() -> VariableReader | None:
    """Return the context of the tool that runs here; None outside of tools."""
    context = find_current()
    return None if context is None or context.note is None else context


@asynccontextmanager
async def _in_background(act: Callable[[], Awaitable[None]]) -> AsyncGenerator[None, None]:
    """Run something while the block lasts.

    It is ended by a cancel scope, which cancels until the task has left it. ``Task.cancel`` does so
    once, and a library may lose that one: in Python 3.11 ``asyncio.wait_for`` does if its inner
    task ends at the same moment, and then the program would wait here for ever.
    """
    scope = anyio.CancelScope()

    async def run() -> None:
        with scope:
            await act()

    task = asyncio.create_task(run())
    try:
        yield
    finally:
        scope.cancel()
        await task


def running_on(tree: Tree, parts: WorkerDeps) -> WorkerRuntime:
    """Return the worker runtime of a tree; it does not serve yet."""
    actors: list[SessionLoop] = []

    def end_here(run: RunId) -> bool:
        return any(one.cancel(run) for one in actors)

    async def ensure_served() -> None:
        await running.ensure_served()

    runs = replace(tree.runs, end_here=end_here, ensure_served=ensure_served)
    providers = ProviderCache(
        parts.context, tree.ledger.get_object, parts.secret_hosts, parts.providers
    )

    async def serves_here() -> bool:
        await running.ensure_served()
        return running.serves_itself

    voices = Inference(providers.build, runs, serves_here)
    programs = replace(tree.programs, voices=voices)
    following = RunFollower(runs)
    running = WorkerRuntime(
        tree.with_facets(runs=runs, programs=programs),
        parts,
        following,
        Assignments(programs, following, parts.database.holding),
        providers,
        actors,
        voices,
    )
    return running


def load_toolsets(tools: Sequence[object] = ()) -> tuple[Toolset, ...]:
    """Return the installed tools, and those given.

    Raises:
        InvalidOperation: Something is not a tool, or two have the same name.
    """
    # Importing the function reader takes as long as most commands; only a worker needs it.
    loading = import_module("turntree.tools.loading")
    installed = loading.apart_of(loading.load_installed())
    found: tuple[Toolset, ...] = loading.toolsets_of([*installed, *tools])
    return found
