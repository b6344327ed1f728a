"""The port of imports and handoffs: raw records, imported turns, sessions and cursors."""

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
"""The principal of imports without a user: what it creates has no owner yet."""


@value
class ImportedTurn:
    """A sealed turn to import, after a parent that came before it or is stored."""

    sealed: SealedTurn
    parent: TurnId | None
    calls: Sequence[ModelCall] = ()
    journal: Sequence[SealedEvent] = ()
    objects: Sequence[bytes] = ()
    source: TurnSource | None = None


class ImportedSession(NamedTuple):
    """A session that was imported from a session of a tool."""

    id: SessionId
    is_own: bool
    """Whether it is the importer's; another principal's is never moved."""


@dataclass(slots=True)
class ImportProgress:
    """The progress of an import."""

    added: int = 0
    known: int = 0
    body_bytes: int = 0


@value
class ImportCursor:
    """How far a transcript has been read."""

    origin: str
    bundle: str
    stamp: str
    projector: int
    redactor: int
    records: int
    raw_bytes: int
    prefix: Digest
    """Digest of all records that were read, concatenated."""
    blocks: tuple[Digest, ...]
    """The blocks that hold them, in order."""
    heads: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The head and title of each of the source's sessions."""
    report: Mapping[str, Any] = field(default_factory=dict[str, Any])


class Packing(Protocol):
    """Prepares records and turns for storage. Pure: any process can do it."""

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

        ``turns`` are those that were made from them, each with its records' numbers; ``gap`` says
        which of them we wrote ourselves.
        """
        ...

    def prepare(self, item: ImportedTurn) -> TurnRows:
        """Return a turn as rows."""
        ...


class Imports(Protocol):
    """Stores what importers read."""

    @property
    def by(self) -> str:
        """The principal that imports: cursors and sessions belong to it."""
        ...

    @property
    def packing(self) -> Packing:
        """Prepares data for ``keep`` and ``store_turns``."""
        ...

    async def list_cursors(self, origin: str | None = None) -> list[ImportCursor]:
        """Return the cursors of the importer's transcripts."""
        ...

    async def keep(self, blocks: Sequence[RawBlock], turns: Sequence[TurnRows] = ()) -> None:
        """Store records unchanged, all of them or none; stored ones stay.

        A block that depends on a turn which is not stored, or not complete, is packed again to be
        self-contained; ``turns`` are those that blocks depend on. Records that we wrote are left
        out where something of their thread was erased.
        """
        ...

    async def read_records(self, blocks: Sequence[Digest]) -> list[RawRecord]:
        """Return stored records. An erased one is a stub with its digest.

        Raises:
            NotFound: A block is missing, or does not match its digest.
        """
        ...

    async def store_turns(
        self,
        incoming: Iterable[ImportedTurn | TurnRows] | AsyncIterable[ImportedTurn | TurnRows],
        *,
        report: Callable[[ImportProgress], None] = lambda _: None,
    ) -> ImportProgress:
        """Store turns, parents first, and return how many were new; no session moves.

        They are durable once ``mark`` has returned.

        Raises:
            NotFound: A turn comes before its parent.
            InvalidOperation: A turn is known under another digest or another parent.
        """
        ...

    async def find_session(self, origin: str, id: str) -> ImportedSession | None:
        """Return the session imported from a session of the source, the importer's own first."""
        ...

    async def find_last_in(self, folder: str) -> SessionId | None:
        """Return the imported session that last worked in a folder, not a subagent's."""
        ...

    async def has_held(self, session: SessionId, turn: TurnId) -> bool:
        """Return whether a session's thread ever contained a turn."""
        ...

    async def list_sources(self, origin: str, bundle: str) -> dict[str, TurnId]:
        """Return the newest turn made for each key of a transcript."""
        ...

    async def mark(self, cursors: Sequence[ImportCursor], at: Timestamp) -> None:
        """Write cursors, all of them or none."""
        ...


@value
class Handoff:
    """A thread that becomes a session of another tool."""

    origin: str
    """The tool, by the name of its importer."""
    session: str
    """The tool's id of the session."""
    turn: TurnId
    file: str
    bytes: int
    mark: str | None = None
    last: str | None = None
    continues: SessionId | None = None
    """Our session at the turn, which continues with the tool."""


class Handoffs(Protocol):
    """Records the sessions that were written for other tools to continue."""

    async def note(self, checkout: Handoff, *, by: str, at: Timestamp) -> None:
        """Record a handoff, and its event in the same transaction.

        Raises:
            NotFound: There is no such turn.
            Conflict: The tool already has a session of this name.
        """
        ...

    async def list_all(self) -> list[tuple[str, HandoffLink]]:
        """Return all handoffs: the tool, and how its session is recognized."""
        ...

    async def find_gap(self, blocks: Sequence[Digest]) -> OwnRecords | None:
        """Return which of the records in some blocks we wrote, or None."""
        ...
