"""Threads: turns read with their ancestry. A thread is a view; nothing stores one."""

from turntree.core.ids import SessionId, TurnId
from turntree.core.turn import Turn
from turntree.core.value import value


@value
class ThreadTurn:
    """A turn and its position in the tree."""

    turn: Turn
    depth: int
    """How many turns its thread has; the root's is 1."""
    parent: TurnId | None


@value
class SealResult:
    """The result of storing a turn."""

    turn: TurnId
    depth: int
    version: int | None
    """The session's version after the move, or None if no session moved."""
    repeated: bool
    """Whether the turn or the idempotency key was already stored."""


@value
class MoveResult:
    """The result of creating or moving a session."""

    session: SessionId
    version: int
    before: TurnId | None
    head: TurnId | None
    repeated: bool


@value
class Comparison:
    """Two threads and where they diverge."""

    base: ThreadTurn | None
    """The deepest turn that both contain, or None if they share none."""
    left: tuple[ThreadTurn, ...]
    """Turns that only the left thread contains, oldest first."""
    right: tuple[ThreadTurn, ...]
