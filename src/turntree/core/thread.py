"""Threads: turns read with their ancestry. A thread is a view; nothing stores one."""

from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush

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


def newest_first(turns: Iterable[ThreadTurn]) -> list[ThreadTurn]:
    """Return turns with the newest first, and never a parent before its child.

    Clocks differ between machines and can be set back, so the thread decides where it can and the
    clock only elsewhere.
    """
    by_clock = sorted(turns, key=lambda p: (p.turn.header.sealed_at, p.depth), reverse=True)
    places = {placed.turn.id: place for place, placed in enumerate(by_clock)}
    children = Counter(p.parent for p in by_clock if p.parent in places)
    ready = [place for place, placed in enumerate(by_clock) if not children[placed.turn.id]]
    found: list[ThreadTurn] = []
    while ready:
        found.append(by_clock[heappop(ready)])
        parent = found[-1].parent
        if parent is not None and parent in places:
            children[parent] -= 1
            if not children[parent]:
                heappush(ready, places[parent])
    return found
