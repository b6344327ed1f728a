"""The part of a thread that a model sees, and which of its turns are whole.

A border that moved with every turn would give every prompt a different beginning, and no provider
could serve it from its cache. So the whole turns begin at a depth that stays for many turns: of all
depths that would fill between a quarter of the room and all of it, the one divisible by the highest
power of two. As the thread grows, that depth changes only when it falls out of the range, or when a
rounder one enters it. The turns before it are folded, those before them are titles, and these
borders move only with the first.

The borders depend only on the thread and the room, so two forks are shown alike. Finding them takes
reading only the end of the thread.
"""

from collections.abc import Sequence
from typing import Final

from turntree.core.compaction import visible
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.models.messages import (
    FOLDED_TURN_TOKENS,
    TITLE_LINE_TOKENS,
    PromptShares,
    cost_of_turn,
)

FOLDED_TURNS_MAX: Final = 16
TITLES_MAX: Final = 48
BEFORE_WHOLE_MAX: Final = FOLDED_TURNS_MAX + TITLES_MAX
"""How many turns before the whole ones a prompt shows at most."""


@value
class ContextWindow:
    """The end of a thread, root first.

    Turns that could not be shown anyway may be missing at its beginning.
    """

    turns: tuple[ThreadTurn, ...] = ()
    first: int = 1
    """The depth of the first turn that the context may include."""
    summary: ThreadTurn | None = None
    """The newest compaction, which summarizes the turns before ``first``."""

    @property
    def is_whole(self) -> bool:
        """Whether no turn is missing at the beginning."""
        return not self.turns or self.turns[0].depth <= self.first

    @property
    def next_depth(self) -> int:
        """The depth of the turn that follows."""
        ends = [*self.turns[-1:], *(() if self.summary is None else (self.summary,))]
        return 1 + max((entry.depth for entry in ends), default=0)


@value
class DividedThread:
    """The turns of a thread by how they are shown, root first."""

    titled: tuple[ThreadTurn, ...] = ()
    folded: tuple[ThreadTurn, ...] = ()
    whole: tuple[ThreadTurn, ...] = ()
    left_out: int = 0
    """Number of turns before them, which are not shown."""
    cost: int = 0

    @property
    def shown(self) -> tuple[ThreadTurn, ...]:
        """All turns that are shown."""
        return (*self.titled, *self.folded, *self.whole)


def view_of(thread: Sequence[ThreadTurn]) -> ContextWindow:
    """Return the context window of a whole thread, given root first."""
    shown_turns = visible(
        [(entry.turn.id, entry.turn.header.compaction, entry) for entry in thread]
    )
    newest = max((entry.depth for entry in thread if entry.turn.header.compaction), default=None)
    if newest is None:
        first = shown_turns[0].depth if shown_turns else 1
        return ContextWindow(tuple(shown_turns), first)
    summary, *rest = shown_turns
    return ContextWindow(tuple(rest), rest[0].depth if rest else newest + 1, summary)


def divide(view: ContextWindow, shares: PromptShares, room: int) -> DividedThread:
    """Return which turns of a window are shown within ``room`` tokens, and how.

    The last turn is always among them: an agent must not forget what it has just done.
    """
    costs: list[int] = []
    total = 0
    for entry in reversed(view.turns):
        costs.append(cost_of_turn(entry.turn, shares))
        total += costs[-1]
        if total > room:
            break
    costs.reverse()
    if total <= room and view.is_whole:
        return DividedThread(whole=view.turns, cost=total)
    depths = [entry.depth for entry in view.turns[len(view.turns) - len(costs) :]]
    count = len(costs) - find_start(depths, costs, room * 3 // 4)
    start = len(view.turns) - count
    folded = min(start, FOLDED_TURNS_MAX, room // 8 // FOLDED_TURN_TOKENS)
    titles = min(start - folded, TITLES_MAX, room // 8 // TITLE_LINE_TOKENS)
    if start and not count and not folded:
        titles = max(1, titles)
    low = start - folded - titles
    return DividedThread(
        view.turns[low : low + titles],
        view.turns[low + titles : start],
        view.turns[start:],
        _count_before(view, low),
        titles * TITLE_LINE_TOKENS + folded * FOLDED_TURN_TOKENS + sum(costs[len(costs) - count :]),
    )


def find_start(depths: Sequence[int], costs: Sequence[int], room: int) -> int:
    """Return the index from which on turns are shown whole within ``room`` tokens."""
    whole_from = _fitting(costs, room)
    if whole_from == len(costs):
        return whole_from
    # Not where the room ends, but at the roundest depth that leaves a quarter of it or more. So it
    # moves only every few turns, and a provider's prompt cache stays valid in between.
    quarter_from = _fitting(costs, room // 4)
    candidates = range(whole_from, min(quarter_from, len(costs) - 1) + 1)
    return max(candidates, key=lambda index: _roundness(depths[index]))


def _count_before(view: ContextWindow, low: int) -> int:
    """Return the number of turns that the context may include before the one at ``low``."""
    if not view.turns:
        return 0
    end = view.turns[low].depth if low < len(view.turns) else view.turns[-1].depth + 1
    # A compaction comes between the turns that it keeps and those after it, and is shown
    # separately.
    between = view.summary is not None and view.first <= view.summary.depth < end
    return end - view.first - between


def _fitting(costs: Sequence[int], room: int) -> int:
    """Return the first index from which on everything fits."""
    left = room
    for index in range(len(costs) - 1, -1, -1):
        left -= costs[index]
        if left < 0:
            return index + 1
    return 0


def _roundness(depth: int) -> int:
    """Return the highest power of two that a depth is divisible by."""
    return depth & -depth
