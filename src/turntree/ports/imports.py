"""Where imported transcripts are kept: records as they came, turns by the thousand, cursors."""

from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from turntree.domain.event import Recorded
from turntree.domain.ids import Digest, Instant, SessionId, TurnId
from turntree.domain.transcript import Record
from turntree.domain.turn import Sealed
from turntree.domain.usage import ModelCall


@dataclass(frozen=True, slots=True)
class TurnSource:
    """The records of a bundle that a turn was made from, and what the source calls it."""

    origin: str
    bundle: str
    key: str
    first: int
    last: int
    projector: int


@dataclass(frozen=True, slots=True)
class Incoming:
    """A turn on its way in: sealed, after a parent that came before it or is known."""

    sealed: Sealed
    parent: TurnId | None
    calls: Sequence[ModelCall] = ()
    journal: Sequence[Recorded] = ()
    objects: Sequence[bytes] = ()
    source: TurnSource | None = None


@dataclass(slots=True)
class Imported:
    """How far an import has come."""

    added: int = 0
    known: int = 0
    body_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a bundle has been read."""

    origin: str
    bundle: str
    stamp: str
    projector: int
    redactor: int
    records: int
    raw_bytes: int
    prefix: Digest
    """Of all records that were read, one after the other."""
    blocks: tuple[Digest, ...]
    """Where they are kept, in order."""
    heads: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Where each of the source's sessions stood, and its title."""
    report: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Imports(Protocol):
    """Keeps what importers read."""

    async def list_cursors(self, origin: str | None = None) -> list[Cursor]:
        """Return how far every bundle has been read."""
        ...

    async def keep(
        self, origin: str, bundle: str, first: int, records: Sequence[Record]
    ) -> list[Digest]:
        """Keep records as they are, from number ``first`` on; return where, in order."""
        ...

    async def read_records(self, blocks: Sequence[Digest]) -> list[Record]:
        """Return kept records.

        Raises:
            NotFound: A block is missing.
        """
        ...

    async def store_turns(
        self,
        incoming: Iterable[Incoming] | AsyncIterable[Incoming],
        *,
        report: Callable[[Imported], None] = lambda _: None,
    ) -> Imported:
        """Store turns, parents first, and return how many were new; no session moves.

        Raises:
            NotFound: A turn comes before its parent.
            Refused: A turn is known under another digest, or was built on another parent.
        """
        ...

    async def find_session(self, origin: str, id: str) -> SessionId | None:
        """Return the session that came from a session of the source."""
        ...

    async def has_held(self, session: SessionId, turn: TurnId) -> bool:
        """Say whether a session's thread ever held a turn."""
        ...

    async def list_sources(self, origin: str, bundle: str) -> dict[str, TurnId]:
        """Return the newest turn made for each key of a bundle."""
        ...

    async def mark(self, cursor: Cursor, at: Instant) -> None:
        """Remember how far a bundle has been read."""
        ...
