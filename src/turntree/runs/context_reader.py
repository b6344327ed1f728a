"""Reads the part of a thread that fits a model's context, and little more.

It reads from the end and stops when nothing more would fit. What it reads depends only on the
thread and the room, as ``models.context_window`` requires.
"""

from collections.abc import Sequence
from typing import Final

from turntree.core.ids import TurnId
from turntree.core.thread import ThreadTurn
from turntree.ledger.thread_store import ThreadStore
from turntree.models.context_window import ContextWindow, cost_of, make_view, view_of

FIRST_PAGE_TURNS: Final = 32
"""Turns in the first page; each further page is twice as long, so a long thread takes few reads."""


async def read_view(threads: ThreadStore, head: TurnId | None, room_tokens: int) -> ContextWindow:
    """Return the end of a thread, as far back as fits into ``room_tokens``.

    Raises:
        NotFound: No such turn.
    """
    if head is None:
        return ContextWindow()
    last = await threads.get_turn(head)
    if last.depth <= FIRST_PAGE_TURNS:
        # A short thread takes one read, which also shows whether it was compacted.
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
    threads: ThreadStore, last: ThreadTurn, first: int, room_tokens: int
) -> Sequence[ThreadTurn]:
    """Return turns from the last one back until they no longer fit, or to depth ``first``."""
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
