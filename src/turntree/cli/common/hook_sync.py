"""Sync the spool: turn hook events into turns and snapshots, in whichever command runs next.

Knows the spool, the ledger and how long it pays to wait. Must never print.
"""

import anyio

from turntree.cli.command import Terminal
from turntree.cli.context import CliContext, open_ledger
from turntree.cli.hook_process.daemon import take_left
from turntree.cli.hook_process.entry import DRAINING
from turntree.cli.hook_settle import POLL_S, settle_spool
from turntree.hooks.judge_files import JudgeFiles
from turntree.hooks.reconcile import ReconcileResult
from turntree.hooks.spool import FOLDER, Spool

__all__ = ["POLL_S", "drain_here", "has_news", "read_spool"]


async def drain_here(opened: CliContext) -> ReconcileResult:
    """Read the spool with an open ledger, unless another process is reading it."""
    spool = Spool(opened.settings.home / FOLDER)
    judged = JudgeFiles(opened.settings.home)
    if not (spool.list_paths() or spool.list_said() or judged.has_news()):
        return ReconcileResult()
    with spool.reading() as is_mine:
        if not is_mine:
            return ReconcileResult()
        take_left(spool)
        return await settle_spool(spool, opened.database, opened.tree, opened.settings)


def read_spool(terminal: Terminal, spool: Spool) -> ReconcileResult:
    """Read the spool until waiting a moment longer would settle nothing more.

    Raises:
        DatabaseUnavailable: The database does not answer; everything stays in the spool.
    """
    take_left(spool)
    # The judge is told the policy in force whenever the spool is read.
    if not (spool.list_paths() or JudgeFiles(spool.folder.parent).folder.is_dir()):
        return ReconcileResult()

    async def settle() -> ReconcileResult:
        async with open_ledger(terminal) as opened:
            return await settle_spool(spool, opened.database, opened.tree, opened.settings)

    return anyio.run(settle)


def has_news(spool: Spool, settled: ReconcileResult) -> bool:
    """Whether the spool has an unread event that ends a turn."""
    seen = {sighting.id for sighting in settled.waiting}
    return any(
        one.sighting.kind in DRAINING and one.sighting.id not in seen for one in spool.read()
    )
