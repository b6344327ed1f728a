"""What takes turns in this process: an engine, an inbox, providers, tools and workers, wired.

Whatever is slow to load waits until something is sent or served. Knows every adapter of the
runtime. Must never read the environment: boot hands in what it found there.
"""

import asyncio
import os
import random
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Final

from turntree.agents.assignments import Assignments
from turntree.agents.inference import Inference
from turntree.agents.task_supervisor import TaskSupervisor
from turntree.api import Tree
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.store_port import PermissionPort
from turntree.core.canonical import Json
from turntree.core.clock import Clock
from turntree.core.errors import NotFound, ProviderNotConfigured, TurntreeError
from turntree.core.ids import Digest, RunId, Timestamp
from turntree.core.principal import Principal
from turntree.core.program import Program
from turntree.core.secret_refs import SecretHosts, check_secret, is_public_only
from turntree.core.value import value
from turntree.db.locks import AdvisoryLock, Transaction
from turntree.ledger.session_store_port import Sessions
from turntree.ledger.store_port import LedgerPort
from turntree.ledger.thread_store_port import Threads
from turntree.models.prompt import ToolSpec
from turntree.models.provider import Credentials, Provider
from turntree.models.providers.factory import build_provider
from turntree.programs import store_port as program_ports
from turntree.runs.engines.lazy import LazyEngine
from turntree.runs.follow import RunFollower
from turntree.runs.inbox import Inbox, QueuedMessage, Workers
from turntree.runs.model_call import ModelCaller
from turntree.runs.request_builder import RequestBuilder
from turntree.runs.request_resolver import RequestResolver
from turntree.runs.runner import Runner
from turntree.runs.service import PostOptions
from turntree.runs.session_loop import SessionLoop
from turntree.runs.tool_calls import ToolCaller
from turntree.runs.worker import SILENT_S, Worker
from turntree.tools.code_programs import CodeTools
from turntree.tools.toolset import Toolset

AT_ONCE: Final = 32
DRAIN_S: Final = 2.0
"""How long whoever serves only itself waits for what it has begun; the rest goes on later."""


LOOK_S: Final = 0.4
LOOK_IDLE_S: Final = 0.4
"""A session that is awake for so long and that nobody has taken is looked after here."""


@value
class WorkerStores:
    """What whoever serves works on: all that is there, private sessions of others included."""

    ledger: LedgerPort
    threads: Threads
    inbox: Inbox
    workers: Workers
    programs: program_ports.Programs
    sessions: Sessions


@value
class WorkerDeps:
    """What turns are taken with."""

    engine: LazyEngine
    served: WorkerStores
    permissions: PermissionPort
    world: Clock
    context: ExecutionContext
    """Whose credentials providers are asked with."""
    host: str
    holding: AdvisoryLock
    load_toolsets: Callable[[], tuple[Toolset, ...]]
    """Called once, when somebody begins to serve: importing tools is importing anybody's code."""
    together: Transaction = nullcontext
    """Makes one transaction of what is read in a block."""
    secret_hosts: SecretHosts = frozenset()
    """Which of the credentials may go where."""


@dataclass(slots=True)
class WorkerRuntime:
    """A tree in whose sessions turns are taken, once somebody serves."""

    tree: Tree
    parts: WorkerDeps
    following: RunFollower
    assignments: Assignments
    providers: "Providers"
    actors: list[SessionLoop]
    voices: Inference
    _runner: Runner | None = None
    _own: "tuple[Worker, asyncio.Task[None]] | None" = None

    @property
    def engine_name(self) -> str:
        """What wakes sessions up."""
        return "this process alone" if self.parts.engine.is_here else "DBOS"

    @property
    def tool_specs(self) -> tuple[ToolSpec, ...]:
        """What models may have called here."""
        return self._get_runner().calling.specs

    async def ensure_served(self) -> None:
        """Serve from now on, unless somebody does already: here, or in another process."""
        if self._own is not None and not self._own[1].done():
            return
        if not await self.tree.runs.workers.list_workers():
            self.parts.engine.stay_here()
            self._own = await self._start(None, AT_ONCE, DRAIN_S)

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
        """Serve while the block lasts, under a name; what was begun may end afterwards.

        ``stays_here`` is for a process that serves itself: what others send is found by looking.
        One that ``oversees`` sees every task through that was started and that nobody follows.

        Raises:
            Conflict: Somebody who lives has the name.
        """
        if stays_here:
            self.parts.engine.stay_here()
        worker, task = await self._start(name, at_once, drain_s)
        seeing = (
            asyncio.create_task(TaskSupervisor(self.assignments).oversee()) if oversees else None
        )
        try:
            yield worker.name
        finally:
            try:
                if seeing is not None:
                    seeing.cancel()
                    with suppress(asyncio.CancelledError):
                        await seeing
            finally:
                await self._stop(worker, task)

    async def aclose(self) -> None:
        """Stop serving, if it was begun on the way."""
        if self._own is not None:
            own, self._own = self._own, None
            await self._stop(*own)
        await self.providers.aclose()
        await self.parts.engine.close()

    async def _start(
        self, name: str | None, at_once: int, drain_s: float
    ) -> "tuple[Worker, asyncio.Task[None]]":
        served, parts = self.parts.served, self.parts
        # No other process ever has the name: what a dead one held must not look like ours.
        called = name or f"{parts.host}-{os.getpid()}-{secrets.token_hex(3)}"
        actor = SessionLoop(
            called, served.inbox, served.workers, served.ledger, self._get_runner(), self._moment
        )
        worker = Worker(
            parts.engine, served.workers, actor, parts.world, at_once=at_once, grace_s=drain_s
        )
        self.actors.append(actor)
        begun = asyncio.Event()
        task = asyncio.create_task(self._serve(worker, begun))
        ready = asyncio.create_task(begun.wait())
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if task.done():
            await task
        return worker, task

    async def _serve(self, worker: Worker, begun: asyncio.Event) -> None:
        looking = asyncio.create_task(self._look()) if self.parts.engine.is_here else None
        try:
            await worker.serve(ready=begun.set)
        finally:
            if looking is not None:
                looking.cancel()

    async def _look(self) -> None:
        """Find what was sent by others: their wake-ups do not reach this process."""
        while True:
            with suppress(TurntreeError):
                await self.tree.runs.workers.wake_stuck(silent_s=SILENT_S, idle_s=LOOK_IDLE_S)
            await asyncio.sleep(LOOK_S)

    async def _stop(self, worker: Worker, task: "asyncio.Task[None]") -> None:
        worker.drain()
        try:
            await task
        finally:
            self.actors.remove(worker.actor)

    def _get_runner(self) -> Runner:
        if self._runner is None:
            served, hub = self.parts.served, self.tree.runs.hub
            toolsets = self.parts.load_toolsets()
            programs = replace(self.tree.programs, store=served.programs, sessions=served.sessions)
            pinning = RequestResolver(programs, served.ledger, self.parts.permissions, toolsets)
            assembly = RequestBuilder(
                pinning, served.ledger, served.threads, self.providers.build, self.parts.together
            )
            asking = ModelCaller(hub, time.monotonic, random.random)

            async def own_tools(sender: Principal, request: Mapping[str, Json]) -> CodeTools | None:
                specs, versions = await pinning.list_programs(request)
                return CodeTools(replace(programs, by=sender), specs, versions) if specs else None

            self._runner = Runner(
                served.ledger,
                assembly,
                asking,
                ToolCaller(toolsets, redactor=self.tree.runs.redactor),
                hub,
                own_tools=own_tools,
            )
        return self._runner

    def _moment(self, run: RunId, seq: int) -> Timestamp:
        del run, seq
        return self.parts.world.now()


def running_on(tree: Tree, parts: WorkerDeps) -> WorkerRuntime:
    """Return what takes turns in a tree; nobody serves yet."""
    actors: list[SessionLoop] = []

    def end_here(run: RunId) -> bool:
        return any(one.cancel(run) for one in actors)

    runs = replace(tree.runs, end_here=end_here)
    providers = Providers(parts.context, tree.ledger, parts.secret_hosts)

    async def post(
        session: str,
        text: str,
        *,
        key: str,
        agent: str,
        by: Principal | None,
        max_steps: int | None,
    ) -> QueuedMessage:
        asked: PostOptions = {"agent": agent}
        if max_steps is not None:
            asked["max_steps"] = max_steps
        return await runs.post(session, text, key=key, by=by, **asked)

    async def ensure_served() -> None:
        await running.ensure_served()

    voices = Inference(providers.build, runs, ensure_served, time.monotonic)
    programs = replace(tree.programs, voices=voices)
    following = RunFollower(runs)
    running = WorkerRuntime(
        tree.with_facets(runs=runs, programs=programs),
        parts,
        following,
        Assignments(programs, following, post, parts.holding),
        providers,
        actors,
        voices,
    )
    return running


def load_toolsets(tools: Sequence[object] = ()) -> tuple[Toolset, ...]:
    """Return the tools that are installed, and those given.

    Raises:
        InvalidOperation: Something is no tool, or two have one name.
    """
    # Loading what reads functions takes as long as most commands do: only who serves needs it.
    loading = import_module("turntree.tools.loading")
    installed = loading.apart_of(loading.load_installed())
    found: tuple[Toolset, ...] = loading.toolsets_of([*installed, *tools])
    return found


@value
class Providers:
    """Providers, each built when it is first asked for and kept while its config stays."""

    context: ExecutionContext
    ledger: LedgerPort
    secret_hosts: SecretHosts = frozenset()
    _built: dict[tuple[str, Digest], Provider] = field(
        default_factory=dict[tuple[str, Digest], Provider]
    )

    def build(self, program: Program) -> Provider:
        """Return the provider of a program.

        Raises:
            ProviderNotConfigured: Nobody knows its type, or what it needs is not installed or not
                there.
            InvalidOperation: Its config contradicts itself.
            PermissionDenied: It would be given a secret that its destination was not allowed.
        """
        # What the same config may be given depends on who wrote it.
        key = (program.version.by, program.version.digest)
        if key not in self._built:
            try:
                self._built[key] = build_provider(
                    program.config,
                    self._credentials(program),
                    objects=self.ledger.get_object,
                    is_public_only=is_public_only(
                        program.config,
                        program.version.by,
                        str(self.context.principal),
                        self.secret_hosts,
                    ),
                )
            except NotFound as error:
                # A key that is missing today may be there tomorrow: nothing is kept of this.
                raise ProviderNotConfigured(str(error)) from error
        return self._built[key]

    def _credentials(self, program: Program) -> Credentials:
        acts = str(self.context.principal)

        def get(name: str) -> str:
            author = program.version.by
            check_secret(name, program.name, program.config, author, acts, self.secret_hosts)
            return self.context.get_credential(name)

        return get

    async def aclose(self) -> None:
        """Let go of the connections of all of them."""
        built = list(self._built.values())
        self._built.clear()
        for provider in built:
            await provider.aclose()
