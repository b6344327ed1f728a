"""Settle the spool on an open ledger: hook events become turns and snapshots.

What was done while the database was stopped is recorded too.

Knows the spool, the ledger and how long it pays to wait. Must never print, and never open a ledger.
"""

import time
from typing import Final

import anyio

from turntree.api import Tree
from turntree.boot.offline import recorder_on
from turntree.boot.open import Settings, settling_on
from turntree.cli.judge_settle import settle_judge
from turntree.cli.settings import imports_privately, places_here
from turntree.core.ids import unix_ms
from turntree.db.database import Database
from turntree.hooks.reconcile import ReconcileResult
from turntree.hooks.spool import Spool
from turntree.hooks.unread_turns import list_unread_ids, unread_id
from turntree.resources.driver import TakenSnapshot
from turntree.system.clock import SystemClock

POLL_S: Final = 0.3
PATIENCE_S: Final = 6.0
"""How long a tool may take to write down a turn that has ended."""
KEEPING_MAX_S: Final = 150.0
"""How long the first snapshot of a large workspace may take."""


async def settle_spool(
    spool: Spool, database: Database, tree: Tree, settings: Settings
) -> ReconcileResult:
    """Settle the events of the spool, which this process has locked, and record operations.

    Returns when waiting a moment longer would settle nothing more.
    """
    total, began = ReconcileResult(), spool.now()
    started, world = time.monotonic(), SystemClock()
    settling = settling_on(database, tree, world, places_here(), private=imports_privately())
    recorder = recorder_on(tree, settings)
    imports = settling().importing.imports
    # First: a person can answer while an agent is still writing down its turn.
    await settle_judge(database, tree, settings, imports)
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
        # Before the events go: afterwards, no event tells which turn an operation was about.
        recorder.journal.name_turns({unread_id(end): id for end, id in settled.turns.items()})
        spool.remove(settled.done)
        await recorder.record_all(list_unread_ids(spool))
        for resource in settled.resources.values():
            await recorder.remember(resource)
        # A turn that just ended may be written down soon; one that ended long ago will not.
        fresh = unix_ms(world.now()) - PATIENCE_S * 1000
        is_coming = any(unix_ms(one.at) > fresh for one in settled.waiting)
        is_keeping = since is not None and time.monotonic() - started < KEEPING_MAX_S
        if not (is_coming or is_keeping):
            break
        await anyio.sleep(POLL_S)
    for text in await settle_judge(database, tree, settings, imports):
        total.complaints.append(text)
        spool.complain(f"sync: {text}")
    if not total.complaints:
        spool.overcome(began)
    if total.progress.turns_added:
        await tree.search.fill()
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
