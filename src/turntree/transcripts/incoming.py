"""Values of imports and handoffs: imported turns and sessions, cursors, progress."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from turntree.core.event import SealedEvent
from turntree.core.ids import Digest, SessionId, TurnId
from turntree.core.turn import SealedTurn
from turntree.core.usage import ModelCall
from turntree.core.value import value
from turntree.ledger.turn_rows import TurnSource

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
