"""Looks after approvals that wait: reminds, escalates and expires them, beside a worker's runs.

Each step is one transaction, so any number of workers may look at once. What only waits costs one
look-up in an index.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from turntree.core.clock import Clock
from turntree.core.errors import TurntreeError
from turntree.core.ids import WorkspaceId
from turntree.core.value import value
from turntree.runs.approving.approval_store import ApprovalStore

AT_ONCE_MAX: Final = 200
"""Approvals of a workspace that are looked after in one look; the rest come with the next one."""
_LOG = logging.getLogger(__name__)


@value
class ApprovalSweep:
    """Looks after the approvals of a database."""

    store: ApprovalStore
    world: Clock
    store_in: Callable[[WorkspaceId], ApprovalStore]

    async def look(self, only: Sequence[WorkspaceId] | None = None) -> int:
        """Do what is due, in all workspaces of the database or in some; return how much it was."""
        now, count = self.world.now(), 0
        for workspace in await self.store.list_workspaces_due(at=now):
            if only is not None and workspace not in only:
                continue
            store = self.store_in(workspace)
            for id in await store.list_due(at=now, limit=AT_ONCE_MAX):
                try:
                    count += await store.attend(id, at=now) is not None
                except TurntreeError as error:
                    # The others do not wait for this one, which is looked at again.
                    _LOG.warning("approval %s: %s", id, error)
        return count
