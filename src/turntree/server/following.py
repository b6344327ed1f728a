"""Follows this machine while the server runs: new turns of tools that were imported, and hooks.

A tool is followed once something of it was imported: before that, only a click imports. Several
servers may run on one home folder; the one that holds the lock follows, and the others see its
turns in the feed.
"""

import asyncio
import logging
import time
from dataclasses import dataclass, field
from typing import Final

from turntree.api import Tree
from turntree.core.errors import TurntreeError
from turntree.server.machine import Machine
from turntree.system.processes import lock_file
from turntree.transcripts.importer import Importer, TranscriptRef

LOCK: Final = "follow.lock"
LOOK_S: Final = 0.5
"""How often transcripts are looked at."""
LOOK_SHARE_MAX: Final = 0.1
"""The share of a processor that looking may take: many transcripts are looked at less often."""
TOOLS_S: Final = 10.0
"""How often it is asked which tools were imported: another process may import one."""

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Follower:
    """Imports what the tools of this machine write, as they write it."""

    tree: Tree
    machine: Machine
    _stamps: dict[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """What each transcript was when it was last looked at."""
    _tools: tuple[str, ...] = ()
    _tools_at: float = float("-inf")
    _look_s: float = 0.0
    """Processor time that the last look for changes took."""

    async def run_hooks(self) -> None:
        """Import what hooks report until canceled; the spool has a lock of its own."""
        while True:
            try:
                await self.machine.sync_hooks()
            except (TurntreeError, OSError) as error:
                logger.warning("reading hook events failed: %s", error)
            await asyncio.sleep(LOOK_S)

    async def run(self) -> None:
        """Follow until canceled, whenever no other process on this home folder does."""
        self.machine.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.machine.home / LOCK).open("a") as lock:
            is_ours = False
            while True:
                # Another server may end, and leave the lock to this one.
                is_ours = is_ours or lock_file(lock.fileno())
                try:
                    if is_ours:
                        await self.look()
                except (TurntreeError, OSError) as error:
                    # A file that vanished, or a database that restarts: the next look tries again.
                    logger.warning("following failed: %s", error)
                await asyncio.sleep(max(LOOK_S, self._look_s / LOOK_SHARE_MAX))

    async def look(self) -> int:
        """Import what has changed since the last look; return the number of new turns."""
        async with self.machine.turn:
            changed = await self._find_changed()
            if not changed:
                return 0
            importing = self.machine.make_import()
            # A turn that is still running is imported when it has ended.
            importing.hold_open = True
            done = await importing.run(changed)
            self._stamps.update({(one.origin, one.id): one.stamp for _, one in changed})
            if done.turns_added:
                await self.tree.search.fill()
            return done.turns_added

    async def _find_changed(self) -> list[tuple[Importer, TranscriptRef]]:
        # Not the time that passes: on a busy machine a look waits, and costs no more for it.
        began, now = time.process_time(), time.monotonic()
        if now - self._tools_at > TOOLS_S:
            counts = await self.machine.make_import().imports.count_by_origin()
            self._tools = tuple(tool for tool in sorted(counts) if tool in self.machine.importers)
            self._tools_at = now
        changed: list[tuple[Importer, TranscriptRef]] = []
        for tool in self._tools:
            changed += [
                (importer, bundle)
                for importer, bundle in await self.machine.find(tool)
                if self._stamps.get((bundle.origin, bundle.id)) != bundle.stamp
            ]
        self._look_s = time.process_time() - began
        return changed
