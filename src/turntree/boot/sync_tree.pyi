"""The types of ``sync_tree``. Generated: ``python -m tests.sync_stub``."""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import IO, Self, Unpack

from turntree.auth.api_key import ApiKey, VerifiedKey
from turntree.auth.audit import Audit, Fact, FactPage, FactPosition
from turntree.auth.execution_context import ExecutionContext
from turntree.auth.identities.identity import LinkedAccount, ProvenAccount
from turntree.auth.logins.login_session import LoginSession, Method, VerifiedLogin
from turntree.auth.member import Invitation, Member, Role
from turntree.auth.permissions import Decision, Permissions
from turntree.auth.permissions import Right as PermissionsRight
from turntree.auth.persona import Persona
from turntree.auth.persona_fork import PersonaForkDecision
from turntree.auth.token import TokenRecord
from turntree.boot.open import Settings
from turntree.conversations.conversation import Conversation, Participant
from turntree.conversations.post import Post, PostExplanation, PostReceipt
from turntree.conversations.suggestions import MentionCandidate
from turntree.core.canonical import Json
from turntree.core.clock import Clock
from turntree.core.event import Event, FeedPosition, SealedEvent
from turntree.core.ids import (
    Digest,
    Label,
    PlanId,
    ProgramId,
    ResourceId,
    RunId,
    SessionId,
    Timestamp,
    TurnId,
)
from turntree.core.manifest import ManifestEntry
from turntree.core.message import Message, Source
from turntree.core.principal import Principal
from turntree.core.program import Program, ProgramVersion, Right, VersionPin, Visibility
from turntree.core.redaction import Redactor
from turntree.core.ref import ExtRef
from turntree.core.revision import Revision
from turntree.core.run import Caller, RunEvent
from turntree.core.session import AliasReason, Origin, Session, SessionMove, SessionStatus, Spawn
from turntree.core.thread import Comparison, MoveResult, SealResult, ThreadTurn
from turntree.core.turn import SealedTurn
from turntree.core.usage import ModelCall, Usage
from turntree.core.viewer import Sight
from turntree.integrity.findings import ProjectionDiff, Report, VerifyResult, Violation
from turntree.ledger.graph.causes import Cause, Explanation
from turntree.ledger.graph.edge import (
    Edge,
    HistoryEvent,
    LineageStep,
    PolicyChange,
    RecordedMove,
    ResourceHolding,
    SessionOrigin,
    ToolCallLink,
)
from turntree.ledger.recorder import TurnDetails
from turntree.ledger.revisions import ResolvedRevision
from turntree.ledger.shape import Activity, Skeleton, Spine
from turntree.ledger.shape_store import TurnOutline, TurnRange
from turntree.ledger.store import Build
from turntree.ledger.thread_store import ReplyDetails
from turntree.models.provider import Provider
from turntree.notifications.delivery import FailedDelivery
from turntree.notifications.notice import Notice
from turntree.policy.approval import Approval, ForeignCall
from turntree.policy.call import JudgedCall
from turntree.policy.decision import PolicyDecision
from turntree.policy.policies import PolicyTestResult, RecordedDecision
from turntree.policy.policy import Policy, PolicyLane
from turntree.policy.store import PolicyVersion
from turntree.programs.catalog import ProgramReference, VersionRow
from turntree.programs.changes import AddNotice, Change, NextVersion
from turntree.programs.program_kind import ProgramKind
from turntree.programs.service import Spoken
from turntree.resources.blame import AmbiguousChange, CommitBlame, FileBlame
from turntree.resources.commits import Repository
from turntree.resources.driver import HasFiles, ResourceDriver, TakenSnapshot
from turntree.resources.file_diff import FileDiff
from turntree.resources.files import Report as FilesReport
from turntree.resources.plans.fork import Choice, ForkPlan
from turntree.resources.plans.merge import MergeChoices, MergePlan
from turntree.resources.plans.merge_log import MergeOperation
from turntree.resources.plans.plan import PlanState
from turntree.resources.plans.restore import RestoreKind, RestorePlan
from turntree.resources.plans.saga import PlanOutcome
from turntree.resources.resource import (
    AttachMode,
    CallStates,
    FileChange,
    FileEntry,
    Handle,
    Liveness,
    ResolvedTurnSnapshot,
    Resource,
    Snapshot,
)
from turntree.resources.service import PinnedStates
from turntree.resources.worktrees import RemovedWorktree, Worktree
from turntree.routing.route import Candidate, Route
from turntree.routing.target import Overrides, Target
from turntree.runs.answer import Answer
from turntree.runs.inbox import (
    FailedRun,
    OpenRun,
    PendingMessage,
    QueuedMessage,
    RunReport,
    RunStatus,
)
from turntree.runs.live.stream import LiveChunk, StreamPosition
from turntree.runs.model_context import TurnContext
from turntree.runs.replay import ReplayResult
from turntree.runs.request_builder import RequestFrame
from turntree.runs.service import PostOptions
from turntree.sandbox.code import Language
from turntree.search.embedding import EmbeddingStats, EmbedResult, SimilarNode
from turntree.search.results import IndexProgress, SearchPlaces, SearchResult, SnapshotChange
from turntree.search.service import Blame
from turntree.tools.mcp.description import ListedTool
from turntree.transfer.archive import ArchiveReader, BaseTurn, SharedThread
from turntree.transfer.branch import BranchReport
from turntree.transfer.service import ExportResult, ImportResult
from turntree.transfer.service import Report as ServiceReport
from turntree.transfer.share import ThreadArchive
from turntree.triggers.trigger import Firing, IncomingMessage, Trigger
from turntree.webhooks.webhook import Webhook, WebhookDelivery

class _Ledger:
    def seal(
        self,
        sealed: SealedTurn,
        parent: TurnId | None,
        *,
        by: str,
        at: Timestamp,
        session: SessionId | None = ...,
        calls: Sequence[ModelCall] = ...,
        journal: Sequence[SealedEvent] = ...,
        epoch: int | None = ...,
        key: str | None = ...,
    ) -> SealResult:
        """Store a turn, finish its run and advance its session: all or nothing.

        A turn or an idempotency key that is already stored returns its first result and changes
        nothing.

        Raises:
            Conflict: The session's head is no longer ``parent``, or the run was taken over.
            NotFound: No such parent or session.
            InvalidOperation: The turn was built on another parent, or is sealed with another
                digest.
        """
    def seal_at_head(
        self,
        build: Build,
        session: SessionId,
        *,
        by: str,
        at: Timestamp,
        calls: Sequence[ModelCall] = ...,
        key: str | None = ...,
    ) -> tuple[SealResult, SealedTurn]:
        """Lock the session, build a turn after its head and store it: no other writer can
        interleave.

        Raises:
            NotFound: No such session.
        """
    def append(self, recorded: SealedEvent) -> bool:
        """Append an event to any stream, at its position. False if it is already there.

        Raises:
            Conflict: Another event has that position.
        """
    def append_fact(self, fact: RunEvent, *, epoch: int) -> bool:
        """Append an event of an open run, with its message. False if it is already there.

        Raises:
            Conflict: Another event has that position, or the run was taken over.
        """
    def start(self, run: RunId, session: SessionId | None, first: RunEvent) -> int:
        """Start a run with its first event and return the epoch to write under.

        Raises:
            Conflict: The session has another open run.
        """
    def take(self, run: RunId) -> int:
        """Claim a run from a worker that may be dead; return the epoch to write under.

        Raises:
            NotFound: No such run, or it is finished.
        """
    def facts(self, stream: str, *, after: int = ...) -> list[RunEvent]:
        """Return the events of a stream in order, from a position on."""
    def put_object(self, data: bytes) -> Digest:
        """Store bytes under their digest; the same bytes are stored once."""
    def get_object(self, digest: Digest) -> bytes:
        """Return an object's bytes.

        Raises:
            NotFound: No such object.
        """
    def get_objects(self, digests: Collection[Digest]) -> dict[Digest, bytes]:
        """Return several objects, in one statement.

        Raises:
            NotFound: One of them does not exist.
        """
    def find_objects(self, digests: Collection[Digest]) -> dict[Digest, bytes]:
        """Return those of the objects that exist, in one statement."""
    def list_objects(
        self, digests: Sequence[Digest], *, bytes_max: int
    ) -> dict[Digest, tuple[bytes, int]]:
        """Return objects, each with its size; of one larger than ``bytes_max`` the beginning."""

class _Feed:
    def read(
        self, after: FeedPosition = ..., *, limit: int = ...
    ) -> list[tuple[FeedPosition, Event]]:
        """Return the events after a position, in the same order for all readers."""
    def list_visible(self, streams: Sequence[str]) -> set[str]:
        """Return those of some streams whose events the viewer may read."""
    def list_visible_to(
        self, sights: Iterable[Sight], streams: Sequence[str]
    ) -> dict[Sight, frozenset[str]]:
        """Return by viewer those of some streams whose events they may read, none left out.

        Only the system asks: the programs on which that depends may be hidden from others.
        """
    def end(self) -> FeedPosition:
        """Return the position of the last event that ``read`` would return."""

class _GraphStore:
    def list_from(self, node: str) -> list[Edge]:
        """Return the edges that leave a node, by its id."""
    def list_to(self, node: str) -> list[Edge]:
        """Return the edges that arrive at a node, by its id."""
    def list_history(self, run: RunId | TurnId | SessionId) -> list[HistoryEvent]:
        """Return the events of a run, a turn or a session, in order."""
    def list_lineage(self, node: str, *, depth_max: int = ...) -> list[LineageStep]:
        """Return what a node was derived from, and that in turn, nearest first."""
    def list_calls(self, run: RunId | TurnId) -> list[ToolCallLink]:
        """Return the tool calls of a run, each with its result and what it spawned."""
    def list_held(self, at: Timestamp, *, holder: str | None = ...) -> list[ResourceHolding]:
        """Return who owned, mounted or was attached to which resource at a time."""
    def list_policies(self, *, agent: str | None = ...) -> list[PolicyChange]:
        """Return proposed and activated policies, oldest first."""
    def list_ancestry(self, session: SessionId, *, depth_max: int = ...) -> list[SessionOrigin]:
        """Return how a session was created, and the session it came from, nearest first."""
    def find_event(self, node: str) -> tuple[str, str | None] | None:
        """Return the kind of an event, by the id of its node, and who caused it if it says so."""
    def find_recording(self, turn: TurnId) -> RecordedMove | None:
        """Return the move that recorded a turn; None if it was imported."""

class _RevisionResolver:
    def resolve(self, text: str) -> ResolvedRevision:
        """Return the turn that a revision names.

        Raises:
            InvalidRevision: It is not a revision.
            NotFound: It names nothing.
            Ambiguous: It names several turns.
        """
    def resolve_range(self, text: str) -> tuple[TurnId | None, TurnId, bool] | TurnId:
        """Return both ends of a range and whether it is symmetric, or the one turn named.

        Raises:
            InvalidRevision, NotFound, Ambiguous: As ``resolve``.
        """
    def resolve_parsed(self, revision: Revision) -> ResolvedRevision:
        """Return the turn that a parsed revision names."""
    def get_session(self, name: str) -> Session:
        """Return the session that a name, or ``HEAD``, points to.

        Raises:
            NotFound: No such session.
        """

class _Sessions:
    def create(
        self,
        label: str,
        *,
        origin: Origin | None = ...,
        spawn: Spawn | None = ...,
        key: str | None = ...,
        source: TurnId | None = ...,
        visibility: Visibility | None = ...,
    ) -> Session:
        """Create an empty session; one that is made from a private turn is private too.

        So is one in the namespace of a private program. ``visibility`` overrides this.

        Raises:
            Conflict: The name is taken.
        """
    def fork(
        self,
        revision: str | TurnId,
        label: str,
        *,
        spawn: Spawn | None = ...,
        key: str | None = ...,
        source: TurnId | None = ...,
        visibility: Visibility | None = ...,
    ) -> Session:
        """Create a session at any turn; nothing is copied, whatever the depth.

        A fork of something private is private: it has the same owner, and ``by`` may continue it.
        ``visibility`` overrides this, and ``source`` names another turn that it is made from.

        Raises:
            Conflict: The name is taken.
            NotFound: No such turn.
            PermissionDenied: It is to be public, and another principal owns what it is made from.
        """
    def rewind(
        self,
        session: str,
        revision: str | TurnId,
        *,
        before: bool = ...,
        expected_head: TurnId | None = ...,
    ) -> MoveResult:
        """Move a session back to an ancestor of its head. Nothing is deleted.

        With ``before``, the session moves to the parent of that turn, so that even its first turn
        can be taken back.

        Raises:
            InvalidOperation: The turn is not an ancestor.
            Conflict: ``expected_head`` was given and the session has another head; or, with
                ``before``, the session moved meanwhile.
        """
    def replay(
        self, session: str, revision: str | TurnId, *, expected_head: TurnId | None = ...
    ) -> MoveResult:
        """Move a session to any turn.

        Raises:
            Conflict: ``expected_head`` was given and the session has another head.
        """
    def undo(self, session: str, *, expected_head: TurnId | None = ...) -> MoveResult:
        """Revert the newest move that is not reverted yet.

        Raises:
            InvalidOperation: There is nothing to undo.
        """
    def find_free_label(self, label: str) -> str:
        """Return a label that no session has: the given one, else with the first free number.

        Raises:
            InvalidOperation: Too many sessions have that name.
        """
    def get(self, name: str) -> Session:
        """Return a session by label, alias or ``HEAD``.

        Raises:
            NotFound: No such session.
        """
    def get_or_create(self, label: str) -> Session:
        """Return the session of a label or an alias; create it if there is none."""
    def list_all(
        self, *, status: SessionStatus | None = ..., head: TurnId | None = ...
    ) -> Generator[Session]:
        """Yield sessions ordered by label."""
    def rename(self, session: str, label: str, *, reason: AliasReason = ...) -> Session:
        """Give a session another label; the old one stays as an alias."""
    def promote(self, session: str, label: str) -> Session:
        """Rename a session after learning to whom it belongs."""
    def alias(self, session: str, alias: str, *, reason: AliasReason = ...) -> Session:
        """Add an alias to a session."""
    def merge(self, session: str, other: str) -> Session:
        """Merge two sessions that turned out to be one: all names of ``other`` point to
        ``session``.
        """
    def set_status(self, session: str, status: SessionStatus) -> Session:
        """Archive a session, mark it deleted or make it active again. Its turns stay."""
    def list_moves(self, session: str, *, limit: int = ...) -> list[SessionMove]:
        """Return the newest moves of a session, newest first."""

class _Turns:
    def recorder(self, session: str) -> _Recorder:
        """Return a recorder for a session, which is created if it does not exist."""
    def record(
        self,
        session: str,
        query: Sequence[Message],
        reply: Sequence[Message],
        *,
        key: str | None = ...,
        **details: Unpack[TurnDetails],
    ) -> ThreadTurn:
        """Seal an exchange as a session's next turn; see ``Recorder.record``."""
    def get(self, revision: str | TurnId) -> ThreadTurn:
        """Return the turn that a revision names.

        Raises:
            NotFound: It names nothing.
        """
    def restore(self, turns: Sequence[ThreadTurn]) -> tuple[ThreadTurn, ...]:
        """Return the turns with the parts that are stored as objects, for people who read them.

        A part whose object was erased stays a reference. The result is not what was sealed: its
        messages have other digests.
        """
    def list_newest(self, *, limit: int = ..., archived: bool = ...) -> list[ThreadTurn]:
        """Return turns of all sessions, newest first; archived ones only if asked for."""
    def list_children(
        self, revision: str | TurnId, *, after: TurnId | None = ..., limit: int | None = ...
    ) -> list[TurnId]:
        """Return the children of a turn, oldest first.

        With a ``limit`` it is a page of them; the next one comes ``after`` the last of this one.
        """
    def tag(self, revision: str | TurnId, tag: str) -> bool:
        """Add a tag to a turn; return whether it was new.

        Raises:
            InvalidOperation: The tag is empty.
        """
    def untag(self, revision: str | TurnId, tag: str) -> bool:
        """Remove a tag from a turn; return whether it was there."""
    def archive(self, revision: str | TurnId) -> bool:
        """Hide a turn and all that follow it from lists and searches; return whether it was new.

        They stay where they are: every address leads to them, and a session there goes on. It is a
        tag, and takes the right to configure the turn's session, as archiving that one does.
        """
    def unarchive(self, revision: str | TurnId) -> bool:
        """Show an archived turn and those that follow it again; return whether it was archived."""
    def list_archived(self, turns: Sequence[TurnId]) -> set[TurnId]:
        """Return those of some turns that are archived, by themselves or with an ancestor."""
    def find_archive(self, revision: str | TurnId) -> TurnId | None:
        """Return the turn whose archiving hides a turn: itself or an ancestor; None if none does.

        Of several, it is the nearest one.
        """
    def erase(self, revision: str | TurnId, sequence: int, *, reason: str) -> bool:
        """Erase one message permanently; the thread can still be verified."""
    def list_calls(self, turns: Sequence[TurnId]) -> dict[TurnId, list[ModelCall]]:
        """Return the model calls of some turns."""
    def list_replies(self, turns: Sequence[TurnId]) -> dict[TurnId, list[ReplyDetails]]:
        """Return request, latency and situation of each reply; none for turns of other tools."""
    def list_unique_lengths(self, digests: Sequence[Digest]) -> dict[Digest, int]:
        """Return how many hexadecimal digits make each digest unique."""

class _ThreadReader:
    def read(
        self, revision: str | TurnId, *, last: int | None = ..., first: int | None = ...
    ) -> tuple[ThreadTurn, ...]:
        """Return a thread, root first: all of it, its last turns, or its first ones."""
    def page(self, revision: str | TurnId, *, low: int, high: int) -> tuple[ThreadTurn, ...]:
        """Return the turns of a thread between two depths, root first."""
    def read_visible(self, revision: str | TurnId) -> tuple[ThreadTurn, ...]:
        """Return the turns that a context includes: from the newest compaction on, its summary
        first.
        """
    def compare(self, left: str | TurnId, right: str | TurnId) -> Comparison:
        """Return where two threads diverge, and the turns of each after that."""
    def is_ancestor(self, ancestor: str | TurnId, revision: str | TurnId) -> bool:
        """Return whether a turn is the same as another or one of its ancestors."""
    def usage(self, *revisions: str | TurnId) -> tuple[Usage, int]:
        """Return the usage of some threads, each call counted once, and the number of calls."""

class _Shape:
    def read(self, after: str | None = ...) -> Skeleton:
        """Return the skeleton of the tree, or only what changed after a position.

        A viewer from whom something is hidden always gets all that is visible: what is taken from
        a viewer's sight leaves no event that this viewer could read.
        """
    def activity(self, *, zone: str = ...) -> Activity:
        """Return how many turns each agent took a day, and where work paused.

        Raises:
            InvalidOperation: There is no such time zone.
        """
    def lines(self, ranges: Sequence[TurnRange]) -> list[TurnOutline]:
        """Return turns as lines, in the order of their ranges, up to ``LINES_MAX``."""
    def lines_of(self, turns: Sequence[TurnId]) -> list[TurnOutline]:
        """Return some turns as lines; one that does not exist is left out."""
    def spine(self, revision: str) -> Spine:
        """Return a thread with every branch that leaves it.

        Raises:
            NotFound: The revision names nothing.
        """

class _Checks:
    def verify(self, head: TurnId) -> VerifyResult:
        """Hash the stored bytes of a thread from its root to a head.

        Raises:
            NotFound: No such turn.
        """
    def fsck(self, *, full: bool = ..., report: Report = ...) -> list[Violation]:
        """Check the whole workspace against its invariants, and the snapshots that turns refer to.

        Without ``full`` only the lists of folders are hashed.
        """
    def repair_derived(self, *, dry_run: bool) -> list[ProjectionDiff]:
        """Rebuild the projections, and return what changed or would change.

        Damaged or missing files of snapshots are stored again if a resource still has the same
        bytes; only the attempt shows whether it does.

        Raises:
            InvalidOperation: The account does not own the database.
        """

class _Archives:
    def export(self, write: Callable[[bytes], object], report: ServiceReport = ...) -> ExportResult:
        """Write the workspace line by line, as its user sees it at one point in time.

        Raises:
            DatabaseUnavailable: The database does not answer.
        """
    def share(
        self,
        thread: Sequence[ThreadTurn],
        label: str,
        redactor: Redactor,
        *,
        base: BaseTurn | None = ...,
        has_files: bool = ...,
    ) -> ThreadArchive:
        """Return the archive of one thread without its secrets: all of it, or after a base.

        Raises:
            InvalidOperation: What cannot be left out holds a secret, such as a path or a tag.
        """
    def verify(self, file: IO[bytes], report: ServiceReport = ...) -> ArchiveReader:
        """Read an archive and check every digest in it, without storing anything.

        Raises:
            InvalidOperation: It is not an archive, or something in it was changed.
        """
    def load(
        self,
        file: IO[bytes],
        report: ServiceReport = ...,
        *,
        visibility: Visibility | None = ...,
        begins_session: bool = ...,
    ) -> ImportResult:
        """Insert an archive: all of it, or nothing.

        What the ledger has already is skipped, so that it may be repeated. Where both have a
        session or a program, the one with more events wins if they continue the same events. A
        shared thread gets a session of its own, which belongs to the user and has ``visibility``,
        unless the caller has one for it.

        Raises:
            PermissionDenied: The user is a guest, or was removed.
            InvalidOperation: Something in it was changed, or its rows contradict its events.
            Conflict: The ledger has something else under the same name or id.
        """
    def begin_session(self, shared: SharedThread, visibility: Visibility | None) -> Session:
        """Return the session at the head of a shared thread; importing again finds the same one.

        Raises:
            InvalidOperation: Too many sessions have its name.
        """

class _Causes:
    def explain(self, turn: TurnId, *, depth_max: int = ..., limit: int = ...) -> Explanation:
        """Return the causes of a turn, up to ``depth_max`` steps back and ``limit`` causes in all.

        Raises:
            NotFound: No such turn.
        """
    def list_causes(self, placed: ThreadTurn) -> list[Cause]:
        """Return the direct causes of a turn; its origin comes last."""

class _Search:
    def __call__(
        self, query: str, *, limit: int = ..., semantic: bool | None = ..., snippet_chars: int = ...
    ) -> SearchResult:
        """Return the turns that a query finds, best first; see the search grammar.

        ``semantic`` turns semantic search on or off; None uses it if there is an index.

        Raises:
            InvalidQuery: It cannot be parsed, or is empty.
            InvalidOperation: Semantic search was requested and is not available.
        """
    def places(self, query: str) -> SearchPlaces:
        """Return the positions of all turns that a query finds by words, without reading any.

        Raises:
            InvalidQuery: It cannot be parsed, or is empty.
        """
    def fill(
        self,
        *,
        everything: bool = ...,
        turns_max: int | None = ...,
        report: Callable[[IndexProgress], None] = ...,
    ) -> IndexProgress:
        """Add missing turns to the word index, and return the progress.

        The feed says which they are; ``everything`` compares all turns with the index instead.
        """
    def fill_meanings(
        self,
        *,
        everything: bool = ...,
        turns_max: int | None = ...,
        report: Callable[[IndexProgress], None] = ...,
    ) -> IndexProgress:
        """Add missing turns to the semantic index, and return the progress.

        The feed says which they are; ``everything`` compares all turns with the index instead.

        Raises:
            InvalidOperation: There is no embedder, or the database has no pgvector.
            Conflict: Another process is already embedding.
        """
    def filling(self) -> AbstractContextManager[None]:
        """Hold the embedding lock: two processes would do the same work twice.

        Raises:
            Conflict: Another process holds it.
        """
    def embed_turns(
        self,
        *,
        everything: bool = ...,
        turns_max: int | None = ...,
        report: Callable[[IndexProgress], None] = ...,
    ) -> IndexProgress:
        """Do the work of ``fill_meanings``; the caller holds ``filling``.

        Raises:
            InvalidOperation: There is no embedder, or the database has no pgvector.
        """
    def forget(self) -> None:
        """Clear the indexes, so that the next fill rebuilds everything."""
    def blame(
        self, path: str, *, limit: int = ..., changes: Sequence[SnapshotChange] = ...
    ) -> list[Blame]:
        """Return the turns that used a file, newest first.

        ``path`` is a path, the end of one, or a pattern with ``*``. ``changes`` are those that turn
        snapshots show for the same file, whether or not a message mentions them.

        Raises:
            InvalidQuery: The path is empty.
        """

class _Resources:
    def ensure(
        self,
        kind: str,
        place: str,
        *,
        name: str | None = ...,
        session: str | None = ...,
        agent: str | None = ...,
        run: RunId | None = ...,
        mode: AttachMode = ...,
        part_of: ResourceId | None = ...,
        imperative: bool = ...,
    ) -> Resource:
        """Return the resource at a location; register it, and attach it to a session if named.

        A new resource belongs to the agent, the run and the session that are named.

        Raises:
            Unsupported: No driver is installed for this kind.
            NotFound: No such session.
            InvalidOperation: The location is not valid UTF-8.
        """
    def ensure_directory(
        self, path: str, session: str | None = ..., *, name: str | None = ...
    ) -> Resource:
        """Return the resource of a directory, attached to a session if one is named."""
    def get(self, resource: ResourceId) -> Resource:
        """Return a resource.

        Raises:
            NotFound: No such resource.
        """
    def find(self, kind: str, place: str) -> Resource | None:
        """Return the resource at a location on this machine, or None."""
    def list_around(self, path: str) -> list[Resource]:
        """Return the resources that contain an absolute path of this machine, innermost first."""
    def find_last_holder(self, kind: str, places: Sequence[str]) -> tuple[SessionId, str] | None:
        """Return the session that last worked at the first of some locations here, and which."""
    def attach(
        self,
        session: str,
        resource: Resource,
        mode: AttachMode = ...,
        *,
        handle: Handle | None = ...,
    ) -> bool:
        """Attach a resource to a session; False if it was attached already.

        A live connection to it is recorded as its handle.

        Raises:
            NotFound: No such session.
        """
    def detach(self, session: str, resource: Resource) -> bool:
        """Detach a resource from a session; False if it was not attached.

        Raises:
            NotFound: No such session.
        """
    def list_attached(self, session: str) -> list[tuple[Resource, AttachMode]]:
        """Return the resources that a session works on.

        Raises:
            NotFound: No such session.
        """
    def take(self, resource: Resource) -> Snapshot:
        """Take a snapshot of a resource and record it.

        Raises:
            NotFound: The resource does not exist.
            Unsupported: Its driver cannot take snapshots.
        """
    def note(self, resource: Resource, taken: TakenSnapshot) -> Snapshot:
        """Record a snapshot that was taken before, perhaps by another process.

        Raises:
            InvalidOperation: The resource does not support snapshots.
        """
    def pin(
        self,
        turn: TurnId,
        resource: Resource,
        before: TakenSnapshot | None,
        after: TakenSnapshot,
        began_at: Timestamp,
        ended_at: Timestamp,
        mode: AttachMode = ...,
        calls: Sequence[CallStates] = ...,
        late_ms: int | None = ...,
    ) -> bool:
        """Record the snapshots before and after a turn; False if they are recorded already.

        ``calls`` are the states around its tool calls, as far as these were observed. ``late_ms``
        is how long after the turn began the first state was recorded, if files changed meanwhile.

        Raises:
            NotFound: No such turn.
        """
    def pins_of(self, revision: str | TurnId) -> list[ResolvedTurnSnapshot]:
        """Return the turn snapshots of the turn that a revision names.

        Raises:
            NotFound: It names nothing.
        """
    def list_pinned_states(self, kind: str) -> PinnedStates:
        """Return the snapshots that turns refer to, of one kind of reference: ``shadow-tree``."""
    def nearest(self, revision: str | TurnId) -> tuple[ThreadTurn, list[ResolvedTurnSnapshot]]:
        """Return the nearest turn at or above a revision that has snapshots, and these.

        Raises:
            NotFound: None of them has any.
        """
    def pins_along(self, revision: str | TurnId, limit: int = ...) -> list[ResolvedTurnSnapshot]:
        """Return the turn snapshots of a thread's newest turns that have any, newest first.

        Raises:
            NotFound: The revision names nothing.
        """
    def find_heirs(self, turn: TurnId, attached: Sequence[Resource]) -> dict[ResourceId, Resource]:
        """Map every resource of a thread to the one that stands for it now.

        That is one its session works on, or else the one that the thread last worked on.
        """
    def nearest_pins(
        self, turn: TurnId, heirs: Mapping[ResourceId, Resource]
    ) -> dict[ResourceId, ResolvedTurnSnapshot]:
        """Return, for each resource of a session, the nearest turn snapshot at or above a turn."""
    def pins_before(
        self, turn: ThreadTurn, heirs: Mapping[ResourceId, Resource]
    ) -> dict[ResourceId, ResolvedTurnSnapshot]:
        """Return, for each resource of a session, its state when a turn began.

        Where the turn has no snapshot of its own, the state its nearest ancestor left counts. The
        state is in ``after``, as for any turn snapshot.
        """
    def keeper_of(self, resource: Resource) -> ResourceDriver:
        """Return the driver of a resource.

        Raises:
            Unsupported: No driver is installed for its kind.
        """
    def file_keeper_of(self, resource: Resource) -> HasFiles:
        """Return the driver of a resource whose snapshots consist of files.

        Raises:
            Unsupported: They do not.
        """
    def probe(self, resource: Resource) -> Liveness:
        """Check whether a resource exists, and record the result as advice."""

class _Plans:
    def propose_fork(
        self,
        revision: str,
        label: str | None,
        *,
        place: str | Mapping[str, str] | None = ...,
        choices: Mapping[str, Choice] | None = ...,
        before: bool = ...,
        visibility: Visibility | None = ...,
    ) -> ForkPlan:
        """Return what forking a turn would do to each resource; nothing is executed.

        Without a label no session is created, only the copies. With ``before`` everything is as it
        was before the turn. The session inherits the visibility of its source, unless
        ``visibility`` is given.

        Raises:
            NotFound: No such turn, or no resource with a given name.
            Conflict: The label is taken.
            Unsupported: ``snapshot`` was chosen for a resource that cannot be forked.
            InvalidOperation: A choice leaves a resource without a session, or to two.
        """
    def propose_worktree(
        self, revision: str, place: str | None = ..., *, before: bool = ...
    ) -> ForkPlan:
        """Return the plan of a folder with the files that a turn left, and of its session.

        The session is named after the folder. With ``before`` the files are as the turn found them.

        Raises:
            NotFound: No such turn, or no snapshot of its files.
            PathExists: Something exists at the given location.
        """
    def propose_restore(
        self,
        session: str,
        revision: str | None = ...,
        *,
        exact: bool = ...,
        keep_conflicts: bool = ...,
        kind: RestoreKind = ...,
        before: bool = ...,
    ) -> RestorePlan:
        """Return what moving a session with its files would change; nothing is executed.

        With ``before`` the session and its files go back to the state before that turn.

        ``exact`` restores every path, even those that others changed since; ``keep_conflicts``
        leaves paths alone that both sides changed. An undo needs no revision.

        Raises:
            NotFound: No such session or turn, or no turn there has a snapshot.
            InvalidOperation: The turn is not an ancestor, or there is nothing to undo.
        """
    def propose_revert(self, revision: str, choices: MergeChoices = ...) -> MergePlan:
        """Return what taking back a turn's file changes would do; nothing is executed.

        Later turns and other writers' changes stay. What they changed in the same lines is a
        conflict, and ``choices`` decides about it.

        Raises:
            NotFound: No such turn, or no snapshot shows the files before and after it.
        """
    def propose_pick(
        self, revisions: Sequence[str], place: str, choices: MergeChoices = ...
    ) -> MergePlan:
        """Return what applying the file changes of turns in another folder would do.

        Raises:
            NotFound: No such turn, or no snapshot shows the files before and after it.
        """
    def propose_undo(self, resource: ResourceId, choices: MergeChoices = ...) -> MergePlan:
        """Return what undoing the last revert or pick of a resource would do.

        Raises:
            InvalidOperation: There is nothing to undo.
        """
    def propose_redo(self, resource: ResourceId, choices: MergeChoices = ...) -> MergePlan:
        """Return what redoing the revert or pick that was undone last would do.

        Raises:
            InvalidOperation: There is nothing to redo.
        """
    def list_merges(self, resource: ResourceId) -> list[MergeOperation]:
        """Return the reverts and picks that changed a resource, oldest first."""
    def carry_out(self, proposal: ForkPlan | RestorePlan | MergePlan) -> PlanOutcome:
        """Execute a proposal: all of it, or nothing.

        Interrupted plans of other processes are finished first.

        Raises:
            InvalidOperation: There are unresolved conflicts, or something could not be rolled back
                and waits for ``reconcile``.
            Conflict: Another process is working on the same resources.
        """
    def reconcile(self) -> list[PlanOutcome]:
        """Finish every interrupted plan of this machine that no process is executing.

        It decides by the recorded state: a plan with only its commit left is finished, every other
        plan is rolled back.

        Raises:
            InvalidOperation: Something could not be rolled back; the next call tries again.
        """
    def list_open(self) -> list[PlanState]:
        """Return the plans that have not ended, on any machine, oldest first."""
    def count_left(self) -> int:
        """Return how many plans of this machine have not ended; no other machine can end those."""
    def list_newest(self, limit: int = ...) -> list[PlanState]:
        """Return plans, newest first."""
    def get(self, plan: PlanId) -> PlanState:
        """Return a plan and how far it got.

        Raises:
            NotFound: No such plan.
        """

class _Files:
    def list_entries(self, resource: Resource, state: ExtRef) -> list[FileEntry]:
        """Return the entries of a snapshot, directories included, in path order.

        Raises:
            NotFound: The snapshot is not stored here.
        """
    def read(self, resource: Resource, state: ExtRef, path: str) -> bytes:
        """Return a file's bytes in a snapshot.

        Raises:
            NotFound: The snapshot does not exist, or has no such file.
        """
    def keep_present(self, resource: Resource) -> ExtRef:
        """Take a snapshot of the present state to look into it; the ledger does not record it.

        Raises:
            NotFound: The resource does not exist.
        """
    def compare(
        self, resource: Resource, old: ExtRef | None, new: ExtRef | None
    ) -> list[FileChange]:
        """Return how two snapshots differ, path by path; None is an empty one."""
    def diff(
        self,
        resource: Resource,
        old: ExtRef | None,
        new: ExtRef | None,
        *,
        only: Collection[FileChange] | None = ...,
        with_lines: bool = ...,
        report: FilesReport = ...,
    ) -> list[FileDiff]:
        """Return how two snapshots differ, line by line; with ``only``, just these changes.

        Without lines, no file is read.
        """

class _LineBlame:
    def __call__(
        self,
        resource: Resource,
        path: str,
        *,
        at: ResolvedTurnSnapshot | None = ...,
        report: FilesReport = ...,
    ) -> FileBlame:
        """Return the author of each line of a file, as a turn left it or as it is now.

        Raises:
            NotFound: The file does not exist in that snapshot.
            Unsupported: The file is not text, or too large to read line by line.
        """
    def of_commit(
        self,
        repository: Repository,
        commit: str,
        paths: Collection[str],
        *,
        report: FilesReport = ...,
    ) -> CommitBlame:
        """Return the author of each line of some files of a git commit, by what turns wrote.

        Only the words of a line count, so it does not matter what git made of the commits: they may
        be rebased, squashed, amended or picked. Nor does it matter in which of the repository's
        folders a turn worked, or whether a formatter laid the lines out differently.

        Raises:
            NotFound: The commit or a file does not exist, or no turn has a snapshot here.
        """
    def list_changes(
        self, resource: Resource, path: str, *, report: FilesReport = ...
    ) -> list[SnapshotChange]:
        """Return the changes that turns made to a file, found by comparing turn snapshots."""
    def list_doubts(self, pinned: ResolvedTurnSnapshot) -> list[AmbiguousChange]:
        """Return the paths that changed while a turn ran and that another turn may have changed.

        A subagent's changes also count as its parent's: the two are never rivals.
        """
    def list_kin(self, turn: TurnId, others: Sequence[TurnId]) -> frozenset[TurnId]:
        """Return a turn with those of ``others`` that spawned its session or that it spawned."""
    def has_history(self, resource: Resource) -> bool:
        """Return whether any turn has a snapshot of a resource or of the one it was forked from."""

class _Branches:
    def describe(
        self, folder: str = ..., commits: str | None = ..., *, report: FilesReport = ...
    ) -> BranchReport:
        """Return the turns behind a branch of the git repository around a folder.

        ``commits`` is ``BASE..HEAD``; by default the commits since the branch left main, or
        whatever the repository's first branch is called. A turn is behind a branch if it wrote a
        line that the branch adds or changes.

        Raises:
            NotFound: There is no repository, no such commit, or no turn wrote any of it.
            InvalidOperation: There are no commits in between.
        """

class _Worktrees:
    def list_all(self, *, gone: bool = ...) -> list[Worktree]:
        """Return the worktrees of this machine, oldest first; with ``gone``, removed ones too."""
    def get(self, place: str) -> Worktree:
        """Return the worktree at a location.

        Raises:
            NotFound: There is none, or it was not created from a turn.
        """
    def remove(self, place: str, *, force: bool = ...) -> RemovedWorktree:
        """Remove a worktree after storing its last state, and detach its sessions.

        Raises:
            NotFound: There is none, or it was not created from a turn.
            UnsavedChanges: It holds changes without a turn snapshot or files in no snapshot, it is
                not as it was when it was last removed, and ``force`` was not given.
            InvalidOperation: The folder was replaced, or a hidden session works there and ``force``
                was not given. Nothing has changed.
        """
    def restore(self, place: str) -> Worktree:
        """Restore a removed worktree: its last state and its sessions.

        Raises:
            NotFound: None was removed there, or its last snapshot is no longer stored.
            InvalidOperation: Something exists there.
        """
    def find_gone(self, name: str) -> list[str]:
        """Return the locations of removed worktrees with this name."""

class _Programs:
    def configure(self, name: str, members: Mapping[str, Json]) -> Program:
        """Set members of a program's config, each by its path; null removes one.

        Nothing changes if the config stays the same. A session without a config gets one.

        Raises:
            InvalidOperation: The result is not a valid config of its kind.
            PermissionDenied: Only the owner, and principals with configure access, may.
            Conflict: Another process configured it meanwhile.
        """
    def rewrite(self, program: Program, config: Mapping[str, Json]) -> Program:
        """Replace a program's whole config; nothing changes if it is the same.

        Raises:
            InvalidOperation: It is not a valid config of its kind.
            PermissionDenied: Only the owner, and principals with configure access, may.
            Conflict: Another process configured it meanwhile.
        """
    def get(self, name: str) -> Program:
        """Return a program by name, address, id, or by the label of its session.

        Raises:
            NotFound: There is none, or none that this principal may see.
        """
    def find(self, name: str) -> Program | None:
        """Return a program, or None."""
    def list_all(
        self,
        *,
        kind: str | None = ...,
        state: str | None = ...,
        tags: Sequence[str] = ...,
        where: Mapping[str, Json] | None = ...,
    ) -> Generator[Program]:
        """Yield programs in order of their names; deleted ones only if ``state`` asks for them.

        ``where`` gives members of the config by path, each with the value that it has or lists:
        ``{"info_type": "fact", "content/city": "Bern"}``.
        """
    def list_private(self, kind: str) -> list[ProgramId]:
        """Return the private programs of a kind, in no order."""
    def refs_to(self, name: str) -> list[ProgramReference]:
        """Return the programs that refer to a program: "what uses this model?"."""
    def refs_from(self, name: str) -> list[ProgramReference]:
        """Return the programs that a program refers to."""
    def find_last_active(self, acting: Principal) -> Timestamp | None:
        """Return when the last turn by an agent was sealed that you may read; None without one."""
    def list_versions(self, name: str) -> list[VersionRow]:
        """Return every version of a program's config, newest first."""
    def get_version(self, name: str, number: int) -> ProgramVersion:
        """Return a version of a program's config.

        ``shown`` has what this principal may see of it.

        Raises:
            NotFound: There is no such version.
        """
    def pin(self, name: str) -> VersionPin:
        """Return the version that a reference means now, for a turn to record."""
    def grant(self, name: str, grantee: str, right: Right, *, on: bool = ...) -> Program:
        """Grant or revoke a principal's access to a program.

        Raises:
            PermissionDenied: Only the owner may.
        """
    def invite(self, name: str, grantee: str) -> Program:
        """Grant a principal access to see and invoke a private program."""
    def list_grants(self, name: str) -> list[tuple[str, Right]]:
        """Return the access of principals other than the owner."""
    def set_visibility(self, name: str, visibility: Visibility) -> Program:
        """Make a program public to the workspace, or private to its owner and grantees.

        A session without a config gets one, if it becomes private.

        Raises:
            PermissionDenied: Only the owner may.
        """
    def allows(self, program: Program, principal: str, right: Right) -> bool:
        """Whether a principal has access to a program, by ownership, visibility or grant."""
    def state_word(self, state: str) -> str:
        """Return our name of a state, given a synonym."""
    def kind(self, name: str) -> ProgramKind:
        """Return a kind of program.

        Raises:
            NotFound: There is none of this name.
        """
    def commit(self, *changes: Change) -> None:
        """Commit changes together."""
    def beginning(
        self,
        kind: str,
        name: str,
        config: Mapping[str, Json],
        visibility: Visibility,
        owner: Principal,
    ) -> list[Change]:
        """Return the changes that create a program; for a session, also those that create it."""
    def check(
        self,
        made: ProgramKind,
        config: Mapping[str, Json],
        before: Program | None = ...,
        *,
        owner: Principal | None = ...,
    ) -> tuple[dict[str, Json], NextVersion]:
        """Return a config as it is stored, and as the next version.

        Raises:
            InvalidOperation: It is not a config of this kind, or refers to a program that does not
                fit.
            NotFound: A program that it names does not exist.
        """
    def create(
        self,
        kind: str,
        name: str,
        config: Mapping[str, Json],
        *,
        visibility: Visibility = ...,
        owner: Principal | None = ...,
    ) -> Program:
        """Create a program with its first config. For a session the name is its label.

        A task whose config has an assignee is assigned at once.

        Raises:
            InvalidOperation: The config is not valid for this kind, or refers to a program that
                does not fit.
            NotFound: There is no such kind, or a program that is named does not exist.
            Conflict: The name is taken.
            PermissionDenied: The owner is another principal, and only the system may set one.
        """
    def ensure(
        self,
        kind: str,
        name: str,
        config: Mapping[str, Json],
        *,
        visibility: Visibility | None = ...,
    ) -> Program:
        """Return a program that has exactly this config: created, changed, or as it is.

        A program is created once, and a changed config becomes its next version, so a script may
        call this each time it starts, in several processes at once. A member that Turntree filled
        in stays: the only provider that fits a model, the assignee of a task. The visibility of an
        existing program changes only if one is given.

        Raises:
            InvalidOperation: The config is not valid for this kind, or the name belongs to a
                program of another kind.
            NotFound: There is no such kind, or a program that is named does not exist.
            Conflict: The name is taken by a program that this principal may not see.
            PermissionDenied: The config differs, and this principal may not configure it.
        """
    def invoke(
        self,
        name: str,
        request: Mapping[str, Json] | None = ...,
        *,
        hear: Spoken = ...,
        version: Digest | None = ...,
        told: Mapping[str, Json] | None = ...,
    ) -> dict[str, Json]:
        """Invoke a program and return its result; its kind decides what that means.

        A turn that recorded a ``version`` invokes that one. The members of ``told`` are added to
        every event of the invocation.

        Raises:
            ProviderNotConfigured: A model is needed, and none is connected.
            PermissionDenied: This principal may not invoke it.
            InvalidOperation: It cannot be done.
        """
    def assign(self, task: str, agent: str) -> Program:
        """Assign a task to an agent, for which a session is created, or to a human.

        Raises:
            InvalidOperation: The task is being worked on or has ended, or there is no such
                assignee.
        """
    def take_up(self, task: Program) -> Program:
        """Have an agent start a task that was assigned to it; return the agent.

        Raises:
            InvalidOperation: The task has no agent, or the agent is busy with another task or in
                error.
        """
    def is_free(self, agent: Program, task: Program) -> bool:
        """Whether an agent may start a task: it has no other unfinished one."""
    def tell(
        self,
        name: str,
        event: str,
        *,
        right: Right = ...,
        to: str | None = ...,
        sets: Mapping[str, Json] | None = ...,
        more: Mapping[str, Json] | None = ...,
        notice: AddNotice | None = ...,
    ) -> Program:
        """Record an event of a program, with its state change and details, and tell a person.

        Raises:
            InvalidOperation: The lifecycle forbids the change.
            PermissionDenied: This principal may not.
        """
    def move(self, name: str, state: str) -> Program:
        """Change a program's state; a conditional state is reached by an invocation that checks it.

        Raises:
            InvalidOperation: The lifecycle forbids the change, and the message names the allowed
                ones; or the condition is not met, and the message says what is missing.
            PermissionDenied: This principal may not.
        """
    def check_right(self, program: Program, right: Right) -> None:
        """Refuse a principal without the given access.

        Raises:
            PermissionDenied: The principal does not have it.
        """
    def is_own(self, program: Program) -> bool:
        """Whether the user of this process owns a program and wrote all of its versions.

        All of them, because a version inherits members of the one before it.
        """
    def check_folder(self, program: Program) -> None:
        """Refuse the folder of this process to a program that another person wrote.

        Raises:
            PermissionDenied: It is another person's, and the folder is not lent.
        """
    def find_version(self, program: Program, digest: Digest) -> ProgramVersion:
        """Return the version of a program that has a digest.

        Raises:
            NotFound: It never had one.
        """

class _Connectors:
    def list_tools(self, connector: str) -> list[ListedTool]:
        """Return the tools of a connector's server, each compared with what was accepted.

        The server is asked now, so its command may be started.

        Raises:
            NotFound: There is no such connector.
            InvalidOperation: The server cannot be reached, or its command may not run here.
            PermissionDenied: This principal may not configure the connector.
        """
    def accept(self, connector: str, tools: Sequence[str] = ...) -> list[ListedTool]:
        """Accept tools as the server describes them now: those named, or all; return them all.

        Raises:
            NotFound: There is no such connector, or its server has no such tool.
            InvalidOperation: The server cannot be reached, or a tool is excluded by the config.
            PermissionDenied: This principal may not configure the connector.
        """

class _Conversations:
    def create(
        self,
        name: str,
        *,
        title: str | None = ...,
        participants: Sequence[str] = ...,
        visibility: Visibility = ...,
        agent_turns_max: int | None = ...,
        triage: bool = ...,
    ) -> Conversation:
        """Create a conversation; only its participants read a private one.

        With ``triage``, agents may be woken by posts without a mention. ``participants`` are
        people and agents, by name or as ``human:ana`` and ``agent:atlas``. Of a name that a person
        and an agent could have, it is the agent's.

        Raises:
            Conflict: The name is taken.
            NotFound: There is no such agent or member.
            PermissionDenied: An agent may not be used.
        """
    def get(self, name: str) -> Conversation:
        """Return a conversation, by its name or its id.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
        """
    def set_state(self, conversation: str, state: str) -> Conversation:
        """Archive or delete a conversation, or make it active again; it stays readable.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
            PermissionDenied: This principal did not create it.
        """
    def set_triage(self, conversation: str, *, on: bool) -> Conversation:
        """Have a triage agent decide who answers posts without a mention, or no longer.

        What it decides about is said from now on; the posts before stay as they are.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
            PermissionDenied: This principal did not create it.
        """
    def list_all(self, *, archived: bool = ...) -> list[Conversation]:
        """Return the conversations that may be read, those with the newest posts first."""
    def post(self, conversation: str, text: str, *, key: str | None = ...) -> PostReceipt:
        """Say something in a conversation, and return at once; a mention wakes an agent.

        ``@[Atlas](agent:atlas)`` addresses an agent, and brings it in if it does not take part.
        Each agent is told of the posts since it spoke last. ``key`` makes the call safe to repeat.
        What looks like a secret key is removed before anything is stored.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
            PermissionDenied: The author does not take part.
            InvalidOperation: The post says nothing or too much, or the conversation is archived.
        """
    def list_posts(
        self, conversation: str, *, after: int = ..., before: int | None = ..., limit: int = ...
    ) -> list[Post]:
        """Return the newest posts between two positions, oldest first.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
        """
    def find_question(self, turn: TurnId) -> tuple[Conversation, Post] | None:
        """Return the post that a turn answers, with its conversation; None for any other turn."""
    def explain(self, conversation: str, number: int) -> PostExplanation:
        """Return a post with what it set in motion: the decision, its scores and the answers.

        Raises:
            NotFound: There is no such conversation, or it is hidden, or no such post.
        """
    def list_pending(self, conversation: str, post: int) -> list[RunId]:
        """Return the runs that are still to answer a person's post, or an answer to it.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
        """
    def erase(self, conversation: str, post: int, *, reason: str) -> bool:
        """Erase a post for good, also where agents were told of it; False if it was before.

        Its digest and a receipt stay. Its author and the creator of the conversation may do that.

        Raises:
            NotFound: There is no such conversation or post.
            PermissionDenied: This principal is neither.
            Conflict: An agent is being told of it: try again when its turn has ended.
        """
    def suggest(
        self, conversation: str, typed: str = ..., *, limit: int = ...
    ) -> tuple[MentionCandidate, ...]:
        """Return whom to suggest for a mention, after what is typed of a name; the likeliest first.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
        """
    def list_participants(self, conversation: str, *, all: bool = ...) -> list[Participant]:
        """Return who takes part, in the order in which they came; with ``all``, who did too.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
        """
    def add(self, conversation: str, participant: str) -> bool:
        """Add a person or an agent; False if it takes part already.

        Raises:
            NotFound: There is no such conversation, agent or member.
            PermissionDenied: Only participants add others, and only agents that they may invoke.
        """
    def remove(self, conversation: str, participant: str) -> None:
        """Remove a participant, who reads nothing more: no post, no session and no fork.

        The creator removes all others, and a participant themselves, those they added, and agents
        whose owner has not reserved that.

        Raises:
            NotFound: There is no such conversation or participant.
            PermissionDenied: This principal may not remove it.
            InvalidOperation: The creator and system agents stay.
        """
    def leave(self, conversation: str) -> None:
        """Take part no longer.

        Raises:
            NotFound: There is no such conversation.
            InvalidOperation: The creator stays.
        """
    def fork(
        self, conversation: str, *, at: int | None = ..., name: str | None = ...
    ) -> Conversation:
        """Fork a conversation at one of its posts, by default the last; nothing is copied.

        Its agents take part in the fork, each in a session that begins at its last turn up to that
        post. People do not: who may read a fork may also read what it was forked from.

        Raises:
            NotFound: There is no such conversation or post.
            Conflict: The name is taken.
        """

class _Webhooks:
    def create(self, url: str, *, events: Sequence[str] = ...) -> tuple[Webhook, str]:
        """Return a new webhook, and its secret, which is not shown again.

        ``events`` are patterns of event kinds: ``run.failed``, ``session.*`` or ``*``. Without any,
        the webhook is for the notices of the person who makes it.

        Raises:
            PermissionDenied: The acting principal is not a person, or events take an admin.
            InvalidOperation: The URL is not one of HTTPS or not public, or a pattern is invalid.
        """
    def list_all(self) -> list[Webhook]:
        """Return the webhooks of the acting person, or of all if that is an admin."""
    def get(self, id: str) -> Webhook:
        """Return a webhook.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
    def rotate(self, id: str, *, hours: int = ...) -> tuple[Webhook, str]:
        """Return a webhook with its new secret; for some hours the one before signs too.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
            PermissionDenied: It is another person's, and this one is an admin.
        """
    def pause(self, id: str) -> Webhook:
        """Send nothing until the webhook is resumed, and then what has happened meanwhile.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
    def resume(self, id: str) -> Webhook:
        """Send again by a webhook that was paused.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
    def delete(self, id: str) -> Webhook:
        """Delete a webhook and its secrets, and return it as it was; nothing more leaves by it.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
    def list_deliveries(
        self, id: str, *, failed: bool = ..., limit: int = ...
    ) -> list[WebhookDelivery]:
        """Return the deliveries of one's own webhook, newest first: all, or those given up.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
    def resend(self, delivery: str) -> WebhookDelivery:
        """Send the event of a delivery again that has ended, under the same id.

        Raises:
            NotFound: There is no such delivery, or it is another person's.
            InvalidOperation: It has not ended, or it has notices, which leave by themselves.
        """

class _Triggers:
    def create(
        self,
        name: str,
        target: str,
        *,
        prompt: str = ...,
        scopes: Permissions = ...,
        secret: str | None = ...,
    ) -> tuple[Trigger, str]:
        """Return a new trigger, and its secret, which is not shown again.

        ``target`` is an agent, a session or a turn. The trigger permits what ``scopes``, this
        context and the role of its owner all permit. ``secret`` is one that the other system made.

        Raises:
            PermissionDenied: The acting principal is a guest, or not a person.
            NotFound: The target names nothing that the owner may read.
            InvalidOperation: The name, the prompt or the secret is invalid.
        """
    def list_all(self) -> list[Trigger]:
        """Return the triggers of the acting person, or of all if that is an admin."""
    def get(self, id: str) -> Trigger:
        """Return a trigger.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
    def rotate(self, id: str, *, hours: int = ..., secret: str | None = ...) -> tuple[Trigger, str]:
        """Return a trigger with its new secret; for some hours the one before is accepted too.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
            PermissionDenied: It is another person's, and this one is an admin.
        """
    def pause(self, id: str) -> Trigger:
        """Take no messages until the trigger is resumed; senders are refused.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
    def resume(self, id: str) -> Trigger:
        """Take messages again by a trigger that was paused.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
            PermissionDenied: It is another person's, and this one is an admin.
        """
    def delete(self, id: str) -> Trigger:
        """Delete a trigger and its secrets, and return it as it was; what came in stays.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
    def list_firings(self, id: str, *, limit: int = ...) -> list[Firing]:
        """Return the messages that came in by a trigger, newest first.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
    def accept(self, id: str, headers: Mapping[str, str], body: bytes) -> IncomingMessage:
        """Return a message that came in, with the context in which it acts, once it is verified.

        Raises:
            PermissionDenied: There is no such trigger, it is paused, its owner is not a member, or
                the message is not signed by it or not of this time. The sender is told no more.
            InvalidOperation: The body is too long, or not text.
        """
    def fire(self, incoming: IncomingMessage) -> Firing:
        """Post a message that was accepted, once, on the tree of the context in which it acts.

        Raises:
            Conflict: Another message had this id.
            NotFound: The target names nothing that the owner may read any more.
            PermissionDenied: The trigger or its owner may not invoke the target.
        """

class _Inbox:
    def list_page(
        self, *, everything: bool = ..., before: str | None = ..., limit: int = ...
    ) -> list[Notice]:
        """Return notices, newest first: the unread ones, or all.

        ``before`` is the id of the last notice of the page before.
        """
    def count_unread(self) -> int:
        """Return how many notices are unread."""
    def read(self, ids: Sequence[str] | None = ...) -> list[Notice]:
        """Mark notices as read and return them, oldest first: all, or those of some ids.

        The beginning of an id is enough.

        Raises:
            NotFound: There is no unread notice of such an id.
            InvalidOperation: Several ids begin like this.
        """
    def list_failed(self) -> list[FailedDelivery]:
        """Return the channels whose last message to the person was given up."""

class _Authorizer:
    def grant(
        self,
        session: SessionId,
        *,
        context: ExecutionContext | None = ...,
        persona: Digest | None = ...,
    ) -> None:
        """Record the permissions of the acting principal in a session.

        Raises:
            NotFound: No such session.
        """
    def use(
        self,
        session: SessionId,
        wanted: PermissionsRight,
        *,
        context: ExecutionContext | None = ...,
    ) -> Decision:
        """Record that a permission is used in a session, and return once that is durable.

        Raises:
            PermissionDenied: The permission is missing; the denial is recorded too.
            NotFound: No such session.
        """
    def get_credential(
        self, session: SessionId, name: str, *, context: ExecutionContext | None = ...
    ) -> str:
        """Return a credential, after recording its use.

        Raises:
            PermissionDenied: No permission names it.
            NotFound: It is neither in the context nor in the environment.
        """
    def list_of_turn(self, turn: TurnId) -> list[Fact]:
        """Return what one turn was granted, used and was denied; empty if nothing is recorded."""
    def list_facts(
        self, *, session: SessionId | None = ..., after: FactPosition | None = ..., limit: int = ...
    ) -> FactPage:
        """Return a page of permissions granted, used and denied, in one session or in all.

        They come in the order in which their sessions and turns began. The permissions of a turn
        and the tools it used count as one towards ``limit``.

        Raises:
            InvalidOperation: A page has at least one.
        """
    def audit(
        self,
        *,
        session: SessionId | None = ...,
        agent: str | None = ...,
        since: Timestamp | None = ...,
        until: Timestamp | None = ...,
    ) -> Audit:
        """Return permissions granted, used, denied and never used, with the findings."""

class _Members:
    def list_all(self) -> list[Member]:
        """Return the members in the order in which they got their roles.

        Before the first change these are the people who worked in the workspace, the first of
        them as its admin.
        """
    def find_role(self, name: str) -> Role | None:
        """Return the role of a person; None if the person is not a member."""
    def add(self, name: str, role: Role = ...) -> Member:
        """Make a person a member.

        Raises:
            PermissionDenied: Only an admin may; the denial is recorded.
            Conflict: The person is a member already.
        """
    def set_role(self, name: str, role: Role) -> tuple[Member, Role]:
        """Give a member another role; return the member, and the role before.

        Raises:
            PermissionDenied: Only an admin may; the denial is recorded.
            NotFound: The person is not a member.
            InvalidOperation: The workspace would have no admin.
        """
    def remove(self, name: str) -> Role:
        """Remove a member and return the role before. Members may remove themselves.

        Raises:
            PermissionDenied: Only an admin removes others; the denial is recorded.
            NotFound: The person is not a member.
            InvalidOperation: The workspace would have no admin.
        """

class _Invitations:
    def create(
        self, invitee: str, role: Role = ..., *, expires_at: Timestamp
    ) -> tuple[Invitation, str]:
        """Return a new invitation, and its code, which is not stored.

        Raises:
            PermissionDenied: Only an admin may; the denial is recorded.
            InvalidOperation: It is for neither a name nor an address, or has expired already.
        """
    def list_all(self) -> list[Invitation]:
        """Return all invitations, in the order in which they were made; only admins see them.

        Raises:
            PermissionDenied: The context does not permit to manage members.
        """
    def accept(self, text: str) -> Member:
        """Make the acting person a member, as the invitation says; it cannot be used again.

        Raises:
            PermissionDenied: It is not a code, or the invitation is for another person.
            NotFound: There is no such invitation here.
            InvalidOperation: It was accepted or revoked, or has expired.
            Conflict: The person is a member already.
        """
    def find_person(self, text: str) -> str:
        """Return the person for whom an invitation is, as a principal, and do not use it up.

        Raises:
            PermissionDenied: It is not a code.
            NotFound: There is no such invitation here.
        """
    def redeem(self, text: str) -> Member:
        """Make the person a member for whom an invitation is; it cannot be used again.

        For a server, to which a person shows the code and nothing else. An invitation for an
        e-mail address makes a person who is called by that address: a name of their own choice
        could be that of a person who worked here before.

        Raises:
            PermissionDenied: It is not a code.
            NotFound: There is no such invitation here.
            InvalidOperation: It was accepted or revoked, or has expired.
            Conflict: The person is a member already.
        """
    def revoke(self, id: str) -> None:
        """End an invitation that was not accepted.

        Raises:
            PermissionDenied: Only an admin may; the denial is recorded.
            NotFound: There is no such invitation.
            InvalidOperation: It has ended already.
        """

class _ApiKeys:
    def create(
        self,
        name: str,
        *,
        expires_at: Timestamp,
        scopes: Permissions = ...,
        agent: str | None = ...,
    ) -> tuple[ApiKey, str]:
        """Return a new key's record, and the key, which is not stored.

        It permits what its scopes, this context and the role of its holder all permit. The role
        is the one that the holder has when the key is used.

        Raises:
            PermissionDenied: The acting principal is not a member, or not a person.
            InvalidOperation: The name or the agent's is invalid, or it would have expired already.
        """
    def list_all(self) -> list[ApiKey]:
        """Return the keys of the acting person, or of all if that is an admin.

        A context that may not manage keys shows an admin their own only.
        """
    def revoke(self, id: str, *, reason: str = ...) -> None:
        """Revoke a key: from now on it opens nothing.

        Raises:
            NotFound: There is no such key, or it is another person's.
            InvalidOperation: It was revoked already, or the reason is too long.
        """
    def verify(self, text: str) -> VerifiedKey:
        """Return who acts with a key, and what they may do.

        Raises:
            PermissionDenied: It is no key of this workspace, was revoked or has expired, or its
                holder was removed. If its id is known, the denial is recorded.
        """

class _LoginSessions:
    def begin(
        self,
        person: Principal,
        *,
        method: Method,
        verified_at: Timestamp,
        scopes: Permissions = ...,
        key: str | None = ...,
        expires_at: Timestamp | None = ...,
    ) -> tuple[LoginSession, str]:
        """Return a new session's record, and the code for its cookie, which is not stored.

        For a server that has verified who logs in. ``verified_at`` is when it began to: what was
        changed or revoked since then opens nothing.

        Raises:
            PermissionDenied: The person is not a member, or what they logged in with is no longer
                valid.
        """
    def list_all(self) -> list[LoginSession]:
        """Return the open sessions of the acting person, or of all if that is an admin.

        A context that may not manage keys shows an admin their own only.
        """
    def end(self, id: str) -> None:
        """End a session: from now on its cookie opens nothing.

        Raises:
            NotFound: There is no such session, it has ended, or it is another person's.
        """
    def log_out(self, text: str) -> None:
        """End the session whose code this is, if it is one of this workspace."""
    def verify(self, text: str, *, is_use: bool = ...) -> VerifiedLogin:
        """Return who acts in a session, and what they may do.

        Unless ``is_use``, its holder does nothing: a stream asks whether its reader still may.

        Raises:
            PermissionDenied: It is no session of this workspace, has ended or expired, or its
                holder was removed. A wrong code for a known id is recorded.
        """

class _Identities:
    def log_in(self, account: ProvenAccount) -> tuple[LoginSession, str]:
        """Return a new login session's record, and the code for its cookie, which is not stored.

        For a server to which an identity provider has proven who is here. An account that is not
        linked yet accepts an open invitation that names it, and is linked to the new member.

        Raises:
            PermissionDenied: The account is not linked, and no invitation names it.
            Conflict: The person who was invited is a member already, who can link the account.
        """
    def link(self, account: ProvenAccount, login: VerifiedLogin) -> str:
        """Link an account to the holder of a login session, and return its id.

        Raises:
            PermissionDenied: The session has ended or permits less than its holder's role, or the
                account is linked to another member.
        """
    def use_state(self, digest: bytes, *, expires_at: Timestamp) -> bool:
        """Note that the state of a login came back from the provider; False if it did before."""
    def list_all(self) -> list[LinkedAccount]:
        """Return the linked accounts of the acting person, or of all if that is an admin.

        A context that may not manage keys shows an admin their own only.
        """
    def unlink(self, id: str) -> None:
        """Unlink an account: it opens nothing from now on, nor do login sessions begun with it.

        Raises:
            NotFound: There is no such account, or it is another person's.
        """

class _Passwords:
    def set(self, password: str) -> None:
        """Set the password of the acting person.

        Raises:
            PermissionDenied: The person is not an admin.
            InvalidOperation: It is too short or too long, or is not valid text.
        """
    def remove(self) -> bool:
        """Remove the password of the acting person; False if there is none.

        Raises:
            PermissionDenied: The person is not an admin.
        """
    def verify(self, name: str, password: str) -> Principal:
        """Return the person who has a name and a password.

        A name without a password, or of a person who is not an admin, takes as long as a wrong
        password and gets the same words.

        Raises:
            PermissionDenied: The name or the password is wrong. The denial is recorded, without
                the name: a record for known names only would take longer, and so tell them apart.
        """
    def change(self, name: str, current: str, new: str) -> None:
        """Replace a password, for a person who knows it.

        Raises:
            PermissionDenied: The name or the current password is wrong.
            InvalidOperation: The new one is too short or too long, or is the current one.
        """

class _Tokens:
    def issue(
        self, context: ExecutionContext, *, key: bytes, audience: str, expires_at: Timestamp
    ) -> tuple[str, str]:
        """Return a token, and the nonce that revokes it.

        Raises:
            InvalidOperation: The key is too short, or the time is invalid.
        """
    def revoke(self, nonce: str, *, reason: str = ...) -> TokenRecord:
        """Revoke a token, and with it every token made by narrowing it.

        Any principal may revoke a token that this ledger has no record of.

        Raises:
            PermissionDenied: Another principal issued it.
            InvalidOperation: It was revoked already, or this is not a nonce.
        """
    def open(
        self, text: str, *, key: bytes, audience: str, environment: Mapping[str, str] | None = ...
    ) -> ExecutionContext:
        """Return the context of a token, unless it was revoked in this ledger.

        Raises:
            PermissionDenied: The token is not valid, is for another audience, has expired or was
                revoked, or its person was removed from the workspace since it was issued.
        """
    def list_all(
        self, *, after: TokenRecord | None = ..., limit: int | None = ...
    ) -> list[TokenRecord]:
        """Return every token this ledger knows, in order of issue.

        With a ``limit`` it is a page of them; the next one comes ``after`` the last of this one.
        """

class _Personas:
    def pin(
        self, persona: Persona, *, context: ExecutionContext | None = ...
    ) -> tuple[ManifestEntry, ...]:
        """Store a persona, its toolset and effective permissions; return their manifest entries.

        They go into the manifest of every turn that runs under it.
        """
    def decide_fork(
        self,
        revision: str | TurnId,
        persona: Persona,
        *,
        owner_grants: bool = ...,
        confirmed: bool = ...,
        context: ExecutionContext | None = ...,
    ) -> PersonaForkDecision:
        """Return whether a thread may continue under another persona, and why; changes nothing.

        Raises:
            NotFound: No such turn.
        """
    def fork(
        self,
        revision: str | TurnId,
        label: str,
        persona: Persona,
        *,
        owner_grants: bool = ...,
        confirmed: bool = ...,
        context: ExecutionContext | None = ...,
    ) -> Session:
        """Create a session at any turn that continues under another persona.

        Its stream records the change and the reason; its first turn records the version. The
        session, the change and its grants are committed together: no fork is left without its
        persona.

        Raises:
            PermissionDenied: The rules are against it; the message lists every reason.
            InvalidOperation: It needs to be confirmed, or the agent would act on its own behalf.
            Conflict: The label is taken.
            NotFound: No such turn.
        """

class _Embeddings:
    def embed(self, node: str, *, text: str | None = ...) -> EmbedResult:
        """Embed one node: a turn by a revision, anything else by its name or id.

        ``text`` replaces its own text, until it is embedded without one.

        Raises:
            NotFound: It names nothing.
            InvalidOperation: There is no embedder, the node has no text, or the database has no
                pgvector.
        """
    def similar_to_text(
        self, text: str, *, limit: int = ..., kinds: Sequence[str] = ..., tags: Sequence[str] = ...
    ) -> list[SimilarNode]:
        """Return the nodes that are similar to a text, most similar first.

        Raises:
            InvalidQuery: The text is empty.
            InvalidOperation: There is no embedder.
        """
    def similar_to(
        self, node: str, *, limit: int = ..., kinds: Sequence[str] = ..., tags: Sequence[str] = ...
    ) -> list[SimilarNode]:
        """Return the nodes that are similar to a node, most similar first; embeds it if necessary.

        Raises:
            NotFound: It names nothing.
            InvalidOperation: There is no embedder, the node has no text, or the database has no
                pgvector.
        """
    def list_stats(self) -> list[EmbeddingStats]:
        """Return the number of vectors, by embedder and kind."""
    def fill(
        self, *, everything: bool = ..., report: Callable[[IndexProgress], None] = ...
    ) -> IndexProgress:
        """Embed every node without a vector of its current text, and return their number.

        May be stopped at any time: the next call continues.

        Raises:
            InvalidOperation: There is no embedder, or the database has no pgvector.
            Conflict: Another process is already embedding.
        """

class _Router:
    def resolve(
        self,
        target: Target | str = ...,
        text: str = ...,
        *,
        sender: Principal | None = ...,
        overrides: Overrides | None = ...,
        limit: int = ...,
    ) -> Route:
        """Return the route of a message to a target, or to the thread that matches its text.

        Only what ``sender`` may read is considered; None means the principal that opened the tree.

        Raises:
            NotFound: The target names nothing that the sender may read, or no thread matches.
            InvalidQuery: The target is empty, and so is the text.
            InvalidRevision: The target is malformed.
        """
    def locate(self, target: str, text: str, *, sender: Principal | None = ...) -> Route:
        """Return the route of a message; a label that names nothing yet begins a session.

        Raises:
            NotFound: The target names nothing and cannot be the label of a new session.
            InvalidQuery, InvalidRevision: As ``resolve``.
        """
    def suggest_forks(
        self, text: str, *, sender: Principal | None = ..., limit: int = ...
    ) -> tuple[Candidate, ...]:
        """Return where to fork for what a text is about, best first.

        Each candidate names the turn of a thread that the text matches best: a fork there has what
        led to it, and nothing of what was said about other things since.

        Raises:
            NotFound: No thread matches.
            InvalidQuery: The text is empty.
        """
    def begin(self, route: Route, *, key: str | None = ...) -> Route:
        """Create the session that a route lacks, and return the route with it.

        A route to a turn gets a fork, named after a session that holds the turn; the same ``key``
        returns the same fork. Two concurrent calls for a label get the same session.
        """
    def name_session(self, route: Route) -> Label:
        """Return the label that ``begin`` gives to the session of a route, as things are now."""
    def identify(self, channel: str, id: str, entity: str) -> Session:
        """Identify a sender: the channel's session becomes the entity's, under both labels.

        If the entity already has a session, the two are merged into that one, and the channel's
        label becomes its alias. Repeating the call changes nothing.
        """

class _Runs:
    def route(
        self,
        target: str | Target,
        text: str = ...,
        *,
        key: str | None = ...,
        by: Principal | None = ...,
        source: Source | None = ...,
    ) -> Route:
        """Return where a message goes, without storing anything.

        A target is a session's label, any revision of a turn, ``@(atlas)``, ``persona:atlas``, a
        sender (``channel:telegram:42``, ``entity:ana``) or empty: then the text decides. A label
        that does not exist yet begins a session. A message that was sent with the same ``key``
        before goes where it went then. If its ``source`` is a trigger, a webhook, a clock or an
        event, a plain name is first that of an agent, which decides what to do.

        Raises:
            NotFound: The target names nothing that the sender may read, or no thread matches.
            InvalidQuery: The target is empty, and so is the text.
            InvalidRevision: The target is malformed.
        """
    def find_agent(
        self, route: Route, *, named: str | None = ..., by: Principal | None = ...
    ) -> str | None:
        """Return the name of the agent that answers along a route; None if no agent does.

        ``named`` is the agent that the message names; without one, the session decides.

        Raises:
            PermissionDenied: The sender may not invoke the agent.
            NotFound: There is no agent of that name.
            InvalidOperation: What is named is not an agent.
        """
    def post(
        self,
        target: str | Target | Route,
        said: str | Message | Sequence[Message],
        *,
        key: str | None = ...,
        by: Principal | None = ...,
        chain: Sequence[Mapping[str, Json]] | None = ...,
        caller: Caller | None = ...,
        expected_head: TurnId | None = ...,
        **asked: Unpack[PostOptions],
    ) -> QueuedMessage:
        """Queue a message for a target, and return at once; ``route`` says what a target can be.

        A new label begins a session; the address of a turn begins a fork. In a session that
        belongs to an agent, that agent answers, unless the options name another. ``key`` makes the
        call safe to repeat. ``fold`` joins the message to the one before it, unless a run has
        already started with that one, or it was sent by another principal or with other rights.
        Several messages become the query of one turn. What looks like a secret key is removed
        before anything is stored; ``redacted`` of the result counts them. ``caller`` is the tool
        call that sends it, which has a key of its own. With ``expected_head`` the message must
        become the next turn after that one: nothing else may be running or waiting there.

        The rights of the sender travel with the message: no matter which worker answers it, its run
        does no more than they permit. ``by`` sends for another principal, under the links of a
        recorded ``chain``; that never adds to the rights of the one who calls.

        Raises:
            Conflict: The session has another head, or another message comes before this one.
            InvalidOperation: The message is invalid, or the key belongs to another message.
            NotFound: The target names nothing that the sender may read.
            PermissionDenied: The sender may not invoke the agent that answers.
        """
    def ask(
        self,
        target: str | Target | Route,
        said: str | Message | Sequence[Message],
        *,
        key: str | None = ...,
        timeout_s: float | None = ...,
        **asked: Unpack[PostOptions],
    ) -> Answer:
        """Post a message, wait for its turn, and return the answer.

        ``post`` says where it goes. If no worker is running, this process answers. A caller that
        stops waiting loses nothing: the message stays in the inbox, and the same ``key``
        returns its answer later.

        Raises:
            TurnFailed: The turn failed, or was canceled; the message says why.
            ProviderNotConfigured: There is no model that could answer, or it has no provider.
            NoWorker: No worker is running, and this process cannot serve sessions.
            TimeoutError: It took longer than that.
        """
    def post_compaction(
        self, session: str, *, keep: int = ..., focus: str | None = ..., model: str | None = ...
    ) -> QueuedMessage:
        """Queue a compaction of a session, and return at once; see ``compact``.

        Raises:
            InvalidOperation: There is nothing to summarize.
            NotFound: No such session.
        """
    def compact(
        self,
        session: str,
        *,
        keep: int = ...,
        focus: str | None = ...,
        model: str | None = ...,
        timeout_s: float | None = ...,
    ) -> Answer:
        """Have a model summarize a session, and return the answer, whose text is the summary.

        The summary becomes the session's newest turn, a compaction. Later prompts begin with it,
        followed by the last ``keep`` turns before it and all turns after it. The summarized turns
        stay: a model may recall and read them, a fork from before the compaction still has them in
        its prompts, and undoing the session's last move takes the compaction back. ``focus`` says
        what the summary has to keep above all.

        Raises:
            InvalidOperation: There is nothing to summarize.
            NotFound: No such session.
            TurnFailed: The turn failed, or was canceled; the message says why.
            ProviderNotConfigured: There is no model that could answer, or it has no provider.
            NoWorker: No worker is running, and this process cannot serve sessions.
            TimeoutError: It took longer than that.
        """
    def cancel(self, of: str, *, discard: bool = ...) -> RunId | None:
        """Request cancellation of a run; return it, or None if there is nothing to cancel.

        ``of`` is a session, for its open run, or a run's address, which may not have started yet.
        ``discard`` keeps the session's head where it was, even if a tool had been called.

        Raises:
            NotFound: No such session.
        """
    def unpark(self, run: RunId, **data: Json) -> bool:
        """Resume a parked run; False if it is not parked."""
    def wait(self, run: RunId, *, timeout_s: float | None = ...) -> ThreadTurn:
        """Return the turn of a run once it is sealed.

        Raises:
            NotFound: There is no such run, or it is hidden.
            TimeoutError: It took longer than that.
        """
    def follow(
        self, of: str, *, after: StreamPosition | None = ...
    ) -> Generator[LiveChunk | RunEvent]:
        """Yield a run's events and live chunks, from a position on, until it is sealed.

        ``of`` is a run's address, or a session, whose runs are then followed one after the other
        without end. Recorded events come as ``RunEvent``, text in progress as ``LiveChunk``. A
        chunk of kind ``restart`` discards the earlier chunks of the same event.

        A follower that was cut off resumes with ``position_after`` of the last one it got. A run
        that is finished ends at once where nothing is left of it.

        Raises:
            NotFound: No such run or session.
            InvalidOperation: The run has no such position.
        """
    def get(self, run: RunId) -> RunReport:
        """Return what became of a run.

        Raises:
            NotFound: There is no such run, or it is hidden.
        """
    def status(self, run: RunId) -> RunStatus:
        """Return the state of a run; one that has not started is waiting.

        Raises:
            NotFound: There is no such run, or it is hidden.
        """
    def list_open(
        self, session: str | None = ..., *, after: OpenRun | None = ..., limit: int | None = ...
    ) -> list[OpenRun]:
        """Return runs that are open or parked, oldest first.

        With a ``limit`` it is a page of them; the next one comes ``after`` the last of this one.

        Raises:
            NotFound: No such session.
        """
    def list_failed(self, session: str | None = ...) -> list[FailedRun]:
        """Return the failed runs among the newest of a session, oldest first.

        Without a session: of every active session whose head has not moved since.

        Raises:
            NotFound: No such session.
        """
    def list_reasons(self, turns: Sequence[TurnId]) -> dict[TurnId, str]:
        """Return why turns failed; a turn without a recorded reason is absent."""
    def list_waiting(self, session: str) -> list[PendingMessage]:
        """Return a session's messages that are neither started nor canceled.

        Raises:
            NotFound: No such session.
        """
    def find_waiting(self, run: RunId) -> PendingMessage | None:
        """Return the message that a run will start with, or None once it has started."""
    def find_by_key(self, key: str) -> RunId | None:
        """Return the run of the message that was sent with an idempotency key, or None."""
    def begin(self, route: Route, *, key: str | None = ...) -> Route:
        """Create the session or the fork that a route lacks, and return the route with it."""

class _Policies:
    def propose(
        self,
        source: str,
        *,
        language: Language = ...,
        lane: PolicyLane | None = ...,
        agent: str | None = ...,
        notes: str | None = ...,
    ) -> PolicyVersion:
        """Record a policy as a version that is not in force, and return it.

        ``agent`` is the agent whose calls alone it judges.

        Raises:
            PermissionDenied: Only members may propose; the denial is recorded.
            NotFound: There is no such agent.
            InvalidOperation: It has no ``decide``, docstring or test.
        """
    def test(self, policy: Policy) -> list[PolicyTestResult]:
        """Return the results of a policy's tests."""
    def activate(self, number: int, *, agent: str | None = ...) -> PolicyVersion:
        """Put a version in force from now on, for every worker, and return it.

        The policy that was in force before stays in the history and can be activated again; 0 is
        the shipped one.

        Raises:
            PermissionDenied: Only an admin who acts directly may; the denial is recorded.
            NotFound: There is no such version, or no such agent.
            InvalidOperation: One of its tests fails.
        """
    def history(self, *, agent: str | None = ...) -> list[PolicyVersion]:
        """Return all versions, newest first, and the shipped one, which is number 0."""
    def get(self, number: int, *, agent: str | None = ...) -> PolicyVersion:
        """Return a version; 0 is the shipped one.

        Raises:
            NotFound: There is no such version.
        """
    def get_active(self, *, agent: str | None = ...) -> PolicyVersion:
        """Return the version in force: an agent's own, or else that of the workspace."""
    def decide(self, call: JudgedCall) -> PolicyDecision:
        """Return what the policy in force decides about a call; nothing is recorded."""
    def try_on(self, policy: Policy, *, limit: int) -> Generator[RecordedDecision]:
        """Yield what a policy decides about the newest calls of the ledger; nothing is recorded."""

class _Approvals:
    def list_waiting(
        self,
        *,
        session: str | None = ...,
        mine: bool = ...,
        after: str | None = ...,
        limit: int = ...,
    ) -> list[Approval]:
        """Return the requests that wait, oldest first.

        ``mine`` leaves out those that the acting person may not answer. ``after`` is the id of the
        last one of the page before.

        Raises:
            NotFound: No such session.
        """
    def list_all(
        self,
        *,
        session: str | None = ...,
        mine: bool = ...,
        after: str | None = ...,
        limit: int = ...,
    ) -> list[Approval]:
        """Return all requests, newest first, with those that were decided.

        Raises:
            NotFound: No such session.
        """
    def get(self, id: str) -> Approval:
        """Return a request by its id.

        Raises:
            NotFound: There is none of this id, or it is hidden.
        """
    def find(self, start: str | None = ...) -> Approval:
        """Return the waiting request that the beginning or the end of an id names.

        None names the only one that the acting person may answer.

        Raises:
            NotFound: There is none.
            InvalidOperation: It does not wait any more; the message says who answered and when.
            Ambiguous: Several could be meant.
        """
    def of_run(self, run: RunId) -> dict[str, Approval]:
        """Return the newest request about each call of a run."""
    def count_waiting(self) -> int:
        """Return how many requests wait for the acting person."""
    def approve(self, id: str, *, note: str | None = ...) -> Approval:
        """Allow a call with its arguments, once, and return the request.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            PermissionDenied: The acting principal is not a person who is asked.
            InvalidOperation: It was answered already, has expired, or is a question.
        """
    def edit(self, id: str, args: Mapping[str, Json], *, note: str | None = ...) -> Approval:
        """Allow a call with other arguments, once, and return the request.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            PermissionDenied: The acting principal is not a person who is asked.
            InvalidOperation: It was answered already, has expired, or is a question.
        """
    def reject(self, id: str, *, note: str | None = ...) -> Approval:
        """Refuse a call or a question; the model reads the note. Returns the request.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            PermissionDenied: The acting principal is not a person who is asked.
            InvalidOperation: It was answered already, or has expired.
        """
    def answer(self, id: str, answer: Json, *, note: str | None = ...) -> Approval:
        """Answer a question, and return the request.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            PermissionDenied: The acting principal is not a person who is asked.
            InvalidOperation: It was answered already, has expired, or is a call.
        """
    def reject_waiting(self, session: str, *, note: str | None = ...) -> int:
        """Reject what a session's run waits for, and end that run; return how many there were.

        Nothing happens where no run waits.

        Raises:
            NotFound: No such session.
            PermissionDenied: The acting principal is not asked about one of them.
        """
    def request_foreign(self, call: ForeignCall, *, expires_s: int | None = ...) -> Approval:
        """Ask about a call that another coding agent wants to make, and return the request.

        The same key returns the same request for as long as it waits, or is allowed and unused. The
        same id always does.

        Raises:
            PermissionDenied: The acting principal was removed from the workspace.
        """
    def use_foreign(self, id: str, args_digest: Digest) -> bool:
        """Use what was allowed, once; return whether a call with these arguments may be made.

        The arguments are those that were asked about, or those that a person put in their place.
        """
    def wait(self, id: str, *, timeout_s: float | None = ...) -> Approval:
        """Return a request once it does not wait any more.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            TimeoutError: It took longer than that.
        """

class _ModelContexts:
    def read(self, turn: TurnId) -> TurnContext:
        """Return the prompts of a sealed turn.

        Raises:
            NotFound: No such turn.
        """
    def restore(self, placed: ThreadTurn, request: Mapping[str, Json]) -> RequestFrame:
        """Return the frame that the requests of a turn share, from what they recorded.

        Raises:
            NotFound: An object or a turn is gone.
            InvalidOperation: Too little was recorded.
        """

class _Replayer:
    def replay(self, turn: TurnId) -> ReplayResult:
        """Return the result of replaying a turn; nothing leaves the process.

        Raises:
            NotFound: No such turn.
            InvalidOperation: The turn was imported, or one of its messages has been erased.
        """

class _Recorder:
    def record(
        self,
        query: Sequence[Message],
        reply: Sequence[Message],
        *,
        key: str | None = ...,
        strict: bool = ...,
        **details: Unpack[TurnDetails],
    ) -> ThreadTurn:
        """Seal an exchange as the session's next turn and return it.

        What looks like a secret is removed first. With ``strict`` it raises if the session has
        moved since this recorder last saw it. ``key`` makes the call safe to repeat.

        Raises:
            InvalidOperation: The exchange cannot be sealed.
            Conflict: The session moved and ``strict`` is set.
        """

class SyncTree:
    @property
    def ledger(self) -> _Ledger:
        """Turns, events and objects, as stored."""
    @property
    def feed(self) -> _Feed:
        """All events, in commit order."""
    @property
    def edges(self) -> _GraphStore:
        """References between nodes."""
    @property
    def revisions(self) -> _RevisionResolver:
        """Parses and resolves revisions."""
    @property
    def sessions(self) -> _Sessions:
        """Labels with moving heads."""
    @property
    def turns(self) -> _Turns:
        """Record, read and erase turns."""
    @property
    def threads(self) -> _ThreadReader:
        """Turns with their ancestry."""
    @property
    def shape(self) -> _Shape:
        """The whole tree without its texts."""
    @property
    def checks(self) -> _Checks:
        """Verify the ledger and the snapshots."""
    @property
    def archives(self) -> _Archives:
        """The whole workspace as one file, and back."""
    @property
    def causes(self) -> _Causes:
        """What led to a turn."""
    @property
    def search(self) -> _Search:
        """Find turns by their words."""
    @property
    def resources(self) -> _Resources:
        """Resources that turns work on, and their snapshots."""
    @property
    def plans(self) -> _Plans:
        """Forks and moves with files."""
    @property
    def files(self) -> _Files:
        """The files of a snapshot."""
    @property
    def blame(self) -> _LineBlame:
        """Which turn wrote a line."""
    @property
    def branches(self) -> _Branches:
        """The turns behind the commits of a branch."""
    @property
    def worktrees(self) -> _Worktrees:
        """Folders with the files of any turn."""
    @property
    def programs(self) -> _Programs:
        """Everything with an address."""
    @property
    def connectors(self) -> _Connectors:
        """Servers of tools, reached by the Model Context Protocol."""
    @property
    def conversations(self) -> _Conversations:
        """People and agents together."""
    @property
    def webhooks(self) -> _Webhooks:
        """Addresses to which events of the workspace, or notices of a person, leave."""
    @property
    def triggers(self) -> _Triggers:
        """Messages of other systems that come in and act for a person."""
    @property
    def inbox(self) -> _Inbox:
        """What the person who acts was told."""
    @property
    def authority(self) -> _Authorizer:
        """Who may do what."""
    @property
    def members(self) -> _Members:
        """Who belongs to the workspace."""
    @property
    def invitations(self) -> _Invitations:
        """Who was invited to the workspace."""
    @property
    def keys(self) -> _ApiKeys:
        """API keys, with which programs act for a person."""
    @property
    def login_sessions(self) -> _LoginSessions:
        """Browsers in which people have logged in to a server."""
    @property
    def identities(self) -> _Identities:
        """Accounts at identity providers, with which members log in to a server."""
    @property
    def passwords(self) -> _Passwords:
        """Passwords of admins."""
    @property
    def tokens(self) -> _Tokens:
        """Delegated permissions that can travel."""
    @property
    def personas(self) -> _Personas:
        """Identities of agents and what they may do."""
    @property
    def meanings(self) -> _Embeddings:
        """Embeddings and similarity."""
    @property
    def router(self) -> _Router:
        """Where a message goes."""
    @property
    def runs(self) -> _Runs:
        """Running and queued turns."""
    @property
    def policies(self) -> _Policies:
        """What decides about tool calls before they are made."""
    @property
    def approvals(self) -> _Approvals:
        """What waits to be decided by a person."""
    @property
    def contexts(self) -> _ModelContexts:
        """What a model saw."""
    @property
    def replays(self) -> _Replayer:
        """Turns replayed from their events."""
    def ask(
        self,
        target: str | Target | Route,
        said: str | Message | Sequence[Message],
        *,
        key: str | None = ...,
        timeout_s: float | None = ...,
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
    def resolve(self, revision: str) -> ResolvedRevision:
        """Return the turn a revision names; see the revision grammar.

        Raises:
            NotFound: It names nothing.
        """
    def verify(self, revision: str | TurnId = ...) -> VerifyResult:
        """Hash a thread again, from its root to the turn a revision names.

        Raises:
            NotFound: It names nothing.
        """
    def recorder(self, session: str) -> _Recorder:
        """Return a recorder that appends turns to a session."""
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

def open_sync(
    settings: Settings | None = ...,
    *,
    world: Clock | None = ...,
    report: Callable[[str], None] = ...,
    worker: bool = ...,
    tools: Sequence[object] = ...,
    providers: Sequence[Provider] = ...,
    model: str | None = ...,
) -> SyncTree:
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
