"""``tree.checks``: verify, fsck and repair, for the ledger and for snapshots.

The ledger checks its own content. Snapshots are checked by their drivers, because no row can show
whether a file's bytes still exist.
"""

from collections.abc import Collection
from contextlib import suppress
from functools import partial

import anyio.to_thread

from turntree.core.errors import NotFound, Unsupported
from turntree.core.ids import Digest, TurnId
from turntree.core.value import Facet, value
from turntree.db.database import Database
from turntree.integrity import fsck, repair, verify
from turntree.integrity.findings import ProjectionDiff, Report, VerifyResult, Violation
from turntree.resources.driver import (
    MissingObject,
    RepairsSnapshots,
    ResourceDriver,
    VerifiesSnapshots,
)
from turntree.resources.resource import Resource
from turntree.resources.service import Resources, in_thread

RULE = "I68"
PAGE = 1000
FINDINGS_MAX = 10_000
"""Stop after this many findings: such a store needs its backup, not a longer list."""


@value
class Checks(Facet):
    """The facet ``tree.checks``. It never changes turns or events; repair changes projections."""

    database: Database
    """Seen by a viewer from whom nothing is hidden."""
    resources: Resources

    async def verify(self, head: TurnId) -> VerifyResult:
        """Hash the stored bytes of a thread from its root to a head.

        Raises:
            NotFound: No such turn.
        """
        return await verify.verify_thread(self.database, head)

    async def fsck(
        self, *, full: bool = True, report: Report = lambda _stage, _done, _total: None
    ) -> list[Violation]:
        """Check the whole workspace against its invariants, and the snapshots that turns refer to.

        Without ``full`` only the lists of folders are hashed.
        """
        findings = await fsck.fsck(self.database, full=full, report=report)
        return findings + await self._check_states(full=full, report=report)

    async def repair_derived(self, *, dry_run: bool) -> list[ProjectionDiff]:
        """Rebuild the projections, and return what changed or would change.

        Damaged or missing files of snapshots are stored again if a resource still has the same
        bytes; only the attempt shows whether it does.

        Raises:
            InvalidOperation: The account does not own the database.
        """
        # The ledger first: a caller who may not repair it must not change files either.
        database = self.database
        changes = await anyio.to_thread.run_sync(
            partial(repair.repair_derived, database.conninfo, database.workspace, dry_run=dry_run)
        )
        return changes if dry_run else await self._mend_states() + changes

    async def _check_states(self, *, full: bool, report: Report) -> list[Violation]:
        findings: list[Violation] = []
        for prover in await self._list_provers():
            pinned = await self.resources.list_pinned_states(prover.external_kind)
            unknown = await in_thread(prover.list_unknown, pinned.here)
            if unknown:
                findings.append(_warn(prover.external_kind, len(unknown)))
            findings += [
                Violation(RULE, f"{one.path}: {one.why}", f"state {one.state}")
                for one in await _list_losses(prover, pinned.here - unknown, report, full=full)
            ]
        return findings

    async def _mend_states(self) -> list[ProjectionDiff]:
        """Store damaged or missing files again where a copy exists; return what was restored."""
        changes: list[ProjectionDiff] = []
        for prover in await self._list_provers():
            if isinstance(prover, RepairsSnapshots):
                changes += await self._mend(prover)
        return changes

    async def _mend(self, mender: RepairsSnapshots) -> list[ProjectionDiff]:
        pinned = await self.resources.list_pinned_states(mender.external_kind)
        states = pinned.here - await in_thread(mender.list_unknown, pinned.here)
        lost = left = await _list_losses(mender, states, _unheard, full=True)
        # Snapshots that depend on a damaged one are retried last: repairing that may fix them.
        for unreadable in (False, True):
            if left:
                await in_thread(partial(mender.mend, unreadable=unreadable))
                await self._keep_present(mender.external_kind)
                if unreadable:
                    await in_thread(mender.put_back)
                left = await _list_losses(mender, states, _unheard, full=True)
        missing = {(one.state, one.path) for one in left}
        return [
            ProjectionDiff(mender.external_kind, f"{one.path} of {one.state}", removed=0, added=1)
            for one in lost
            if (one.state, one.path) not in missing
        ]

    async def _keep_present(self, external_kind: str) -> None:
        """Snapshot every resource of this machine that can be read."""
        page = await self.resources.ledger.list_page(limit=PAGE)
        while page:
            for resource in page:
                keeper = self._find_keeper(resource)
                if isinstance(keeper, RepairsSnapshots) and keeper.external_kind == external_kind:
                    with suppress(NotFound, OSError):
                        await in_thread(keeper.snapshot, resource.place)
            page = await self.resources.ledger.list_page(after=page[-1].id, limit=PAGE)

    def _find_keeper(self, resource: Resource) -> ResourceDriver | None:
        if resource.host != self.resources.host:
            return None
        try:
            return self.resources.keeper_of(resource)
        except Unsupported:
            return None

    async def _list_provers(self) -> list[VerifiesSnapshots]:
        """Return the drivers that can verify snapshots; others cannot be checked here.

        Resource kinds may share a store, which is checked once.
        """
        found: dict[str, VerifiesSnapshots] = {}
        for kind in await self.resources.ledger.list_pinned_kinds():
            try:
                keeper = self.resources.keepers(kind)
            except Unsupported:
                continue
            if isinstance(keeper, VerifiesSnapshots):
                found.setdefault(keeper.external_kind, keeper)
        return list(found.values())


async def _list_losses(
    prover: VerifiesSnapshots, states: Collection[Digest], report: Report, *, full: bool
) -> list[MissingObject]:
    told = partial(_tell, report, len(states))
    look = partial(prover.list_losses, states, told, full=full, limit=FINDINGS_MAX)
    return await in_thread(look)


def _unheard(_stage: str, _done: int, _total: int) -> None:
    """Report nothing."""


def _warn(kind: str, count: int) -> Violation:
    """Return the warning about snapshots that another home of this machine has to hold."""
    sentence = f"{count} pinned here, never kept in this home: see that another one has them"
    return Violation(RULE, sentence, f"states of {kind}", "warning")


def _tell(report: Report, total: int, done: int) -> None:
    report("files", done, total)
