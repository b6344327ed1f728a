"""Reading of a thread what a context needs of it, and little more.

It begins at the end and stops when no more would fit. What is read follows from the thread and the
room alone, as ``domain.view`` demands.
"""

from collections.abc import Sequence
from typing import Final

from turntree.core.ids import TurnId
from turntree.core.thread import ThreadTurn
from turntree.ledger.thread_store_port import Threads
from turntree.models.context_window import ContextWindow, cost_of, make_view, view_of

FIRST_PAGE_TURNS: Final = 32
"""How many turns are asked for at first; each further page is twice as long."""


async def read_view(threads: Threads, head: TurnId | None, room_tokens: int) -> ContextWindow:
    """Return the end of a thread, as far back as might be shown in a room of so many tokens.

    Raises:
        NotFound: No such turn.
    """
    if head is None:
        return ContextWindow()
    last = await threads.get_turn(head)
    if last.depth <= FIRST_PAGE_TURNS:
        # A short thread is read in one go, and shows itself whether it was compacted.
        whole = (
            () if last.depth == 1 else await threads.list_range(head, low=1, high=last.depth - 1)
        )
        return view_of([*whole, last])
    found = await threads.find_compaction(head)
    if found is None:
        return make_view(await _read_back(threads, last, 1, room_tokens), first=1)
    at, kept = found
    (summary,) = [last] if at == last.depth else await threads.list_range(head, low=at, high=at)
    first = at + 1 if kept is None else kept
    turns = await _read_back(threads, last, first, room_tokens)
    return make_view([one for one in turns if one.depth != at], first=first, summary=summary)


async def _read_back(
    threads: Threads, last: ThreadTurn, first: int, room_tokens: int
) -> Sequence[ThreadTurn]:
    """Return turns from the last one back until they do not fit, or to the first that counts."""
    turns = [last] if last.depth >= first else []
    cost, size = sum(cost_of(one.turn) for one in turns), FIRST_PAGE_TURNS
    low = last.depth
    while low > first and cost <= room_tokens:
        high, low = low - 1, max(first, low - size)
        page = await threads.list_range(last.turn.id, low=low, high=high)
        turns[:0] = page
        cost += sum(cost_of(one.turn) for one in page)
        size *= 2
    return turns
