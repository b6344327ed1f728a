"""Protocols for writing the ledger: what is written atomically."""

from collections.abc import Callable, Sequence
from typing import Protocol

from turntree.core.event import SealedEvent
from turntree.core.ids import Digest, ProgramId, RunId, SessionId, Timestamp, TurnId
from turntree.core.run import RunEvent
from turntree.core.thread import SealResult
from turntree.core.turn import SealedTurn
from turntree.core.usage import ModelCall

Build = Callable[[TurnId | None, Digest | None], tuple[SealedTurn, Sequence[SealedEvent]]]
"""Seals a turn after the given head; returns it with the events that its stream still lacks."""

NodeId = TurnId | ProgramId
"""A node that may have tags."""


class LedgerPort(Protocol):
    """Turns, runs and events. Append-only."""

    async def seal(
        self,
        sealed: SealedTurn,
        parent: TurnId | None,
        *,
        by: str,
        at: Timestamp,
        session: SessionId | None = None,
        calls: Sequence[ModelCall] = (),
        journal: Sequence[SealedEvent] = (),
        epoch: int | None = None,
        key: str | None = None,
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
        ...

    async def seal_at_head(
        self,
        build: Build,
        session: SessionId,
        *,
        by: str,
        at: Timestamp,
        calls: Sequence[ModelCall] = (),
        key: str | None = None,
    ) -> tuple[SealResult, SealedTurn]:
        """Lock the session, build a turn after its head and store it: no other writer can
        interleave.

        Raises:
            NotFound: No such session.
        """
        ...

    async def start(self, run: RunId, session: SessionId | None, first: RunEvent) -> int:
        """Start a run with its first event and return the epoch to write under.

        Raises:
            Conflict: The session has another open run.
        """
        ...

    async def take(self, run: RunId) -> int:
        """Claim a run from a worker that may be dead; return the epoch to write under.

        Raises:
            NotFound: No such run, or it is finished.
        """
        ...

    async def append_fact(self, fact: RunEvent, *, epoch: int) -> bool:
        """Append an event of an open run, with its message. False if it is already there.

        Raises:
            Conflict: Another event has that position, or the run was taken over.
        """
        ...

    async def append(self, recorded: SealedEvent) -> bool:
        """Append an event to any stream, at its position. False if it is already there.

        Raises:
            Conflict: Another event has that position.
        """
        ...

    async def facts(self, stream: str, *, after: int = 0) -> list[RunEvent]:
        """Return the events of a stream in order, from a position on."""
        ...

    async def put_object(self, data: bytes) -> Digest:
        """Store bytes under their digest; the same bytes are stored once."""
        ...

    async def get_object(self, digest: Digest) -> bytes:
        """Return an object's bytes.

        Raises:
            NotFound: No such object.
        """
        ...


class Tags(Protocol):
    """Tags of turns and programs, and erasure of messages."""

    async def set_tag(self, node: NodeId, tag: str, *, on: bool, by: str, at: Timestamp) -> bool:
        """Add a tag to a turn or a program, or remove it; return whether anything changed.

        Raises:
            NotFound: No such turn or program.
        """
        ...

    async def list_tags(
        self, *, turn: TurnId | None = None, tag: str | None = None
    ) -> list[tuple[TurnId, str]]:
        """Return (turn, tag) pairs, of one turn, of one tag, or all."""
        ...

    async def erase(
        self, turn: TurnId, sequence: int, *, reason: str, by: str, at: Timestamp
    ) -> bool:
        """Erase one message permanently; its digest and an event remain as the receipt.

        Raises:
            NotFound: No such turn or message.
        """
        ...
