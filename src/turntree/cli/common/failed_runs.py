"""Failed turns of a session, listed beside the turns of its thread.

A turn that failed before it did anything moves no session, so no thread leads to it. The sender of
the message still looks for it in the session. Must never know how turns are printed.
"""

from collections.abc import Iterable

from turntree.cli.command import Terminal
from turntree.cli.context import CliContext
from turntree.core.ids import TurnId
from turntree.core.session import Session
from turntree.core.thread import ThreadTurn, newest_first


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


def note_failed(terminal: Terminal, names: Iterable[str]) -> None:
    """Print what can be done about failed turns, with the last one as the example."""
    *_, name = ("", *names)
    if name:
        read, again = f"turntree tail {name}", f"turntree rerun {name}"
        terminal.note(f"read how it failed with: {read}")
        terminal.note(f"ask again with: {again}")
