"""The types of ``sync_client``. Generated: ``python -m tests.sync_stub``."""

from collections.abc import Generator, Mapping, Sequence
from types import TracebackType
from typing import Literal, Self, Unpack

from turntree.client.runs import MessageOptions, RunNews
from turntree.core.canonical import Json
from turntree.core.session import SessionStatus
from turntree.wire.accounts import (
    IdentityDocument,
    InvitationDocument,
    KeyDocument,
    LoginDocument,
    MemberDocument,
    NewInvitation,
    NewKey,
)
from turntree.wire.acts import ActResult
from turntree.wire.approvals import ApprovalDocument, ApprovalPage
from turntree.wire.compare import CompareDocument
from turntree.wire.conversations import (
    ConversationDocument,
    MentionSuggestion,
    ParticipantDocument,
    PostDocument,
    PostExplanationDocument,
    PostOutcome,
)
from turntree.wire.costs import CostTable
from turntree.wire.files import BlameDocument, FileContent, FileList, PathDiff
from turntree.wire.inbox import InboxPage, NoticeDocument
from turntree.wire.inspection import CauseList, ContextDocument, PermissionList, RawTurn
from turntree.wire.me import Me
from turntree.wire.runs import QueuedRun, RunDocument, RunPage, RunState, SendPreview, SessionRuns
from turntree.wire.sealed import SealedTurnDocument, SealedView
from turntree.wire.search import SearchPage
from turntree.wire.sessions import SessionDocument, SessionPage, SessionSummary
from turntree.wire.shape import ActivityDocument, PlaceList, RowList, ShapeDocument, SpineDocument
from turntree.wire.sharing import SharedPage
from turntree.wire.tags import TagPage
from turntree.wire.threads import TurnDocument
from turntree.wire.webhooks import (
    DeliveryDocument,
    FiringDocument,
    NewTrigger,
    NewWebhook,
    TriggerDocument,
    WebhookDocument,
)

class _SessionsApi:
    def list_page(
        self,
        *,
        after: str = ...,
        limit: int = ...,
        status: SessionStatus | None = ...,
        project: str | None = ...,
        agent: str | None = ...,
        words: str | None = ...,
        figures: bool = ...,
    ) -> SessionPage:
        """Return a page of sessions, the one that worked last first.

        ``after`` is the ``next`` of the page before. Without a ``status``, archived sessions are
        listed too. ``figures`` counts tokens and costs, which takes the server longer.
        """
    def list_all(self, *, status: SessionStatus | None = ...) -> Generator[SessionSummary]:
        """Yield all sessions, the one that worked last first."""
    def get(self, name: str) -> SessionDocument:
        """Return the session with a label or an alias.

        Raises:
            NotFound: There is none.
        """
    def create(self, label: str, *, key: str | None = ...) -> SessionDocument:
        """Create a session without turns.

        Raises:
            Conflict: The name is taken.
        """
    def fork(self, revision: str, label: str, *, key: str | None = ...) -> SessionDocument:
        """Create a session at a turn; nothing is copied.

        Raises:
            Conflict: The name is taken.
            NotFound: The revision names nothing.
        """
    def rewind(
        self, session: str, revision: str, *, before: bool = ..., expected_head: str | None = ...
    ) -> SessionDocument:
        """Move a session back to an earlier turn, and return it as it is then.

        Raises:
            Conflict: It moved meanwhile, or has another head than was expected.
            InvalidOperation: The turn is not one of its thread.
        """
    def undo(self, session: str, *, expected_head: str | None = ...) -> SessionDocument:
        """Undo the last move of a session, and return it as it is then.

        Raises:
            Conflict: It moved meanwhile, or has another head than was expected.
            InvalidOperation: There is nothing to undo.
        """
    def rename(self, session: str, label: str) -> ActResult:
        """Give a session another label; the old one still leads to it."""
    def set_status(self, session: str, status: SessionStatus) -> ActResult:
        """Archive a session, or restore it from the archive."""

class _TurnsApi:
    def get(self, revision: str) -> TurnDocument:
        """Return the turn that a revision names.

        Raises:
            NotFound: It names nothing.
        """
    def get_text(self, revision: str, message: int, part: int) -> str:
        """Return the whole text of a part of a message, also of one that is cut in a document."""
    def get_raw(self, revision: str) -> RawTurn:
        """Return the bytes of a turn, whose digest proves them, and what it was imported from."""
    def get_sealed(self, revision: str) -> SealedView:
        """Return a turn as it was sealed, with its neighbours; ``read_sealed`` reads its bytes."""
    def list_sealed(self, turns: Sequence[str]) -> tuple[SealedTurnDocument, ...]:
        """Return turns as they were sealed, by their ids; one that is hidden is left out."""
    def tag(self, revision: str, tag: str) -> ActResult:
        """Add a tag to a turn."""
    def untag(self, revision: str, tag: str) -> ActResult:
        """Remove a tag from a turn."""
    def list_tags(
        self, *, tag: str | None = ..., after: str | None = ..., limit: int | None = ...
    ) -> TagPage:
        """Return a page of tags and their turns; ``after`` is the ``next`` of the page before."""
    def share(self, revision: str, *, session: str | None = ...) -> SharedPage:
        """Return a thread as a page for other people, without secrets."""

class _ThreadsApi:
    def page(self, revision: str, *, low: int, high: int) -> tuple[TurnDocument, ...]:
        """Return the turns of a thread from one depth to another, root first."""
    def read(
        self, revision: str, *, last: int | None = ..., first: int | None = ...
    ) -> tuple[TurnDocument, ...]:
        """Return a thread, root first: all of it, its last turns or its first ones.

        Raises:
            NotFound: The revision names nothing.
        """
    def read_sealed(
        self, revision: str, *, last: int | None = ...
    ) -> tuple[SealedTurnDocument, ...]:
        """Return the turns of a thread as they were sealed, the newest first.

        Those of a session include the turns that failed beside its thread.

        Raises:
            NotFound: The revision names nothing.
        """
    def compare(self, left: str, right: str) -> CompareDocument:
        """Return two threads side by side, from where they part."""
    def diff(self, left: str, right: str, path: str) -> PathDiff:
        """Return how a file differs between the ends of two threads."""

class _RunsApi:
    def post(
        self,
        target: str,
        said: str,
        *,
        key: str | None = ...,
        expected_head: str | None = ...,
        **asked: Unpack[MessageOptions],
    ) -> QueuedRun:
        """Send a message and return the run that answers it, at once.

        The same ``key`` sends it once, however often and whenever it is repeated.

        Raises:
            Conflict: The session has another head than was expected.
            NotFound: The target names nothing.
            PermissionDenied: The key may not send there.
        """
    def preview(
        self, target: str, *, model: str | None = ..., agent: str | None = ...
    ) -> SendPreview:
        """Return where a message would go, and what would answer it; nothing is sent.

        Raises:
            NotFound: The target names nothing.
        """
    def list_unfinished(self, session: str) -> SessionRuns:
        """Return the messages of a session that are not answered yet, and the last if it failed.

        Raises:
            NotFound: No such session.
        """
    def get(self, run: str) -> RunDocument:
        """Return what became of a run.

        Raises:
            NotFound: There is no such run, or it is hidden.
        """
    def status(self, run: str) -> RunState:
        """Return the state of a run.

        Raises:
            NotFound: There is no such run, or it is hidden.
        """
    def list_open(
        self, session: str | None = ..., *, after: str | None = ..., limit: int | None = ...
    ) -> RunPage:
        """Return a page of runs that are not finished; ``after`` is the ``next`` before it."""
    def follow(self, of: str, *, after: str = ...) -> Generator[RunNews]:
        """Yield what happens in a run until it is finished, each with a position.

        A stream that is cut resumes after the last message, so that none is missing or doubled.
        A caller that was cut off does the same with ``after``.

        Raises:
            NotFound: There is no such run, or it is hidden.
            ServerUnavailable: The server stays away.
        """
    def wait(self, run: str, *, timeout_s: float | None = ...) -> TurnDocument:
        """Wait until a run is finished, and return its turn, however that ended.

        Raises:
            NotFound: There is no such run, or it is hidden.
            TimeoutError: It took longer than that.
        """
    def ask(
        self,
        target: str,
        said: str,
        *,
        key: str | None = ...,
        timeout_s: float | None = ...,
        **asked: Unpack[MessageOptions],
    ) -> TurnDocument:
        """Send a message, wait for its turn, and return it.

        Raises:
            TurnFailed: The turn failed, or was canceled; the message says why.
            TimeoutError: It took longer than that. The same ``key`` returns the turn later.
        """
    def cancel(self, of: str, *, discard: bool = ...) -> str | None:
        """Ask a run to end; return it, or None if there was nothing to cancel.

        Raises:
            NotFound: There is no such run, or it is hidden.
        """

class _SearchApi:
    def __call__(self, query: str, *, limit: int = ..., after: str | None = ...) -> SearchPage:
        """Return the turns that a query finds, best first; ``after`` continues a page.

        Raises:
            InvalidQuery: The text is not a query.
        """
    def places(self, query: str) -> PlaceList:
        """Return where in the tree the turns are that a query finds."""

class _ShapeApi:
    def read(self, after: str | None = ...) -> ShapeDocument:
        """Return the tree without its texts, or what changed in it after a position."""
    def activity(self, *, zone: str = ...) -> ActivityDocument:
        """Return how many turns each agent took on each day."""
    def spine(self, revision: str) -> SpineDocument:
        """Return a thread by its branch points, ends and compactions."""
    def lines(self, ranges: Sequence[tuple[int, int, int]]) -> RowList:
        """Return turns as lines, by ranges of a segment, its first depth and its last."""
    def lines_of(self, turns: Sequence[str]) -> RowList:
        """Return turns as lines, by their ids."""

class _FilesApi:
    def list_entries(self, revision: str) -> FileList:
        """Return the files that a turn left, with those that it changed."""
    def diff(self, revision: str, path: str) -> PathDiff:
        """Return what a turn changed in a file."""
    def read(self, revision: str, path: str) -> FileContent:
        """Return a file as a turn left it."""
    def blame(self, revision: str, path: str) -> BlameDocument:
        """Return which turn wrote each line of a file."""

class _ContextsApi:
    def read(self, turn: str) -> ContextDocument:
        """Return what the model saw for a turn."""

class _CausesApi:
    def explain(self, turn: str) -> CauseList:
        """Return what led to a turn, step by step."""

class _AuthorityApi:
    def list_of_turn(self, turn: str) -> PermissionList:
        """Return the permissions that a turn was granted, used and was denied."""

class _StatsApi:
    def list_costs(
        self, *, since: str | None = ..., until: str | None = ..., sessions: bool = ...
    ) -> CostTable:
        """Return what model calls used and cost, each call counted once."""

class _InboxApi:
    def list_page(
        self, *, everything: bool = ..., limit: int = ..., cursor: str | None = ...
    ) -> InboxPage:
        """Return notices, newest first: the unread ones, or all."""
    def read(self, ids: Sequence[str] | None = ...) -> tuple[NoticeDocument, ...]:
        """Mark notices as read and return them, oldest first: all, or those of some ids.

        Raises:
            NotFound: There is no unread notice of such an id.
        """

class _ApprovalsApi:
    def list_waiting(
        self,
        *,
        session: str | None = ...,
        mine: bool = ...,
        after: str | None = ...,
        limit: int = ...,
    ) -> ApprovalPage:
        """Return the requests that wait, oldest first.

        ``mine`` leaves out those that the caller may not answer.
        """
    def list_all(
        self,
        *,
        session: str | None = ...,
        mine: bool = ...,
        after: str | None = ...,
        limit: int = ...,
    ) -> ApprovalPage:
        """Return all requests, newest first, with those that were decided."""
    def get(self, id: str) -> ApprovalDocument:
        """Return a request by its id.

        Raises:
            NotFound: There is none of this id, or it is hidden.
        """
    def approve(self, id: str, *, note: str | None = ...) -> ApprovalDocument:
        """Allow a call with its arguments, once, and return the request.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            PermissionDenied: The caller is not a person who is asked.
            InvalidOperation: It was answered already, has expired, or is a question.
        """
    def reject(self, id: str, *, note: str | None = ...) -> ApprovalDocument:
        """Refuse a call or a question; the model reads the note. Returns the request.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            PermissionDenied: The caller is not a person who is asked.
            InvalidOperation: It was answered already, or has expired.
        """
    def edit(
        self, id: str, args: Mapping[str, Json], *, note: str | None = ...
    ) -> ApprovalDocument:
        """Allow a call with other arguments, once, and return the request.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            PermissionDenied: The caller is not a person who is asked.
            InvalidOperation: It was answered already, has expired, or is a question.
        """
    def answer(self, id: str, answer: Json, *, note: str | None = ...) -> ApprovalDocument:
        """Answer a question, and return the request.

        Raises:
            NotFound: There is none of this id, or it is hidden.
            PermissionDenied: The caller is not a person who is asked.
            InvalidOperation: It was answered already, has expired, or is a call.
        """
    def reject_waiting(self, session: str, *, note: str | None = ...) -> int:
        """Reject what a session's run waits for, and end that run; return how many there were.

        Raises:
            NotFound: No such session.
            PermissionDenied: The caller is not asked about one of them.
        """

class _ConversationsApi:
    def create(
        self,
        name: str,
        *,
        title: str | None = ...,
        participants: Sequence[str] = ...,
        visibility: Literal["public", "private"] = ...,
        agent_turns_max: int | None = ...,
        triage: bool = ...,
    ) -> ConversationDocument:
        """Create a conversation; only its participants read a private one.

        With ``triage``, agents may be woken by posts without a mention.

        Raises:
            Conflict: The name is taken.
            NotFound: There is no such agent or member.
            PermissionDenied: An agent may not be used.
        """
    def get(self, name: str) -> ConversationDocument:
        """Return a conversation.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
        """
    def set_state(self, conversation: str, state: str) -> ConversationDocument:
        """Archive or delete a conversation, or make it active again; it stays readable.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
            PermissionDenied: The caller did not create it.
        """
    def set_triage(self, conversation: str, *, on: bool) -> ConversationDocument:
        """Have a triage agent decide who answers posts without a mention, or no longer.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
            PermissionDenied: The caller did not create it.
        """
    def list_all(self, *, archived: bool = ...) -> tuple[ConversationDocument, ...]:
        """Return the conversations that may be read, those with the newest posts first."""
    def post(self, conversation: str, text: str, *, key: str | None = ...) -> PostOutcome:
        """Say something in a conversation, and return at once; a mention wakes an agent.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
            PermissionDenied: The caller does not take part.
            InvalidOperation: The post says nothing or too much, or the conversation is archived.
        """
    def list_posts(
        self, conversation: str, *, after: int = ..., before: int | None = ..., limit: int = ...
    ) -> tuple[PostDocument, ...]:
        """Return the newest posts between two positions, oldest first.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
        """
    def explain(self, conversation: str, number: int) -> PostExplanationDocument:
        """Return a post with what it set in motion: the decision, its scores and the answers.

        Raises:
            NotFound: There is no such conversation, or it is hidden, or no such post.
        """
    def list_pending(self, conversation: str, post: int) -> tuple[str, ...]:
        """Return the runs that are still to answer a person's post, or an answer to it.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
        """
    def suggest(
        self, conversation: str, typed: str = ..., *, limit: int = ...
    ) -> tuple[MentionSuggestion, ...]:
        """Return whom to suggest for a mention, after what is typed of a name.

        Raises:
            NotFound: There is no such conversation, or it is hidden.
        """
    def list_participants(
        self, conversation: str, *, all: bool = ...
    ) -> tuple[ParticipantDocument, ...]:
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

        Raises:
            NotFound: There is no such conversation or participant.
            PermissionDenied: The caller may not remove it.
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
    ) -> ConversationDocument:
        """Fork a conversation at one of its posts, by default the last; nothing is copied.

        Raises:
            NotFound: There is no such conversation or post.
            Conflict: The name is taken.
        """
    def erase(self, conversation: str, post: int, *, reason: str) -> bool:
        """Erase a post for good, also where agents were told of it; False if it was before.

        Raises:
            NotFound: There is no such conversation or post.
            PermissionDenied: The caller neither wrote it nor created the conversation.
            Conflict: An agent is being told of it: try again when its turn has ended.
        """

class _WebhooksApi:
    def create(self, url: str, *, events: Sequence[str] = ...) -> NewWebhook:
        """Return a new webhook with its secret, which is not shown again.

        Raises:
            PermissionDenied: The caller is not a person, or asks for events and is not an admin.
            InvalidOperation: The URL is not one of HTTPS or not public, or a pattern is invalid.
        """
    def list_all(self) -> tuple[WebhookDocument, ...]:
        """Return the webhooks of the caller, or of all if that is an admin."""
    def get(self, id: str) -> WebhookDocument:
        """Return a webhook.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
    def rotate(self, id: str, *, hours: int = ...) -> NewWebhook:
        """Return a webhook with its new secret; for some hours the one before signs too.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
    def pause(self, id: str) -> WebhookDocument:
        """Send nothing until the webhook is resumed.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
    def resume(self, id: str) -> WebhookDocument:
        """Send again, also what has happened meanwhile.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
    def delete(self, id: str) -> WebhookDocument:
        """Delete a webhook and its secrets, and return it as it was.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
    def list_deliveries(
        self, id: str, *, failed: bool = ..., limit: int = ...
    ) -> tuple[DeliveryDocument, ...]:
        """Return the deliveries of one's own webhook, newest first: all, or those given up.

        Raises:
            NotFound: There is no such webhook, or it is another person's.
        """
    def resend(self, delivery: str) -> DeliveryDocument:
        """Send the event of a delivery again that has ended, under the same id.

        Raises:
            NotFound: There is no such delivery, or it is another person's.
            InvalidOperation: It has not ended, or it has notices.
        """

class _TriggersApi:
    def create(
        self,
        name: str,
        target: str,
        *,
        prompt: str = ...,
        allow: Sequence[str] | None = ...,
        secret: str | None = ...,
    ) -> NewTrigger:
        """Return a new trigger with its secret, which is not shown again.

        Raises:
            PermissionDenied: The caller is not a person.
            NotFound: The target names nothing that the caller may read.
            InvalidOperation: The name, the secret or a pattern is invalid.
        """
    def list_all(self) -> tuple[TriggerDocument, ...]:
        """Return the triggers of the caller, or of all if that is an admin."""
    def get(self, id: str) -> TriggerDocument:
        """Return a trigger.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
    def rotate(self, id: str, *, hours: int = ..., secret: str | None = ...) -> NewTrigger:
        """Return a trigger with its new secret; for some hours the one before is accepted too.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
    def pause(self, id: str) -> TriggerDocument:
        """Take no messages until the trigger is resumed.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
    def resume(self, id: str) -> TriggerDocument:
        """Take messages again.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
    def delete(self, id: str) -> TriggerDocument:
        """Delete a trigger and its secrets, and return it as it was.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """
    def list_firings(self, id: str, *, limit: int = ...) -> tuple[FiringDocument, ...]:
        """Return the messages that came in by a trigger, newest first.

        Raises:
            NotFound: There is no such trigger, or it is another person's.
        """

class _MembersApi:
    def list_all(self) -> tuple[MemberDocument, ...]:
        """Return the members in the order in which they got their roles."""
    def add(self, name: str, role: str = ...) -> MemberDocument:
        """Make a person a member.

        Raises:
            PermissionDenied: Only an admin may.
            Conflict: The person is a member already.
        """
    def set_role(self, name: str, role: str) -> MemberDocument:
        """Give a member another role, and return the member.

        Raises:
            PermissionDenied: Only an admin may.
            NotFound: The person is not a member.
            InvalidOperation: The workspace would have no admin.
        """
    def remove(self, name: str) -> None:
        """Remove a member: their keys and login sessions open nothing from now on.

        Raises:
            PermissionDenied: Only an admin may.
            NotFound: The person is not a member.
            InvalidOperation: The workspace would have no admin.
        """

class _InvitationsApi:
    def list_all(self) -> tuple[InvitationDocument, ...]:
        """Return all invitations, also those that have ended.

        Raises:
            PermissionDenied: Only an admin may.
        """
    def create(
        self, invitee: str, role: str = ..., *, expires_in_days: int | None = ...
    ) -> NewInvitation:
        """Return a new invitation with its code, which is shown this once.

        ``invitee`` is the name of a person or an e-mail address. Without ``expires_in_days`` the
        server decides.

        Raises:
            PermissionDenied: Only an admin may.
            InvalidOperation: It is for neither a name nor an address.
        """
    def revoke(self, id: str) -> None:
        """End an invitation that was not accepted.

        Raises:
            PermissionDenied: Only an admin may.
            NotFound: There is no such invitation.
            InvalidOperation: It has ended already.
        """

class _KeysApi:
    def list_all(self) -> tuple[KeyDocument, ...]:
        """Return the caller's keys, or those of all members for an admin."""
    def create(
        self,
        name: str,
        *,
        allow: Sequence[str] | None = ...,
        agent: str | None = ...,
        expires_in_days: int | None = ...,
    ) -> NewKey:
        """Return a new key of the caller, which is shown this once.

        It permits what the caller's own key permits, and with ``allow`` only what one of these
        patterns allows, such as ``action:read``. Without ``expires_in_days`` the server decides.

        Raises:
            PermissionDenied: The caller acts as an agent, or the key may not create others.
            InvalidOperation: The name, the agent's name or a pattern is invalid.
        """
    def revoke(self, id: str, *, reason: str = ...) -> None:
        """Revoke a key: from now on it opens nothing.

        Raises:
            NotFound: There is no such key, or it is another person's.
            InvalidOperation: It was revoked already, or the reason is too long.
        """

class _LoginSessionsApi:
    def list_all(self) -> tuple[LoginDocument, ...]:
        """Return where the caller is logged in, or where all members are for an admin."""
    def end(self, id: str) -> None:
        """End a login session: its browser is logged out.

        Raises:
            NotFound: There is no such session, or it is another person's.
        """

class _IdentitiesApi:
    def list_all(self) -> tuple[IdentityDocument, ...]:
        """Return the caller's linked accounts, or those of all members for an admin."""
    def unlink(self, id: str) -> None:
        """Unlink an account: neither it nor a login session begun with it opens anything.

        Raises:
            NotFound: There is no such account, or it is another person's.
        """

class SyncClient:
    sessions: _SessionsApi
    turns: _TurnsApi
    threads: _ThreadsApi
    runs: _RunsApi
    search: _SearchApi
    shape: _ShapeApi
    files: _FilesApi
    contexts: _ContextsApi
    causes: _CausesApi
    authority: _AuthorityApi
    stats: _StatsApi
    inbox: _InboxApi
    approvals: _ApprovalsApi
    conversations: _ConversationsApi
    webhooks: _WebhooksApi
    triggers: _TriggersApi
    members: _MembersApi
    invitations: _InvitationsApi
    keys: _KeysApi
    login_sessions: _LoginSessionsApi
    identities: _IdentitiesApi
    def __init__(self, url: str, key: str, *, allow_http: bool = ...) -> None:
        """Take the URL of a workspace, as ``https://turntree.example.net/w/team``, and a key.

        Raises:
            InvalidOperation: It is not such a URL, or the key would travel unencrypted to another
                machine; ``allow_http`` permits that.
        """
    def me(self) -> Me:
        """Return whom the key stands for, and which server answers.

        Raises:
            PermissionDenied: The key opens nothing there.
        """
    def ask(
        self,
        target: str,
        said: str,
        *,
        key: str | None = ...,
        timeout_s: float | None = ...,
        **asked: Unpack[MessageOptions],
    ) -> TurnDocument:
        """Send a message, wait for its turn, and return it; see ``runs.ask``."""
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
