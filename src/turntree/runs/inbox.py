"""The inbox: what was sent to a session and has not been answered yet, and who answers it.

Every write here that gives a session something to do wakes it up in the same transaction, unless
it is awake already: at most one wake-up a session exists at any time.
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
    """A message that was taken in."""

    run: RunId
    """The turn's address; where messages are folded, that of the first of them."""
    seq: int
    """Its place among everything that was sent to the session."""
    repeated: bool = False
    """The key was known: nothing was sent twice."""
    redacted: int = 0
    """How many secret keys were taken out of it before it was stored."""


@value
class PendingMessage:
    """A message that nobody has begun to answer."""

    seq: int
    run: RunId
    message: Message
    by: str
    at: Timestamp
    options: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """What the sender asked for: ``model``, ``situation``, ``params``, ``fold``, ``agent``."""


@value
class Backlog:
    """What waits in one session."""

    session: SessionId
    label: str
    count: int
    since: Timestamp
    """When the oldest of it was sent."""


@value
class StartRun:
    """Nobody works for the session, and messages wait: the first, and those that fold into it."""

    messages: tuple[PendingMessage, ...]
    head: TurnId | None
    head_digest: Digest | None


@value
class ResumeRun:
    """A run is open and now ours."""

    run: RunId
    epoch: int
    is_canceled: bool


@value
class Idle:
    """Nothing is left to do: the session fell asleep in the same transaction."""


Work = StartRun | ResumeRun | Idle


class Inbox(Protocol):
    """Messages on their way in, and the runs that answer them."""

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
        """Take a message in, with those that are answered in the same turn; wake its session up.

        Keys of messages and keys of turns are two kinds: neither answers for the other.

        Raises:
            NotFound: No such session.
            Refused: The key belongs to another message or another session.
        """
        ...

    async def next_work(self, session: SessionId, *, worker: str) -> Work:
        """Say what is to be done for a session; an open run that is not parked is taken over.

        A session that another worker looks after, who holds a lease, is left to him: ``Idle``.
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
        """Begin a run with its first facts, take its messages off the pile, return its epoch.

        Raises:
            Conflict: The session has another open run, or somebody else took one of the messages.
        """
        ...

    async def append_facts(self, facts: Sequence[RunEvent], *, epoch: int) -> bool:
        """Record facts of an open run that become true together; False if they stood there.

        ``run.parked`` parks the run as well.

        Raises:
            Canceled: The run was canceled, and one of the facts is the intent of an effect.
            Conflict: Another fact holds a place, or the run was taken over.
        """
        ...

    async def unpark(self, run: RunId, *, by: str, at: Timestamp, data: Mapping[str, Json]) -> bool:
        """Let a parked run go on, and wake its session; False if it was not parked."""
        ...

    async def cancel(
        self, session: SessionId, *, by: str, at: Timestamp, discard: bool = False
    ) -> RunId | None:
        """Ask for the end of the run that is open in a session; None if there is none."""
        ...

    async def cancel_one(
        self, run: RunId, *, by: str, at: Timestamp, discard: bool = False
    ) -> bool:
        """Ask for the end of one run and no other; False if it is sealed, or there is none.

        One that nobody has begun keeps its place, and ends as soon as it begins.
        """
        ...

    async def note_failure(self, run: RunId, *, epoch: int) -> int:
        """Count an end of an attempt that nobody foresaw; returns how many there were.

        0 if the run is finished or was taken over.
        """
        ...

    async def note_retaken(self, run: RunId, calls: Sequence[str], *, epoch: int) -> dict[str, int]:
        """Count calls that had begun as taken over; returns how often each was, this time too.

        0 if the run is finished or was taken over again.
        """
        ...

    async def list_waiting(self, session: SessionId) -> list[PendingMessage]:
        """Return what was sent to a session, has not been begun and was not taken back."""
        ...

    async def list_piles(self) -> list[Backlog]:
        """Return what waits in each session that is not archived, the longest waiting first.

        What was taken back waits for nobody.
        """
        ...

    async def find_waiting(self, run: RunId) -> PendingMessage | None:
        """Return the message that a run will begin with, if nobody has begun it."""
        ...


@value
class OpenRun:
    """A run that has not left its turn yet."""

    run: RunId
    session: SessionId
    status: str
    """``open`` or ``parked``."""
    started_at: Timestamp
    worker: str | None
    is_canceled: bool
    parked_reason: str | None = None
    is_discarded: bool = False
    """Whoever canceled it wants the session to stay where it is."""
    canceled_by: str | None = None
    failures: int = 0


@value
class FailedRun:
    """A run that ended without an answer; its turn has the same address."""

    run: RunId
    session: SessionId
    label: str
    at: Timestamp
    reason: str | None
    """Why, as its journal says it."""


class Workers(Protocol):
    """Who serves, who is gone, and which sessions nobody looks after."""

    async def lease(self, worker: str) -> None:
        """Announce a worker; its name is held until this connection or ``leave`` ends it.

        Raises:
            Conflict: The name is taken by somebody who lives.
        """
        ...

    async def beat(self, worker: str) -> list[RunId]:
        """Say that a worker makes progress; returns runs of its own that were canceled."""
        ...

    async def leave(self, worker: str) -> None:
        """Give the name back."""
        ...

    async def list_dead(self, *, silent_s: float) -> list[str]:
        """Return workers whose lease is free, or that have not been heard of for so long."""
        ...

    async def bury(self, workers: Sequence[str]) -> None:
        """Forget workers whose sessions were woken up again."""
        ...

    async def wake_stuck(self, *, silent_s: float, idle_s: float | None = None) -> int:
        """Wake sessions up that are awake without anybody living who handles them.

        A worker that was silent for so long is dead. ``idle_s`` is how long a session may be awake
        before nobody has taken it; the same, if nothing is said. Returns how many there were.
        """
        ...

    async def list_workers(self) -> list[str]:
        """Return the names of those that live."""
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
