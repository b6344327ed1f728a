"""The checks of a workspace, behind one port."""

from functools import partial

import anyio.to_thread

from turntree.domain.checks import Change, Finding, Verified
from turntree.domain.ids import TurnId
from turntree.domain.value import value
from turntree.ports.checks import Report
from turntree.store import fsck, repair, verify
from turntree.store.database import Database


@value
class PostgresChecks:
    """Proofs and invariants, on PostgreSQL. See ``ports.checks``."""

    database: Database

    async def verify(self, head: TurnId) -> Verified:
        """Hash the stored bytes of a thread from its root to a head."""
        return await verify.verify_thread(self.database, head)

    async def fsck(
        self, *, full: bool = True, report: Report = lambda _stage, _done, _total: None
    ) -> list[Finding]:
        """Check the whole workspace against the ledger's invariants."""
        return await fsck.fsck(self.database, full=full, report=report)

    async def repair_derived(self, *, dry_run: bool) -> list[Change]:
        """Rebuild what follows from the facts, or only say what would change."""
        database = self.database
        return await anyio.to_thread.run_sync(
            partial(repair.repair_derived, database.conninfo, database.workspace, dry_run=dry_run)
        )
