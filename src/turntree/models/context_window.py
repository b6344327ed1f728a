"""The part of a thread that a model sees, and where it is cut when it does not fit.

A cut that moved with every turn would give every prompt a different beginning, and no provider
could serve it from its cache. So a thread is cut at depths that stay for many turns: of all depths
that would fill between half of the room and all of it, the one divisible by the highest power of
two. As the thread grows, that depth changes only when it falls out of the range, or when a rounder
one enters it: about once for every half of the room.

The cut depends only on the thread and the room, so two forks are cut alike. Finding it takes
reading only the end of the thread.
"""

from collections.abc import Sequence

from turntree.core.compaction import visible
from turntree.core.message import Message
from turntree.core.thread import ThreadTurn
from turntree.core.turn import Turn
from turntree.core.value import value
from turntree.models.token_estimate import MESSAGE_TOKENS, estimate_messages


@value
class ContextWindow:
    """The end of a thread, root first, with the cost of each turn in tokens.

    Turns that could not fit anyway may be missing at its beginning.
    """

    turns: tuple[ThreadTurn, ...] = ()
    costs: tuple[int, ...] = ()
    first: int = 1
    """The depth of the first turn that the context may include."""
    summary: ThreadTurn | None = None
    """The newest compaction, which summarizes the turns before ``first``."""

    @property
    def summary_cost(self) -> int:
        """Estimated tokens of the summary."""
        return 0 if self.summary is None else cost_of(self.summary.turn)

    @property
    def cost(self) -> int:
        """Estimated tokens of the summary and all turns."""
        return sum(self.costs) + self.summary_cost

    @property
    def is_whole(self) -> bool:
        """Whether no turn is missing at the beginning."""
        return not self.turns or self.turns[0].depth <= self.first


def view_of(thread: Sequence[ThreadTurn]) -> ContextWindow:
    """Return the context window of a whole thread, given root first."""
    shown_turns = visible(
        [(entry.turn.id, entry.turn.header.compaction, entry) for entry in thread]
    )
    newest = max((entry.depth for entry in thread if entry.turn.header.compaction), default=None)
    if newest is None:
        return make_view(shown_turns, first=shown_turns[0].depth if shown_turns else 1)
    summary, *rest = shown_turns
    return make_view(rest, first=rest[0].depth if rest else newest + 1, summary=summary)


def make_view(
    turns: Sequence[ThreadTurn], *, first: int, summary: ThreadTurn | None = None
) -> ContextWindow:
    """Return the context window of turns, root first, that are the end of a thread."""
    return ContextWindow(
        tuple(turns), tuple(cost_of(entry.turn) for entry in turns), first, summary
    )


def cost_of(turn: Turn) -> int:
    """Return the estimated tokens of a turn, without reading objects."""
    messages = [message for message in turn.messages if isinstance(message, Message)]
    # An erased message is shown as one word, an unsuccessful outcome as one sentence.
    return estimate_messages(messages) + 2 * MESSAGE_TOKENS * (
        1 + len(turn.messages) - len(messages)
    )


def cut(view: ContextWindow, room: int) -> tuple[ThreadTurn, ...]:
    """Return the turns of a window that are shown within ``room`` tokens.

    A turn is shown whole or not at all, so that no tool call is separated from its result.
    """
    whole_from = _fitting(view.costs, room)
    if whole_from == 0 and view.is_whole:
        return view.turns
    assert whole_from > 0, "a view reaches back until it does not fit"
    # The cut is not placed where the budget ends but at the roundest depth between half and all of
    # it. So it moves only every few turns, and a provider's prompt cache stays valid in between.
    half_from = _fitting(view.costs, room // 2)
    if whole_from == len(view.turns):
        return ()
    candidates = range(whole_from, min(half_from, len(view.turns) - 1) + 1)
    start = max(candidates, key=lambda index: _roundness(view.turns[index].depth))
    return view.turns[start:]


def count_left_out(view: ContextWindow, shown: Sequence[ThreadTurn]) -> int:
    """Return the number of turns that the context may include but that are not shown."""
    if not view.turns:
        return 0
    end = shown[0].depth if shown else view.turns[-1].depth + 1
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
