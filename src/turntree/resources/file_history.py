"""Order the states that turns found and left, and say who may have made each change.

A change between two snapshots was made by the turn that ran in between. If no turn ran, it was made
outside Turntree. If several ran, the one whose tool calls report writing the file made it; if none
or several report that, the author is ``mixed``.

Pure: it does not know what a state holds or how it is read.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal

from turntree.core.ids import Timestamp, TurnId
from turntree.core.ref import ExtRef
from turntree.core.value import value


@value
class TurnInterval:
    """A turn's work on a resource: when it began and ended, and the states before and after."""

    turn: TurnId
    began_at: Timestamp
    ended_at: Timestamp
    before: ExtRef | None
    """None if no snapshot was taken when it began."""
    after: ExtRef


@value
class ChangeAuthor:
    """The possible author of a change."""

    kind: Literal["turn", "outside", "mixed", "earlier"]
    """earlier: it existed before the first turn snapshot."""
    turns: tuple[TurnId, ...] = ()
    """One for ``turn``, those at work for ``mixed``, for ``outside`` the one that ended before."""

    def told_to(self, sees: Collection[TurnId]) -> "ChangeAuthor":
        """Return the same author for a viewer; turns the viewer cannot see count as outside."""
        named = tuple(turn for turn in self.turns if turn in sees)
        return ChangeAuthor("outside" if self.turns and not named else self.kind, named)


@value
class StateChange:
    """A state, and which turns were running since the one before it."""

    state: ExtRef
    at: Timestamp
    active: tuple[TurnId, ...]
    last: TurnId | None
    """The turn that ended last before this state."""
    is_first: bool = False
    is_unseen: bool = False
    """Whether no snapshot was taken when the turn that left this state began."""

    def writer(self, has_written: Callable[[TurnId], bool]) -> ChangeAuthor:
        """Return the author of a change, given which turns report writing the file."""
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
    """Return the states of a resource in time order; equal neighbors are merged."""
    steps: list[StateChange] = []
    active: dict[TurnId, None] = {}
    last: TurnId | None = None
    is_unseen = False
    for at, state, turn, is_end in _moments(stays):
        if state is None:
            is_unseen = True
        elif not steps or steps[-1].state != state:
            # The first snapshot shows what already existed; its author is unknown.
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
    """Yield when each turn began or ended, with the snapshot taken then, if any.

    At equal timestamps, what one turn leaves comes before what the next one finds.
    """
    moments: list[tuple[Timestamp, int, int, ExtRef | None, TurnId, bool]] = []
    for place, stay in enumerate(stays):
        end = 2 if stay.began_at == stay.ended_at else 0
        moments.append((stay.began_at, 1, place, stay.before, stay.turn, False))
        moments.append((stay.ended_at, end, place, stay.after, stay.turn, True))
    for at, _, _, state, turn, is_end in sorted(moments, key=lambda moment: moment[:3]):
        yield at, state, turn, is_end
