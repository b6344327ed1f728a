"""Threads: turns read with their ancestry. A thread is a view; nothing stores one."""

from turntree.core.ids import SessionId, TurnId
from turntree.core.turn import Turn
from turntree.core.value import value


@value
class ThreadTurn:
    """A turn and where it stands in the tree."""

    turn: Turn
    depth: int
    """How many turns its thread has; the root's is 1."""
    parent: TurnId | None


@value
class SealResult:
    """What storing a turn led to."""

    turn: TurnId
    depth: int
    version: int | None
    """The session's version after the move, or None if no session moved."""
    repeated: bool
    """Whether the ledger knew the turn, or the key, already."""


@value
class MoveResult:
    """What moving or beginning a session led to."""

    session: SessionId
    version: int
    before: TurnId | None
    head: TurnId | None
    repeated: bool


@value
class Comparison:
    """Two threads and where they part."""

    base: ThreadTurn | None
    """The deepest turn both hold, or None if they share none."""
    left: tuple[ThreadTurn, ...]
    """What only the left thread holds, oldest first."""
    right: tuple[ThreadTurn, ...]
