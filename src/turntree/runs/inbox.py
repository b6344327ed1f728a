"""The inbox: messages sent to a session and not answered yet, and the runs that answer them.

Every write that gives a session work also wakes it up, in the same transaction, unless it is
already awake: a session has at most one pending wake-up.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from turntree.core.canonical import Json
from turntree.core.errors import Hint
from turntree.core.ids import Digest, Label, RunId, SessionId, Timestamp, TurnId
from turntree.core.message import Message
from turntree.core.thread import ThreadTurn
from turntree.core.value import value


@value
class QueuedMessage:
    """A message that is stored in a session's queue."""

    run: RunId
    """The address of the turn to come; messages that join one turn share that of the first."""
    seq: int
    """Its position among all messages sent to the session."""
    repeated: bool = False
    """The idempotency key was already used: this is the earlier message."""
    redacted: int = 0
    """Number of secret keys that were redacted before the message was stored."""
    label: Label | None = None
    """The label of the session that the message went to."""
    agent: str | None = None
    """The agent that answers it."""
    route: Mapping[str, Json] | None = None
    """How that session was found; None if the message named it."""


@value
class PendingMessage:
    """A message that no run has started with yet."""

    seq: int
    run: RunId
    message: Message
    by: str
    at: Timestamp
    options: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """Options of the sender: ``model``, ``situation``, ``params``, ``fold``, ``agent``."""


@value
class Backlog:
    """The pending messages of one session."""

    session: SessionId
    label: str
    count: int
    since: Timestamp
    """When the oldest one was sent."""


@value
class StartRun:
    """No run is open, and messages are pending: the first, and those that join its turn."""

    messages: tuple[PendingMessage, ...]
    head: TurnId | None
    head_digest: Digest | None
    workspace_path: str | None = None
    """The folder that the session works in, if one is attached."""


@value
class ResumeRun:
    """A run is open, and this worker has taken it over."""

    run: RunId
    epoch: int
    is_canceled: bool


@value
class Idle:
    """Nothing is left to do: the session was marked idle in the same transaction."""


Work = StartRun | ResumeRun | Idle


@value
class OpenRun:
    """A run that is not sealed yet."""

    run: RunId
    session: SessionId
    status: str
    """``open`` or ``parked``."""
    started_at: Timestamp
    worker: str | None
    is_canceled: bool
    parked_reason: str | None = None
    is_discarded: bool = False
    """The cancellation asked that the session's head stay where it is."""
    canceled_by: str | None = None
    failures: int = 0


RunStatus = Literal["waiting", "open", "parked", "finished"]


@value
class RunReport:
    """What became of a run."""

    run: RunId
    status: RunStatus
    """``waiting`` until a worker starts it."""
    turn: ThreadTurn | None = None
    """The turn it became, once it is finished; ``header.outcome`` says how it ended."""
    reason: str = ""
    """Why it is parked, or why it failed."""
    hint: Hint | None = None
    """What helps against a failure."""


@value
class FailedRun:
    """A run that ended without a reply; its turn has the same address."""

    run: RunId
    session: SessionId
    label: str
    at: Timestamp
    reason: str | None
    """The reason in its journal."""
