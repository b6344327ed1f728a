"""The public API: one façade with a facet per noun. It holds no logic of its own.

A facet is created, and its module imported, on first use: a command that lists turns must not pay
for importers, plans and workers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

from turntree.core.ids import RunId, TurnId

if TYPE_CHECKING:
    from turntree.auth.authorizer import Authorizer
    from turntree.auth.personas import Personas
    from turntree.auth.store import PermissionStore
    from turntree.auth.tokens import Tokens
    from turntree.core.clock import Clock, Processes
    from turntree.core.principal import Principal
    from turntree.core.program import Program
    from turntree.core.redaction import Redactor
    from turntree.db.database import Database
    from turntree.integrity.findings import VerifyResult
    from turntree.integrity.service import Checks
    from turntree.ledger.feed import Feed
    from turntree.ledger.graph.causes import Causes
    from turntree.ledger.graph.store import GraphStore
    from turntree.ledger.recorder import Recorder
    from turntree.ledger.revisions import ResolvedRevision, RevisionResolver
    from turntree.ledger.session_store import ReflogStore, SessionStore
    from turntree.ledger.sessions import Sessions
    from turntree.ledger.store import Ledger, Tags
    from turntree.ledger.thread_store import ThreadStore, TurnIndex
    from turntree.ledger.turns import ThreadReader, Turns
    from turntree.programs.execution_host import LocalFolder
    from turntree.programs.program_kind import ProgramKind
    from turntree.programs.service import InferenceBackend, Programs
    from turntree.programs.store import ProgramStore
    from turntree.resources.blame import LineBlame
    from turntree.resources.files import Files
    from turntree.resources.plans.service import Plans
    from turntree.resources.plans.store import PlanStore
    from turntree.resources.service import FindKeeper, Resources
    from turntree.resources.store import (
        AttachmentStore,
        LeaseStore,
        ResourceStore,
        TurnSnapshotStore,
    )
    from turntree.resources.worktrees import Worktrees
    from turntree.routing.router import Router
    from turntree.routing.store import RoutingStore
    from turntree.runs.inbox_store import InboxStore
    from turntree.runs.model_context import ModelContexts
    from turntree.runs.replay import Replayer
    from turntree.runs.service import Runs
    from turntree.runs.worker_store import WorkerStore
    from turntree.search.embedder import Embedder
    from turntree.search.embedding_source import EmbeddingSource
    from turntree.search.embedding_store import EmbeddingStore
    from turntree.search.embeddings import Embeddings
    from turntree.search.index_store import IndexStore
    from turntree.search.service import Search
    from turntree.search.store import SearchStore


class Backends(Protocol):
    """The stores and services behind a tree. Each may be created on first use."""

    @property
    def ledger(self) -> Ledger: ...

    @property
    def marks(self) -> Tags: ...

    @property
    def sessions(self) -> SessionStore: ...

    @property
    def reflog(self) -> ReflogStore: ...

    @property
    def threads(self) -> ThreadStore: ...

    @property
    def index(self) -> TurnIndex: ...

    @property
    def feed(self) -> Feed: ...

    @property
    def everything(self) -> Database:
        """The database, with nothing hidden: for checks."""
        ...

    @property
    def edges(self) -> GraphStore: ...

    @property
    def search_reader(self) -> SearchStore: ...

    @property
    def search_writer(self) -> IndexStore: ...

    @property
    def resources(self) -> ResourceStore: ...

    @property
    def attachments(self) -> AttachmentStore: ...

    @property
    def pins(self) -> TurnSnapshotStore: ...

    @property
    def all_resources(self) -> ResourceStore:
        """Including those that only private sessions work on: for checks."""
        ...

    @property
    def all_pins(self) -> TurnSnapshotStore:
        """Including those of private sessions: to attribute changes."""
        ...

    @property
    def advice(self) -> LeaseStore: ...

    @property
    def plans(self) -> PlanStore: ...

    @property
    def keepers(self) -> FindKeeper: ...

    @property
    def processes(self) -> Processes: ...

    @property
    def host(self) -> str:
        """The name of this machine."""
        ...

    @property
    def meanings(self) -> EmbeddingStore: ...

    @property
    def routing(self) -> RoutingStore: ...

    @property
    def programs(self) -> ProgramStore: ...

    @property
    def kinds(self) -> Mapping[str, ProgramKind]: ...

    @property
    def permissions(self) -> PermissionStore: ...

    @property
    def inbox(self) -> InboxStore: ...

    @property
    def workers(self) -> WorkerStore: ...

    @property
    def world(self) -> Clock: ...

    @property
    def by(self) -> Principal: ...

    @property
    def current(self) -> str | None:
        """The session that ``HEAD`` names."""
        ...

    @property
    def embedder(self) -> Embedder | None: ...

    @property
    def describers(self) -> tuple[EmbeddingSource, ...]: ...

    @property
    def workplace(self) -> LocalFolder | None: ...

    @property
    def redactor(self) -> Redactor: ...

    @property
    def voices(self) -> InferenceBackend | None:
        """Asks models; None if no model is available."""
        ...

    @property
    def end_here(self) -> Callable[[RunId], bool]:
        """Cancels what this process does for a run, if anything."""
        ...


class Tree:
    """A workspace's turns and the sessions that point into them."""

    def __init__(self, on: Backends, **facets: Any) -> None:
        """Use the given backends; a facet that is passed in replaces the default one."""
        self._on = on
        self._given = facets
        # A cached property stores its value here, so a facet set here is never created.
        vars(self).update(facets)

    def with_facets(self, **facets: Any) -> Tree:
        """Return a tree on the same backends with some facets replaced."""
        return Tree(self._on, **self._given | facets)

    @property
    def ledger(self) -> Ledger:
        """Turns, events and objects, as stored."""
        return self._on.ledger

    @property
    def feed(self) -> Feed:
        """All events, in commit order."""
        return self._on.feed

    @property
    def edges(self) -> GraphStore:
        """References between nodes."""
        return self._on.edges

    @cached_property
    def revisions(self) -> RevisionResolver:
        """Parses and resolves revisions."""
        from turntree.ledger.revisions import RevisionResolver

        on = self._on
        find_program = partial(_find_program, on)
        return RevisionResolver(
            on.sessions, on.reflog, on.threads, on.index, on.world, on.current, find_program
        )

    @cached_property
    def sessions(self) -> Sessions:
        """Labels with moving heads."""
        from turntree.ledger.sessions import Sessions

        on = self._on
        return Sessions(on.sessions, on.reflog, self.revisions, on.world, on.by)

    @cached_property
    def turns(self) -> Turns:
        """Record, read and erase turns."""
        from turntree.ledger.turns import Turns

        on = self._on
        return Turns(
            on.ledger, on.marks, on.threads, on.index, self.revisions, self.sessions, on.world,
            on.by, on.redactor,
        )  # fmt: skip

    @cached_property
    def threads(self) -> ThreadReader:
        """Turns with their ancestry."""
        from turntree.ledger.turns import ThreadReader

        return ThreadReader(self._on.threads, self._on.index, self.revisions)

    @cached_property
    def checks(self) -> Checks:
        """Verify the ledger and the snapshots."""
        from turntree.integrity.service import Checks

        return Checks(self._on.everything, replace(self.resources, ledger=self._on.all_resources))

    @cached_property
    def causes(self) -> Causes:
        """What led to a turn."""
        from turntree.ledger.graph.causes import Causes

        return Causes(self._on.edges, self._on.threads, self._on.sessions)

    @cached_property
    def search(self) -> Search:
        """Find turns by their words."""
        from turntree.search.service import Search

        on = self._on
        return Search(on.search_reader, on.search_writer, on.world, on.embedder)

    @cached_property
    def resources(self) -> Resources:
        """Resources that turns work on, and their snapshots."""
        from turntree.resources.service import Resources

        on = self._on
        return Resources(
            on.resources, on.attachments, on.pins, on.all_pins, on.advice, on.keepers, on.host,
            on.threads, self.revisions, self.sessions, on.world, on.by,
        )  # fmt: skip

    @cached_property
    def plans(self) -> Plans:
        """Forks and moves with files."""
        from turntree.resources.plans.fork import ForkProposer
        from turntree.resources.plans.restore import RestoreProposer
        from turntree.resources.plans.saga import PlanRunner
        from turntree.resources.plans.service import Plans
        from turntree.resources.plans.step_executor import StepExecutor

        on, places = self._on, self.resources
        hands = StepExecutor(on.resources, on.attachments, on.ledger, on.keepers, on.host, on.world)
        saga = PlanRunner(on.plans, on.advice, hands, on.processes, on.world)
        restores = RestoreProposer(places, on.plans, hands)
        return Plans(on.plans, saga, ForkProposer(places), restores)

    @cached_property
    def files(self) -> Files:
        """The files of a snapshot."""
        from turntree.resources.files import Files

        return Files(self.resources)

    @cached_property
    def blame(self) -> LineBlame:
        """Which turn wrote a line."""
        from turntree.resources.blame import LineBlame

        return LineBlame(self.resources, self.files, self._on.world)

    @cached_property
    def worktrees(self) -> Worktrees:
        """Folders with the files of any turn."""
        from turntree.resources.worktrees import Worktrees

        return Worktrees(self.resources, self.files)

    @cached_property
    def programs(self) -> Programs:
        """Everything with an address."""
        from turntree.programs.service import Programs

        on = self._on
        return Programs(
            on.programs, on.kinds, on.sessions, on.world, on.by, on.workplace, on.voices, on.by
        )

    @cached_property
    def authority(self) -> Authorizer:
        """Who may do what."""
        from turntree.auth.authorizer import Authorizer

        return Authorizer(self._on.permissions, self._on.world)

    @cached_property
    def tokens(self) -> Tokens:
        """Delegated permissions that can travel."""
        from turntree.auth.tokens import Tokens

        return Tokens(self._on.permissions, self._on.world, self._on.by)

    @cached_property
    def personas(self) -> Personas:
        """Identities of agents and what they may do."""
        from turntree.auth.personas import Personas

        on = self._on
        return Personas(
            on.permissions, on.ledger, self.sessions, self.revisions, self.authority, on.world,
        )  # fmt: skip

    @cached_property
    def meanings(self) -> Embeddings:
        """Embeddings and similarity."""
        from turntree.search.embeddings import Embeddings

        return Embeddings(self._on.meanings, self.search, self.revisions, self._on.describers)

    @cached_property
    def router(self) -> Router:
        """Where a message goes."""
        from turntree.routing.matching import Matcher
        from turntree.routing.router import Router

        on = self._on
        return Router(Matcher(on.routing, self.search), self.sessions, on.programs, on.by)

    @cached_property
    def runs(self) -> Runs:
        """Running and queued turns."""
        from turntree.runs.live_hub import LiveHub
        from turntree.runs.service import Runs

        on = self._on
        return Runs(
            on.inbox, on.workers, on.ledger, on.threads, self.sessions, on.world, on.by, LiveHub(),
            on.end_here, redactor=on.redactor,
        )  # fmt: skip

    @cached_property
    def contexts(self) -> ModelContexts:
        """What a model saw."""
        from turntree.runs.model_context import ModelContexts
        from turntree.runs.request_resolver import RequestResolver

        on = self._on
        return ModelContexts(
            RequestResolver(self.programs, on.ledger, on.permissions), on.ledger, on.threads
        )

    @cached_property
    def replays(self) -> Replayer:
        """Turns replayed from their events."""
        from turntree.runs.replay import Replayer

        return Replayer(self.contexts, self._on.ledger, self._on.threads)

    async def resolve(self, revision: str) -> ResolvedRevision:
        """Return the turn a revision names; see the revision grammar.

        Raises:
            NotFound: It names nothing.
        """
        return await self.revisions.resolve(revision)

    async def verify(self, revision: str | TurnId = "HEAD") -> VerifyResult:
        """Hash a thread again, from its root to the turn a revision names.

        Raises:
            NotFound: It names nothing.
        """
        return await self.checks.verify((await self.resolve(revision)).turn)

    async def recorder(self, session: str) -> Recorder:
        """Return a recorder that appends turns to a session."""
        return await self.turns.recorder(session)


async def _find_program(on: Backends, name: str) -> Program | None:
    return await on.programs.find(name, by=str(on.by))
