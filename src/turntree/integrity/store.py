"""Runs the checks of a workspace on PostgreSQL."""

from functools import partial

import anyio.to_thread

from turntree.core.ids import TurnId
from turntree.core.value import value
from turntree.db.database import Database
from turntree.integrity import fsck, repair, verify
from turntree.integrity.findings import ProjectionDiff, VerifyResult, Violation
from turntree.integrity.store_port import Report


@value
class IntegrityStore:
    """Verification, fsck and repair. Implements ``store_port.Checks``."""

    database: Database

    async def verify(self, head: TurnId) -> VerifyResult:
        """Hash the stored bytes of a thread from its root to a head."""
        return await verify.verify_thread(self.database, head)

    async def fsck(
        self, *, full: bool = True, report: Report = lambda _stage, _done, _total: None
    ) -> list[Violation]:
        """Check the whole workspace against the ledger's invariants."""
        return await fsck.fsck(self.database, full=full, report=report)

    async def repair_derived(self, *, dry_run: bool) -> list[ProjectionDiff]:
        """Rebuild the projections, and return what changed or would change."""
        database = self.database
        return await anyio.to_thread.run_sync(
            partial(repair.repair_derived, database.conninfo, database.workspace, dry_run=dry_run)
        )
