"""What was sent to a session and could not be answered, beside what was.

A turn that failed before anything was done moves no session, so no thread leads to it. Whoever sent
the message looks for it there all the same. Must never know how turns are drawn.
"""

from collections.abc import Iterable

from turntree.cli.opening import Opened
from turntree.cli.verb import Terminal
from turntree.domain.ids import TurnId
from turntree.domain.session import Session
from turntree.domain.thread import Placed


async def read_last(opened: Opened, session: Session, count: int) -> tuple[Placed, ...]:
    """Return the last turns of a session, with those that failed beside it, oldest first."""
    if count == 0:
        return ()
    tree, threads = opened.tree, opened.tree.turns.threads
    thread = () if session.head is None else await tree.threads.read(session.head, last=count)
    failed = await tree.runs.list_failed(session.label)
    beside = [await threads.get_turn(TurnId(one.run)) for one in failed[-count:]]
    found = {placed.turn.id: placed for placed in (*thread, *beside)}
    return tuple(sorted(found.values(), key=newness)[-count:])


def newness(placed: Placed) -> tuple[str, int]:
    """Return what turns are put in order by where their threads do not say it."""
    return placed.turn.header.sealed_at, placed.depth


def note_failed(terminal: Terminal, names: Iterable[str]) -> None:
    """Say what can be done about turns that failed; the last one is the example."""
    *_, name = ("", *names)
    if name:
        read, again = f"turntree tail {name}", f"turntree rerun {name}"
        terminal.note(f"read how it failed with: {read}     ask again with: {again}")
