"""The permanent record: what must become true together when something is written."""

from collections.abc import Callable, Sequence
from typing import Protocol

from turntree.core.event import SealedEvent
from turntree.core.ids import Digest, ProgramId, RunId, SessionId, Timestamp, TurnId
from turntree.core.run import RunEvent
from turntree.core.thread import SealResult
from turntree.core.turn import SealedTurn
from turntree.core.usage import ModelCall

Build = Callable[[TurnId | None, Digest | None], tuple[SealedTurn, Sequence[SealedEvent]]]
"""Seals a turn after the head it is given, with the facts its journal still lacks."""

NodeId = TurnId | ProgramId
"""What may carry a tag."""


class LedgerPort(Protocol):
    """Turns, runs and events. It only ever grows."""

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
        """Store a turn, end its run and advance its session: all or nothing.

        A turn or a key the ledger already knows is answered again and changes nothing.

        Raises:
            Conflict: The session no longer stands at ``parent``, or the run was taken over.
            NotFound: No such parent or session.
            Refused: The turn was built on another parent, or is sealed with another digest.
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
        """Hold the session, build a turn after its head and store it: nobody can come between.

        Raises:
            NotFound: No such session.
        """
        ...

    async def start(self, run: RunId, session: SessionId | None, first: RunEvent) -> int:
        """Begin a run with its first fact and return the epoch to write under.

        Raises:
            Conflict: The session has another open run.
        """
        ...

    async def take(self, run: RunId) -> int:
        """Take a run over from a worker that may be dead; return the epoch to write under.

        Raises:
            NotFound: No such run, or it is finished.
        """
        ...

    async def append_fact(self, fact: RunEvent, *, epoch: int) -> bool:
        """Record a fact of an open run, with what was said. False if it stood there already.

        Raises:
            Conflict: Another fact holds that place, or the run was taken over.
        """
        ...

    async def append(self, recorded: SealedEvent) -> bool:
        """Record a fact of any stream at its place. False if it stood there already.

        Raises:
            Conflict: Another fact holds that place.
        """
        ...

    async def facts(self, stream: str, *, after: int = 0) -> list[RunEvent]:
        """Return the facts of a stream in order, from a place on."""
        ...

    async def put_object(self, data: bytes) -> Digest:
        """Keep bytes under their digest; the same bytes are kept once."""
        ...

    async def get_object(self, digest: Digest) -> bytes:
        """Return an object's bytes.

        Raises:
            NotFound: No such object.
        """
        ...


class Tags(Protocol):
    """What may be put on a turn or a program, or taken out of a turn."""

    async def set_tag(self, node: NodeId, tag: str, *, on: bool, by: str, at: Timestamp) -> bool:
        """Put a tag on a turn or a program or take it off; returns whether anything changed.

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
        """Take one message out for good; its digest and an event stay as the receipt.

        Raises:
            NotFound: No such turn or message.
        """
        ...
