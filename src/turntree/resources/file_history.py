"""Who left a place in which state: the states that turns found and left, in the order of time.

Whatever changes between two states that were kept was done by the turn that was at work meanwhile.
If none was, somebody else did it; if several were, the one that says it wrote the file; and if none
of them or several say so, nobody can tell, and that is what is said.

Pure. It must never know what a state holds, nor how it is read.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal

from turntree.core.ids import Timestamp, TurnId
from turntree.core.ref import ExtRef
from turntree.core.value import value


@value
class TurnInterval:
    """A turn at work on a place: from when to when, and the states it found and left."""

    turn: TurnId
    began_at: Timestamp
    ended_at: Timestamp
    before: ExtRef | None
    """None when nobody looked as it began."""
    after: ExtRef


@value
class ChangeAuthor:
    """Who may have made a change."""

    kind: Literal["turn", "outside", "mixed", "earlier"]
    """earlier: it stood there before any turn was pinned."""
    turns: tuple[TurnId, ...] = ()
    """One for ``turn``, those at work for ``mixed``, for ``outside`` the one that ended before."""

    def told_to(self, sees: Collection[TurnId]) -> "ChangeAuthor":
        """Return the same for somebody who may not know of every turn: others are outside."""
        named = tuple(turn for turn in self.turns if turn in sees)
        return ChangeAuthor("outside" if self.turns and not named else self.kind, named)


@value
class StateChange:
    """A state, and which turns were at work since the one before it."""

    state: ExtRef
    at: Timestamp
    active: tuple[TurnId, ...]
    last: TurnId | None
    """The turn that ended last before this state."""
    is_first: bool = False
    is_unseen: bool = False
    """Whether nobody looked as the turn began that left this state."""

    def writer(self, has_written: Callable[[TurnId], bool]) -> ChangeAuthor:
        """Return who made a change, given which turns say that they wrote the file."""
        if self.is_first:
            return ChangeAuthor("earlier")
        if not self.active:
            return ChangeAuthor("outside", () if self.last is None else (self.last,))
        naming = [turn for turn in self.active if has_written(turn)]
        if len(naming) == 1:
            return ChangeAuthor("turn", (naming[0],))
        if len(self.active) == 1 and not self.is_unseen:
            return ChangeAuthor("turn", self.active)
        return ChangeAuthor("mixed", tuple(naming) or self.active)


def list_steps(stays: Sequence[TurnInterval]) -> list[StateChange]:
    """Return the states of a place in the order of time; equal neighbours are one."""
    steps: list[StateChange] = []
    active: dict[TurnId, None] = {}
    last: TurnId | None = None
    is_unseen = False
    for at, state, turn, is_end in _moments(stays):
        if state is None:
            is_unseen = True
        elif not steps or steps[-1].state != state:
            # The first state ever kept is what was there, whoever made it.
            is_first = not steps
            steps.append(StateChange(state, at, tuple(active), last, is_first, is_unseen))
        if state is not None:
            is_unseen = False
        if is_end:
            active.pop(turn, None)
            last = turn
        else:
            active[turn] = None
    return steps


def _moments(
    stays: Sequence[TurnInterval],
) -> Iterator[tuple[Timestamp, ExtRef | None, TurnId, bool]]:
    """Yield when a turn began or ended, and the state that was kept then, if one was.

    At the same moment, what one turn leaves comes before what the next one finds.
    """
    moments: list[tuple[Timestamp, int, int, ExtRef | None, TurnId, bool]] = []
    for place, stay in enumerate(stays):
        end = 2 if stay.began_at == stay.ended_at else 0
        moments.append((stay.began_at, 1, place, stay.before, stay.turn, False))
        moments.append((stay.ended_at, end, place, stay.after, stay.turn, True))
    for at, _, _, state, turn, is_end in sorted(moments, key=lambda moment: moment[:3]):
        yield at, state, turn, is_end
