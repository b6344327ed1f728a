"""Failed turns of a session, listed beside the turns of its thread.

A turn that failed before it did anything moves no session, so no thread leads to it. The sender of
the message still looks for it in the session. Must never know how turns are printed.
"""

from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush

from turntree.cli.command import Terminal
from turntree.cli.context import CliContext
from turntree.core.ids import TurnId
from turntree.core.session import Session
from turntree.core.thread import ThreadTurn


async def read_last(opened: CliContext, session: Session, count: int) -> tuple[ThreadTurn, ...]:
    """Return the last turns of a session and the failed ones beside it, oldest first."""
    if count == 0:
        return ()
    tree, threads = opened.tree, opened.tree.turns.threads
    thread = () if session.head is None else await tree.threads.read(session.head, last=count)
    failed = await tree.runs.list_failed(session.label)
    beside = [await threads.get_turn(TurnId(one.run)) for one in failed[-count:]]
    found = {placed.turn.id: placed for placed in (*thread, *beside)}
    return await tree.turns.restore([*reversed(newest_first(found.values())[:count])])


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


def note_failed(terminal: Terminal, names: Iterable[str]) -> None:
    """Print what can be done about failed turns, with the last one as the example."""
    *_, name = ("", *names)
    if name:
        read, again = f"turntree tail {name}", f"turntree rerun {name}"
        terminal.note(f"read how it failed with: {read}")
        terminal.note(f"ask again with: {again}")
