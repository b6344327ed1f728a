"""The public API: one façade with a facet per noun. It holds no logic of its own.

A facet is created, and its module imported, on first use: a command that lists turns must not pay
for importers, plans and workers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Unpack

from turntree.core.errors import Unsupported
from turntree.core.ids import RunId, TurnId
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING, sight_of

if TYPE_CHECKING:
    from pathlib import Path

    from turntree.auth.api_keys import ApiKeys
    from turntree.auth.authorizer import Authorizer
    from turntree.auth.execution_context import ExecutionContext
    from turntree.auth.identities.service import Identities
    from turntree.auth.invitations import Invitations
    from turntree.auth.logins.passwords import Passwords
    from turntree.auth.logins.service import LoginSessions
    from turntree.auth.members import Members
    from turntree.auth.permissions import Effect
    from turntree.auth.personas import Personas
    from turntree.auth.tokens import Tokens
    from turntree.conversations.service import Conversations
    from turntree.core.canonical import Json
    from turntree.core.clock import Clock, Processes
    from turntree.core.message import Message
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
    from turntree.ledger.sessions import Sessions
    from turntree.ledger.shape import Shape
    from turntree.ledger.store import Ledger
    from turntree.ledger.turns import ThreadReader, Turns
    from turntree.notifications.service import Inbox
    from turntree.policy.call import CallOrigin, JudgedCall
    from turntree.policy.evaluate import Evaluator
    from turntree.policy.policies import Policies
    from turntree.programs.execution_host import LocalFolder
    from turntree.programs.service import InferenceBackend, Programs
    from turntree.resources.blame import LineBlame
    from turntree.resources.files import Files
    from turntree.resources.plans.service import Plans
    from turntree.resources.service import FindKeeper, Resources
    from turntree.resources.worktrees import Worktrees
    from turntree.routing.route import Route
    from turntree.routing.router import Router
    from turntree.routing.target import Target
    from turntree.runs.answer import Answer
    from turntree.runs.approving.approvals import Approvals
    from turntree.runs.engine import Engine
    from turntree.runs.model_context import ModelContexts
    from turntree.runs.replay import Replayer
    from turntree.runs.run_feed import RunFeed
    from turntree.runs.service import PostOptions, Runs
    from turntree.search.embedder import Embedder
    from turntree.search.embeddings import Embeddings
    from turntree.search.service import Search
    from turntree.tools.mcp.reach import ServerReach
    from turntree.tools.mcp.service import Connectors
    from turntree.transfer.branch import Branches
    from turntree.transfer.service import Archives
    from turntree.triggers.service import Triggers
    from turntree.webhooks.service import Webhooks


@value
class Backends:
    """What a tree runs on. A part that takes long to find is a function, called on first use."""

    database: Database
    """As the tree's user sees it. All stores are made from it."""
    clock: Clock
    by: Principal
    """The user, or the agent that acts for the user with a token."""
    current: str | None
    """The session that ``HEAD`` names."""
    redactor: Callable[[], Redactor]
    embedder: Callable[[], Embedder | None]
    engine: Callable[[], Engine]
    execution_host: Callable[[], LocalFolder]
    """Where programs work."""
    find_driver: FindKeeper
    home: Path
    """The data directory."""
    run_feed: Callable[[], RunFeed]
    """The live text of this process and the reader of the feed, which all its trees share."""
    processes: Processes | None = None
    """Tells live processes from dead ones; None asks this machine."""
    inference: InferenceBackend | None = None
    """Asks models; None if no model is available."""
    context: ExecutionContext | None = None
    """The context of a token, which limits what the tree may do; None stands for the user."""
    end_here: Callable[[RunId], bool] = lambda _: False
    """Cancels what this process does for a run, if anything."""
    ensure_served: Callable[[], Awaitable[None]] | None = None
    """Serves sessions in this process unless a worker does; None if this process cannot."""
    owner: Principal | None = None
    """Whose process and folder this is; None if that is ``by``."""
    model: str | None = None
    """The model that answers, unless a message names another."""
    agent_tokens_daily: int | None = None
    """Tokens that agents may use in conversations for one person in a day."""
    server_reach: Callable[[], ServerReach] | None = None
    """Which servers of tools this process may reach, and how; None if it may reach none."""
    webhook_hosts: frozenset[str] = frozenset()
    """Hosts to which webhooks may leave though their addresses are not public."""
    approval_s: int = 7 * 24 * 60 * 60
    """How long a request to a person waits."""
    find_evaluator: Callable[[], Evaluator] | None = None
    """Finds what evaluates policies; None if this process judges no calls."""

    @property
    def everything(self) -> Database:
        """The database with nothing hidden: for indexing, checks, and attributing changes."""
        return self.database.seen_by(EVERYTHING)


class Tree:
    """A workspace's turns and the sessions that point into them."""

    def __init__(self, on: Backends, **facets: Any) -> None:
        """Use the given backends; a facet that is passed in replaces the default one."""
        self._on = on
        self._given = facets
        # A cached property stores its value here, so a facet set here is never created.
        vars(self).update(facets)

    def __dir__(self) -> list[str]:
        """Show people who complete a name what they can use, not what a tree is made of."""
        public = {name for cls in type(self).__mro__[:-1] for name in vars(cls)}
        return sorted(name for name in public - {"with_facets"} if not name.startswith("_"))

    def with_facets(self, **facets: Any) -> Tree:
        """Return a tree on the same backends with some facets replaced."""
        return Tree(self._on, **self._given | facets)

    def act_as(self, context: ExecutionContext) -> Tree:
        """Return the same workspace as another principal sees it, with that principal's rights.

        Connections, the worker and live text are shared, so a server makes one for each request.
        Facets are created on first use. The principal may be of any kind; it does not become the
        owner of this process, so no code runs here because of what it wrote. There is no current
        session: ``HEAD`` names that of the process.

        Raises:
            Unsupported: The tree has parts that were made for one user.
        """
        if own := set(self._given) - {"runs", "programs", "revisions"}:
            raise Unsupported(f"this tree is open for one user: {', '.join(sorted(own))}")
        by = context.principal
        on = replace(
            self._on,
            database=self._on.database.seen_by(sight_of(by)),
            by=by,
            context=context,
            current=None,
            owner=self._on.owner or self._on.by,
        )
        if "runs" in self._given:
            # This process may serve sessions: a run that is canceled then ends here, and at once.
            runs = self._given["runs"]
            on = replace(
                on, model=runs.model, end_here=runs.end_here, ensure_served=runs.ensure_served
            )
        tree = Tree(on)
        if on.inference is not None:
            # Its messages are sent by this principal, and not by the one who opened the tree.
            tree._on = replace(on, inference=on.inference.with_runs(lambda: tree.runs))
        if "revisions" in self._given:
            abbreviates = self._given["revisions"].abbreviates
            return tree.with_facets(revisions=replace(tree.revisions, abbreviates=abbreviates))
        return tree

    @cached_property
    def ledger(self) -> Ledger:
        """Turns, events and objects, as stored."""
        from turntree.ledger.store import Ledger

        return Ledger(self._on.database)

    @cached_property
    def feed(self) -> Feed:
        """All events, in commit order."""
        from turntree.ledger.feed import Feed

        return Feed(self._on.database)

    @cached_property
    def edges(self) -> GraphStore:
        """References between nodes."""
        from turntree.ledger.graph.store import GraphStore

        return GraphStore(self._on.database)

    @cached_property
    def revisions(self) -> RevisionResolver:
        """Parses and resolves revisions."""
        from turntree.ledger.revisions import RevisionResolver
        from turntree.ledger.session_store import ReflogStore, SessionStore
        from turntree.ledger.thread_store import ThreadStore, TurnIndex

        on, db = self._on, self._on.database
        return RevisionResolver(
            SessionStore(db), ReflogStore(db), ThreadStore(db), TurnIndex(db), on.clock, on.current,
            partial(_find_program, on),
        )  # fmt: skip

    @cached_property
    def sessions(self) -> Sessions:
        """Labels with moving heads."""
        from turntree.ledger.sessions import Sessions

        on, revisions = self._on, self.revisions
        return Sessions(revisions.sessions, revisions.reflog, revisions, on.clock, on.by)

    @cached_property
    def turns(self) -> Turns:
        """Record, read and erase turns."""
        from turntree.ledger.store import Tags
        from turntree.ledger.turns import Turns

        on, revisions = self._on, self.revisions
        return Turns(
            self.ledger, Tags(on.database), revisions.threads, revisions.index, revisions,
            self.sessions, on.clock, on.by, on.redactor(),
        )  # fmt: skip

    @cached_property
    def threads(self) -> ThreadReader:
        """Turns with their ancestry."""
        from turntree.ledger.turns import ThreadReader

        return ThreadReader(self.revisions.threads, self.revisions.index, self.revisions)

    @cached_property
    def shape(self) -> Shape:
        """The whole tree without its texts."""
        from turntree.ledger.shape import Shape
        from turntree.ledger.shape_store import ShapeStore

        return Shape(ShapeStore(self._on.database), self.revisions)

    @cached_property
    def checks(self) -> Checks:
        """Verify the ledger and the snapshots."""
        from turntree.integrity.service import Checks
        from turntree.resources.store import ResourceStore

        # Resources that only private sessions work on are checked too.
        everything = self._on.everything
        return Checks(everything, replace(self.resources, ledger=ResourceStore(everything)))

    @cached_property
    def archives(self) -> Archives:
        """The whole workspace as one file, and back."""
        from turntree.transfer.service import Archives

        return Archives(self._on.database, self._on.home, self.resources, self.members.store)

    @cached_property
    def causes(self) -> Causes:
        """What led to a turn."""
        from turntree.ledger.graph.causes import Causes

        return Causes(self.edges, self.revisions.threads, self.revisions.sessions)

    @cached_property
    def search(self) -> Search:
        """Find turns by their words."""
        from turntree.search.index_store import IndexStore
        from turntree.search.service import Search
        from turntree.search.store import SearchStore

        on = self._on
        return Search(SearchStore(on.database), IndexStore(on.everything), on.clock, on.embedder())

    @cached_property
    def resources(self) -> Resources:
        """Resources that turns work on, and their snapshots."""
        import platform

        from turntree.resources.service import Resources
        from turntree.resources.store import (
            AttachmentStore,
            LeaseStore,
            ResourceStore,
            TurnSnapshotStore,
        )

        on, db = self._on, self._on.database
        return Resources(
            ResourceStore(db), AttachmentStore(db), TurnSnapshotStore(db),
            TurnSnapshotStore(on.everything), LeaseStore(db), on.find_driver, platform.node(),
            self.revisions.threads, self.revisions, self.sessions, on.clock, on.by,
        )  # fmt: skip

    @cached_property
    def plans(self) -> Plans:
        """Forks and moves with files."""
        from turntree.resources.plans.fork import ForkProposer
        from turntree.resources.plans.merge import MergeProposer
        from turntree.resources.plans.restore import RestoreProposer
        from turntree.resources.plans.saga import PlanRunner
        from turntree.resources.plans.service import Plans
        from turntree.resources.plans.step_executor import StepExecutor
        from turntree.resources.plans.store import PlanStore
        from turntree.system.processes import SystemProcesses

        on, resources, plans = self._on, self.resources, PlanStore(self._on.database)
        steps = StepExecutor(
            resources.ledger, resources.attachments, self.ledger, on.find_driver, resources.host,
            on.clock,
        )  # fmt: skip
        saga = PlanRunner(
            plans, resources.advice, steps, on.processes or SystemProcesses(), on.clock
        )
        restores = RestoreProposer(resources, plans, steps)
        merges = MergeProposer(resources, plans, steps, self.blame)
        return Plans(plans, saga, ForkProposer(resources), restores, merges)

    @cached_property
    def files(self) -> Files:
        """The files of a snapshot."""
        from turntree.resources.files import Files

        return Files(self.resources)

    @cached_property
    def blame(self) -> LineBlame:
        """Which turn wrote a line."""
        from turntree.resources.blame import LineBlame

        return LineBlame(self.resources, self.files, self._on.clock)

    @cached_property
    def branches(self) -> Branches:
        """The turns behind the commits of a branch."""
        from turntree.transcripts.store import ImportStore
        from turntree.transfer.branch import Branches

        # What a user keeps at home is one decision, and what leaves the machine is another.
        redactor = replace(self._on.redactor(), is_on=True)
        return Branches(self.blame, self.turns, ImportStore(self._on.database), redactor)

    @cached_property
    def worktrees(self) -> Worktrees:
        """Folders with the files of any turn."""
        from turntree.resources.worktrees import Worktrees

        return Worktrees(self.resources, self.files)

    @cached_property
    def programs(self) -> Programs:
        """Everything with an address."""
        from turntree.programs.installed_kinds import InstalledKinds
        from turntree.programs.service import Programs
        from turntree.programs.store import ProgramStore

        on = self._on
        return Programs(
            ProgramStore(on.database), InstalledKinds(), self.revisions.sessions, on.clock, on.by,
            on.execution_host(), on.inference, on.owner or on.by, on.context,
        )  # fmt: skip

    @cached_property
    def connectors(self) -> Connectors:
        """Servers of tools, reached by the Model Context Protocol."""
        from turntree.tools.mcp.service import Connectors

        if self._on.server_reach is None:
            raise Unsupported("this tree reaches no tool servers")
        return Connectors(self.programs, self._on.server_reach)

    @cached_property
    def conversations(self) -> Conversations:
        """People and agents together."""
        from turntree.conversations.poster import Poster
        from turntree.conversations.service import Conversations
        from turntree.conversations.store import ConversationStore

        on = self._on
        poster = Poster(
            ConversationStore(on.database), self.ledger, on.clock, on.model, on.agent_tokens_daily
        )
        return Conversations(poster, self.programs, on.engine(), on.by, on.redactor(), on.context)

    @cached_property
    def webhooks(self) -> Webhooks:
        """Addresses to which events of the workspace, or notices of a person, leave."""
        from turntree.webhooks.service import Webhooks
        from turntree.webhooks.store import WebhookStore

        on = self._on
        return Webhooks(
            WebhookStore(on.database), self.members.store, on.clock, self.authority.own,
            on.webhook_hosts,
        )  # fmt: skip

    @cached_property
    def triggers(self) -> Triggers:
        """Messages of other systems that come in and act for a person."""
        from turntree.triggers.service import Triggers
        from turntree.triggers.store import TriggerStore

        on = self._on
        return Triggers(
            TriggerStore(on.database), self.members.store, self.runs, on.clock, self.authority.own
        )

    @cached_property
    def inbox(self) -> Inbox:
        """What the person who acts was told."""
        from turntree.notifications.service import Inbox
        from turntree.notifications.store import NoticeStore

        return Inbox(NoticeStore(self._on.database), self._on.clock, self._on.by)

    @cached_property
    def authority(self) -> Authorizer:
        """Who may do what."""
        from turntree.auth.authorizer import Authorizer
        from turntree.auth.execution_context import ExecutionContext
        from turntree.auth.store import PermissionStore

        on = self._on
        own = on.context or ExecutionContext.begin(on.by)
        return Authorizer(PermissionStore(on.database), on.clock, own)

    @cached_property
    def members(self) -> Members:
        """Who belongs to the workspace."""
        from turntree.auth.member_store import MemberStore
        from turntree.auth.members import Members

        on = self._on
        founder = (on.owner or on.by).person
        store = MemberStore(on.database, "" if founder is None else str(founder))
        return Members(store, on.clock, self.authority.own)

    @cached_property
    def invitations(self) -> Invitations:
        """Who was invited to the workspace."""
        from turntree.auth.invitations import Invitations

        return Invitations(self.members.store, self._on.clock, self.authority.own)

    @cached_property
    def keys(self) -> ApiKeys:
        """API keys, with which programs act for a person."""
        from turntree.auth.api_keys import ApiKeys

        return ApiKeys(self.members.store, self._on.clock, self.authority.own)

    @cached_property
    def login_sessions(self) -> LoginSessions:
        """Browsers in which people have logged in to a server."""
        from turntree.auth.logins.service import LoginSessions
        from turntree.auth.logins.store import LoginStore

        return LoginSessions(
            LoginStore(self._on.database), self.members.store, self._on.clock, self.authority.own
        )

    @cached_property
    def identities(self) -> Identities:
        """Accounts at identity providers, with which members log in to a server."""
        from turntree.auth.identities.service import Identities
        from turntree.auth.identities.store import IdentityStore

        return Identities(
            IdentityStore(self._on.database), self.members.store, self._on.clock, self.authority.own
        )

    @cached_property
    def passwords(self) -> Passwords:
        """Passwords of admins."""
        from turntree.auth.logins.passwords import Passwords

        return Passwords(self.members.store, self._on.clock, self.authority.own)

    @cached_property
    def tokens(self) -> Tokens:
        """Delegated permissions that can travel."""
        from turntree.auth.store import PermissionStore
        from turntree.auth.tokens import Tokens

        return Tokens(PermissionStore(self._on.database), self._on.clock, self._on.by)

    @cached_property
    def personas(self) -> Personas:
        """Identities of agents and what they may do."""
        from turntree.auth.personas import Personas

        return Personas(
            self.authority.permissions, self.ledger, self.sessions, self.revisions, self.authority,
            self._on.clock,
        )  # fmt: skip

    @cached_property
    def meanings(self) -> Embeddings:
        """Embeddings and similarity."""
        from turntree.routing.store import ProgramTexts
        from turntree.search.embedding_store import EmbeddingStore
        from turntree.search.embeddings import Embeddings

        on = self._on
        texts = ProgramTexts(on.database, str(on.by))
        return Embeddings(EmbeddingStore(on.database), self.search, self.revisions, (texts,))

    @cached_property
    def router(self) -> Router:
        """Where a message goes."""
        from turntree.programs.store import ProgramStore
        from turntree.routing.matching import Matcher
        from turntree.routing.router import Router
        from turntree.routing.store import RoutingStore

        on = self._on
        matcher = Matcher(RoutingStore(on.database), self.search)
        return Router(matcher, self.sessions, ProgramStore(on.database), on.by)

    @cached_property
    def runs(self) -> Runs:
        """Running and queued turns."""
        from turntree.runs.inbox_store import InboxStore
        from turntree.runs.service import Runs
        from turntree.runs.worker_store import WorkerStore

        on, db, engine = self._on, self._on.database, self._on.engine()
        feed = on.run_feed()
        return Runs(
            InboxStore(db, engine), WorkerStore(db, engine), self.ledger, self.revisions.threads,
            self.sessions, on.clock, on.by, feed.hub, lambda: self.router, on.end_here,
            redactor=on.redactor(), ensure_served=on.ensure_served, model=on.model,
            context=on.context, feed=feed,
        )  # fmt: skip

    @cached_property
    def policies(self) -> Policies:
        """What decides about tool calls before they are made."""
        from turntree.policy.policies import Policies
        from turntree.policy.store import PolicyStore
        from turntree.runs.judging.recorded_tool_calls import RecordedToolCalls

        on = self._on
        if on.find_evaluator is None:
            raise Unsupported("no policy can be evaluated in this process")
        recorded = RecordedToolCalls(on.database, self.ledger, _describe_foreign)
        return Policies(
            PolicyStore(on.database), self.members.store, on.clock, self.authority.own,
            self.programs, on.find_evaluator, recorded.read,
        )  # fmt: skip

    @cached_property
    def approvals(self) -> Approvals:
        """What waits to be decided by a person."""
        from turntree.runs.approving.approval_store import ApprovalStore
        from turntree.runs.approving.approvals import Approvals

        on = self._on
        return Approvals(
            ApprovalStore(on.database, on.engine()), self.members.store, self.sessions, on.clock,
            self.authority.own, on.approval_s,
        )  # fmt: skip

    @cached_property
    def contexts(self) -> ModelContexts:
        """What a model saw."""
        from turntree.runs.model_context import ModelContexts
        from turntree.runs.request_resolver import RequestResolver

        threads = self.revisions.threads
        resolver = RequestResolver(self.programs, self.ledger, threads)
        return ModelContexts(resolver, self.ledger, threads)

    @cached_property
    def replays(self) -> Replayer:
        """Turns replayed from their events."""
        from turntree.runs.replay import Replayer

        return Replayer(self.contexts, self.ledger, self.revisions.threads)

    async def ask(
        self,
        target: str | Target | Route,
        said: str | Message | Sequence[Message],
        *,
        key: str | None = None,
        timeout_s: float | None = None,
        **asked: Unpack[PostOptions],
    ) -> Answer:
        """Post a message, wait for its turn, and return the answer.

        A target is a session, which is created if needed, any turn, which is forked, an agent
        (``@(atlas)``), a sender, or empty: then the text decides. If no worker is running, this
        process answers. A caller that stops waiting loses nothing: the message stays in the inbox,
        and the same ``key`` returns its answer later.

        Raises:
            TurnFailed: The turn failed, or was canceled; the message says why.
            ProviderNotConfigured: There is no model that could answer, or it has no provider.
            NoWorker: No worker is running, and this process cannot serve sessions.
            TimeoutError: It took longer than that.
        """
        return await self.runs.ask(target, said, key=key, timeout_s=timeout_s, **asked)

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


def _describe_foreign(
    origin: str, tool: str, args: Json, folder: str | None, context: Sequence[Effect]
) -> JudgedCall:
    """Return a recorded call of another coding agent as its hook would have described it."""
    from turntree.hooks.foreign_call import read_call
    from turntree.policy.call import JudgedCall

    if origin not in ("claude-code", "codex"):
        return JudgedCall(tool, args, None, origin, folder=folder, context_effects=tuple(context))
    told = {"tool_name": tool, "tool_input": args, "session_id": "", "cwd": folder or "/"}
    kind: CallOrigin = "claude-code" if origin == "claude-code" else "codex"
    return read_call(kind, told, folder, None, context).call


async def _find_program(on: Backends, name: str) -> Program | None:
    from turntree.programs.store import ProgramStore

    return await ProgramStore(on.database).find(name, by=str(on.by))
