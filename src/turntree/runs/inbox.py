"""The inbox: messages sent to a session and not answered yet, and the runs that answer them.

Every write that gives a session work also wakes it up, in the same transaction, unless it is
already awake: a session has at most one pending wake-up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol

from turntree.core.canonical import Json
from turntree.core.ids import Digest, RunId, SessionId, Timestamp, TurnId
from turntree.core.message import Message
from turntree.core.run import RunEvent
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


class Inbox(Protocol):
    """Pending messages, and the runs that answer them."""

    async def post(
        self,
        session: SessionId,
        message: Message,
        *rest: Message,
        by: str,
        at: Timestamp,
        key: str | None = None,
        options: Mapping[str, Json] | None = None,
    ) -> QueuedMessage:
        """Queue a message, with others that belong to the same turn, and wake its session.

        Idempotency keys of messages and of turns are separate namespaces.

        Raises:
            NotFound: No such session.
            InvalidOperation: The key belongs to another message or another session.
        """
        ...

    async def next_work(self, session: SessionId, *, worker: str) -> Work:
        """Return the next work of a session; take over an open run that is not parked.

        Returns ``Idle`` if another worker that holds a lease serves the session.
        """
        ...

    async def begin(
        self,
        run: RunId,
        session: SessionId,
        facts: Sequence[RunEvent],
        messages: Sequence[int],
        *,
        worker: str,
    ) -> int:
        """Start a run with its first events, claim its messages, and return its epoch.

        Raises:
            Conflict: The session has another open run, or another worker claimed one of the
            messages.
        """
        ...

    async def append_facts(self, facts: Sequence[RunEvent], *, epoch: int) -> bool:
        """Append events to an open run in one transaction; False if they were already recorded.

        A ``run.parked`` event also parks the run.

        Raises:
            Canceled: The run was canceled, and one of the events announces a side effect.
            Conflict: Another event has one of these positions, or the run was taken over.
        """
        ...

    async def unpark(self, run: RunId, *, by: str, at: Timestamp, data: Mapping[str, Json]) -> bool:
        """Resume a parked run and wake its session; False if it was not parked."""
        ...

    async def cancel(
        self, session: SessionId, *, by: str, at: Timestamp, discard: bool = False
    ) -> RunId | None:
        """Request cancellation of the session's open run; None if there is none."""
        ...

    async def cancel_one(
        self, run: RunId, *, by: str, at: Timestamp, discard: bool = False
    ) -> bool:
        """Request cancellation of this run only; False if it is sealed or does not exist.

        A run that has not started keeps its position, and ends as soon as it starts.
        """
        ...

    async def note_failure(self, run: RunId, *, epoch: int) -> int:
        """Count an attempt that ended in an unexpected error; return the count.

        Returns 0 if the run is finished or was taken over.
        """
        ...

    async def note_retaken(self, run: RunId, calls: Sequence[str], *, epoch: int) -> dict[str, int]:
        """Count started calls as taken over; return the count of each, this one included.

        The count is 0 if the run is finished or was taken over again.
        """
        ...

    async def list_waiting(self, session: SessionId) -> list[PendingMessage]:
        """Return a session's messages that are neither started nor canceled."""
        ...

    async def list_piles(self) -> list[Backlog]:
        """Return the backlog of each session that is not archived, oldest first.

        Canceled messages do not count.
        """
        ...

    async def find_waiting(self, run: RunId) -> PendingMessage | None:
        """Return the message that a run will start with, or None once it has started."""
        ...


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


@value
class FailedRun:
    """A run that ended without a reply; its turn has the same address."""

    run: RunId
    session: SessionId
    label: str
    at: Timestamp
    reason: str | None
    """The reason in its journal."""


class Workers(Protocol):
    """Live and dead workers, and sessions that no worker serves."""

    async def lease(self, worker: str) -> None:
        """Register a worker; it holds its name until ``leave``, or until this connection ends.

        Raises:
            Conflict: A worker of that name is already running.
        """
        ...

    async def beat(self, worker: str) -> list[RunId]:
        """Record a heartbeat; return the worker's runs that were canceled."""
        ...

    async def leave(self, worker: str) -> None:
        """Release the name."""
        ...

    async def list_dead(self, *, silent_s: float) -> list[str]:
        """Return workers whose lease is free, or without a heartbeat for ``silent_s``."""
        ...

    async def bury(self, workers: Sequence[str]) -> None:
        """Delete workers whose sessions were woken up again."""
        ...

    async def wake_stuck(self, *, silent_s: float, idle_s: float | None = None) -> int:
        """Wake sessions again that are marked awake but have no live worker; return how many.

        A worker without a heartbeat for ``silent_s`` counts as dead. ``idle_s`` is how long a
        session may be awake before a worker claims it; by default the same.
        """
        ...

    async def list_workers(self) -> list[str]:
        """Return the names of live workers."""
        ...

    async def list_open(self, session: SessionId | None = None) -> list[OpenRun]:
        """Return runs that are open or parked, oldest first."""
        ...

    async def list_failed(self, session: SessionId | None = None, *, last: int) -> list[FailedRun]:
        """Return which of the last messages to a session could not be answered, oldest first.

        Without one it is which of the last runs failed, in any active session that has not moved
        since.
        """
        ...

    async def list_reasons(self, runs: Sequence[RunId]) -> dict[RunId, str]:
        """Return why some runs failed; one whose journal does not say it is absent."""
        ...
