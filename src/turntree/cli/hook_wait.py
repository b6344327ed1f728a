"""Wait for hook events that are not imported yet, so that ``HEAD`` is where an agent left it.

Knows the spool and the current folder. Must never import anything itself: that is
``cli.common.hook_sync``.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import anyio

from turntree.cli.command import Terminal
from turntree.cli.hook_process.entry import DRAINING, is_listening
from turntree.core.ids import Timestamp, unix_ms
from turntree.core.value import value
from turntree.hooks.spool import Spool
from turntree.system.clock import SystemClock

WAIT_MAX_S: Final = 6.0
"""How long after its end a turn is waited for; hooks import it much sooner."""
SILENCE_MAX_S: Final = 1.0
"""After this long, a note says what the command waits for."""
BIRTH_MAX_S: Final = 1.0
"""How long a daemon that a hook has started may take to come up."""
POLL_S: Final = 0.05


@value
class _End:
    """The end of a turn that is still to be read."""

    at_ms: int
    place: str | None
    """The workspace folder; None if it has no snapshots, so any folder may be meant."""
    is_said: bool
    """Whether not even the daemon has processed it."""


async def wait_for_hooks(spool: Spool, terminal: Terminal) -> None:
    """Return when no turn that just ended here is still being imported."""
    began, is_silent = time.monotonic(), True
    while is_coming(spool, Path.cwd(), SystemClock().now()):
        waited_s = time.monotonic() - began
        if waited_s > WAIT_MAX_S:
            return
        if is_silent and waited_s > SILENCE_MAX_S:
            is_silent = False
            terminal.note(terminal.spell("waiting for what your agent just did to be recorded …"))
        await anyio.sleep(POLL_S)


def is_coming(spool: Spool, here: Path, now: Timestamp) -> bool:
    """Whether a turn ended here a moment ago and a process is about to import it."""
    fresh = unix_ms(now) - WAIT_MAX_S * 1000
    inside = {str(at) for at in (here.resolve(), *here.resolve().parents)}
    ends = [
        end
        for end in (*_list_said(spool), *_list_seen(spool))
        if end.at_ms > fresh and (end.place is None or end.place in inside)
    ]
    if not ends:
        return False
    newborn = unix_ms(now) - BIRTH_MAX_S * 1000
    is_called = any(end.is_said and end.at_ms > newborn for end in ends)
    return is_called or is_listening(str(spool.folder))


def _list_said(spool: Spool) -> Iterator[_End]:
    said = spool.list_said()
    if not said:
        return
    # Imported late: it loads all resource drivers, and there is rarely anything to wait for.
    from turntree.cli.hook_process.daemon import read_said

    for path in said:
        try:
            told = read_said(path, str(spool.folder.parent))
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            continue  # The daemon logs what is wrong with it.
        if told["kind"] in DRAINING and not told["agent"]:
            yield _End(told["at_ms"], told["place"], is_said=True)


def _list_seen(spool: Spool) -> Iterator[_End]:
    for one in spool.read():
        sighting = one.sighting
        # A subagent's end is imported with its parent turn's end, which may be far away.
        if sighting.kind in DRAINING and sighting.stream.agent is None:
            yield _End(unix_ms(sighting.at), sighting.place, is_said=False)
