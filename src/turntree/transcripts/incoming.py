"""Where imported transcripts are kept: records as they came, turns by the thousand, cursors."""

from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

from turntree.core.event import SealedEvent
from turntree.core.ids import Digest, SessionId, Timestamp, TurnId
from turntree.core.turn import SealedTurn
from turntree.core.usage import ModelCall
from turntree.core.value import value
from turntree.ledger.raw_codec import RawBlock, RawRecord
from turntree.ledger.turn_rows import TurnRows, TurnSource
from turntree.transcripts.handoff_link import HandoffLink, OwnRecords

IMPORTER: Final = "system:import"
"""Imports where no principal does: what it begins belongs to no one yet."""


@value
class ImportedTurn:
    """A turn on its way in: sealed, after a parent that came before it or is known."""

    sealed: SealedTurn
    parent: TurnId | None
    calls: Sequence[ModelCall] = ()
    journal: Sequence[SealedEvent] = ()
    objects: Sequence[bytes] = ()
    source: TurnSource | None = None


class ImportedSession(NamedTuple):
    """A session that came from a session of a tool."""

    id: SessionId
    is_own: bool
    """Whether it is the importer's; another principal's is never moved."""


@dataclass(slots=True)
class ImportProgress:
    """How far an import has come."""

    added: int = 0
    known: int = 0
    body_bytes: int = 0


@value
class ImportCursor:
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


class Packing(Protocol):
    """Makes records and turns ready to be stored. Pure: any process can do it."""

    def pack(
        self,
        origin: str,
        bundle: str,
        first: int,
        records: Sequence[RawRecord],
        turns: Sequence[tuple[TurnRows, Sequence[int]]] = (),
        gap: OwnRecords | None = None,
    ) -> list[RawBlock]:
        """Return records as blocks, in order; the first one has the number ``first``.

        ``turns`` are those that were made of them, each with its records' numbers; ``gap`` says
        which of them we wrote ourselves.
        """
        ...

    def prepare(self, item: ImportedTurn) -> TurnRows:
        """Return a turn as rows."""
        ...


class Imports(Protocol):
    """Keeps what importers read."""

    @property
    def by(self) -> str:
        """The principal that imports: cursors and sessions are theirs."""
        ...

    @property
    def packing(self) -> Packing:
        """What makes things ready for ``keep`` and ``store_turns``."""
        ...

    async def list_cursors(self, origin: str | None = None) -> list[ImportCursor]:
        """Return how far the importer has read every bundle."""
        ...

    async def keep(self, blocks: Sequence[RawBlock], turns: Sequence[TurnRows] = ()) -> None:
        """Keep records as they are, all of them or none; what is kept already stays.

        A block that leans on a turn which is not stored, or not whole, is packed again to stand
        by itself; ``turns`` are those that blocks lean on. Records of ours are left out where
        something of their thread was erased.
        """
        ...

    async def read_records(self, blocks: Sequence[Digest]) -> list[RawRecord]:
        """Return kept records. One that was erased is a stub with its digest.

        Raises:
            NotFound: A block is missing, or is not what it was.
        """
        ...

    async def store_turns(
        self,
        incoming: Iterable[ImportedTurn | TurnRows] | AsyncIterable[ImportedTurn | TurnRows],
        *,
        report: Callable[[ImportProgress], None] = lambda _: None,
    ) -> ImportProgress:
        """Store turns, parents first, and return how many were new; no session moves.

        They outlast a crash once ``mark`` has returned.

        Raises:
            NotFound: A turn comes before its parent.
            Refused: A turn is known under another digest, or was built on another parent.
        """
        ...

    async def find_session(self, origin: str, id: str) -> ImportedSession | None:
        """Return the session that came from a session of the source, the importer's own first."""
        ...

    async def find_last_in(self, folder: str) -> SessionId | None:
        """Return the session that last worked in a folder, by its source; no subagent's."""
        ...

    async def has_held(self, session: SessionId, turn: TurnId) -> bool:
        """Say whether a session's thread ever held a turn."""
        ...

    async def list_sources(self, origin: str, bundle: str) -> dict[str, TurnId]:
        """Return the newest turn made for each key of a bundle."""
        ...

    async def mark(self, cursors: Sequence[ImportCursor], at: Timestamp) -> None:
        """Remember how far bundles have been read, all of them or none."""
        ...


@value
class Handoff:
    """A thread that becomes a session of another tool."""

    origin: str
    """The tool, by the name of its importer."""
    session: str
    """What the tool calls it."""
    turn: TurnId
    file: str
    bytes: int
    mark: str | None = None
    last: str | None = None
    continues: SessionId | None = None
    """The session of ours that stands at the turn and goes on with the tool."""


class Handoffs(Protocol):
    """Knows the sessions that were written for other tools to continue."""

    async def note(self, checkout: Handoff, *, by: str, at: Timestamp) -> None:
        """Note a checkout, and in the same transaction the fact that says so.

        Raises:
            NotFound: There is no such turn.
            Conflict: The tool has a session of this name already.
        """
        ...

    async def list_all(self) -> list[tuple[str, HandoffLink]]:
        """Return what was ever checked out: the tool, and how its session is known again."""
        ...

    async def find_gap(self, blocks: Sequence[Digest]) -> OwnRecords | None:
        """Return which of the records kept in some blocks we wrote, if any."""
        ...
