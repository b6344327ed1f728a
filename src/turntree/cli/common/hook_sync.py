"""Sync the spool: turn hook events into turns and snapshots, in whichever command runs next.

Knows the spool, the ledger and how long it pays to wait. Must never print.
"""

import time
from typing import Final

import anyio

from turntree.boot.open import settling_on
from turntree.cli.command import Terminal
from turntree.cli.context import CliContext, open_ledger
from turntree.cli.hook_process.daemon import take_left
from turntree.cli.hook_process.entry import DRAINING
from turntree.cli.settings import imports_privately, places_here
from turntree.core.ids import unix_ms
from turntree.hooks.reconcile import ReconcileResult
from turntree.hooks.spool import FOLDER, Spool
from turntree.resources.driver import TakenSnapshot
from turntree.system.clock import SystemClock

POLL_S: Final = 0.3
PATIENCE_S: Final = 6.0
"""How long a tool may take to write down a turn that has ended."""
KEEPING_MAX_S: Final = 150.0
"""How long the first snapshot of a large workspace may take."""


async def drain_here(opened: CliContext) -> ReconcileResult:
    """Read the spool with an open ledger, unless another process is reading it."""
    spool = Spool(opened.settings.home / FOLDER)
    if not (spool.list_paths() or spool.list_said()):
        return ReconcileResult()
    with spool.reading() as is_mine:
        if not is_mine:
            return ReconcileResult()
        take_left(spool)
        return await _settle(spool, opened)


def read_spool(terminal: Terminal, spool: Spool) -> ReconcileResult:
    """Read the spool until waiting a moment longer would settle nothing more.

    Raises:
        DatabaseUnavailable: The database does not answer; everything stays in the spool.
    """
    take_left(spool)
    if not spool.list_paths():
        return ReconcileResult()

    async def settle() -> ReconcileResult:
        async with open_ledger(terminal) as opened:
            return await _settle(spool, opened)

    return anyio.run(settle)


def has_news(spool: Spool, settled: ReconcileResult) -> bool:
    """Whether the spool has an unread event that ends a turn."""
    seen = {sighting.id for sighting in settled.waiting}
    return any(
        one.sighting.kind in DRAINING and one.sighting.id not in seen for one in spool.read()
    )


async def _settle(spool: Spool, opened: CliContext) -> ReconcileResult:
    total, began = ReconcileResult(), spool.now()
    started, world = time.monotonic(), SystemClock()
    settling = settling_on(
        opened.database, opened.tree, world, places_here(), private=imports_privately()
    )
    while True:
        said = spool.first_said()
        found = spool.read()
        states: dict[str, TakenSnapshot] = {
            one.sighting.id: one.taken for one in found if one.taken is not None
        }
        # A turn waits for the snapshot of its workspace, and later turns wait for it.
        unready = [one.sighting.id for one in found if one.is_pending]
        if said is not None:
            unready.append(said)
        since = min(unready, default=None)
        ready = [one.sighting for one in found if since is None or one.sighting.id < since]
        settled = await settling().settle(ready, states)
        _note(spool, settled, total, [one.error for one in found if one.error])
        spool.remove(settled.done)
        # A turn that just ended may be written down soon; one that ended long ago will not.
        fresh = unix_ms(world.now()) - PATIENCE_S * 1000
        is_coming = any(unix_ms(one.at) > fresh for one in settled.waiting)
        is_keeping = since is not None and time.monotonic() - started < KEEPING_MAX_S
        if not (is_coming or is_keeping):
            break
        await anyio.sleep(POLL_S)
    if not total.complaints:
        spool.overcome(began)
    if total.progress.turns_added:
        await opened.tree.search.fill()
    return total


def _note(
    spool: Spool, settled: ReconcileResult, total: ReconcileResult, errors: list[str]
) -> None:
    for text in (*settled.complaints, *errors):
        if text not in total.complaints:
            total.complaints.append(text)
            spool.complain(f"sync: {text}")
    total.done += settled.done
    total.waiting, total.open = settled.waiting, settled.open
    total.pinned += settled.pinned
    total.known += settled.known
    total.progress.turns_added += settled.progress.turns_added
    if settled.done:
        last = settled.done[-1]
        spool.note_last({
            "tool": last.stream.tool, "session": last.stream.session, "kind": last.kind,
            "at": last.at, "place": last.place,
        })  # fmt: skip
