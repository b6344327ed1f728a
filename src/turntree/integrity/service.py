"""``tree.checks``: proving and checking what is stored, in the ledger and beside it.

What the ledger holds is checked by the ledger. What keepers hold is asked of them, for no row can
tell whether a file's bytes are still there.
"""

from collections.abc import Collection
from contextlib import suppress
from functools import partial

from turntree.core.errors import NotFound, Unsupported
from turntree.core.ids import Digest, TurnId
from turntree.core.value import value
from turntree.integrity import store_port as ports
from turntree.integrity.findings import ProjectionDiff, VerifyResult, Violation
from turntree.integrity.store_port import Report
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
"""Where to stop looking: a store with this many faults needs its backup, not a longer list."""


@value
class Checks:
    """Reads everything again. No fact is ever changed, and a projection only if asked for."""

    ledger: ports.Checks
    resources: Resources

    async def verify(self, head: TurnId) -> VerifyResult:
        """Hash the stored bytes of a thread from its root to a head.

        Raises:
            NotFound: No such turn.
        """
        return await self.ledger.verify(head)

    async def fsck(
        self, *, full: bool = True, report: Report = lambda _stage, _done, _total: None
    ) -> list[Violation]:
        """Check the whole workspace against its invariants, and the files that turns pin.

        Without ``full`` nothing is hashed but the lists of folders.
        """
        findings = await self.ledger.fsck(full=full, report=report)
        return findings + await self._check_states(full=full, report=report)

    async def repair_derived(self, *, dry_run: bool) -> list[ProjectionDiff]:
        """Rebuild what follows from the facts and return what changed, or would change.

        Pinned files that are damaged or missing are kept anew where the same bytes still stand at
        a place; whether they do shows only when it is done.

        Raises:
            Refused: The account does not own the database.
        """
        # The ledger first: whoever may not repair it moves no file either.
        changes = await self.ledger.repair_derived(dry_run=dry_run)
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
        """Keep anew what was damaged or lost and still stands somewhere; return what came back."""
        changes: list[ProjectionDiff] = []
        for prover in await self._list_provers():
            if isinstance(prover, RepairsSnapshots):
                changes += await self._mend(prover)
        return changes

    async def _mend(self, mender: RepairsSnapshots) -> list[ProjectionDiff]:
        pinned = await self.resources.list_pinned_states(mender.external_kind)
        states = pinned.here - await in_thread(mender.list_unknown, pinned.here)
        lost = left = await _list_losses(mender, states, _unheard, full=True)
        # What stands on something damaged is tried last: it may be sound once that is back.
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
        """Keep what stands at every place of this machine, as far as it can be read."""
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
        """Return what can tell of the states that are pinned; of others nobody here can.

        Kinds of resource may share their states: these are looked at once.
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
    """Tell nobody."""


def _warn(kind: str, count: int) -> Violation:
    """Return what is said of states that another home of this machine has to keep."""
    sentence = f"{count} pinned here, never kept in this home: see that another one has them"
    return Violation(RULE, sentence, f"states of {kind}", "warning")


def _tell(report: Report, total: int, done: int) -> None:
    report("files", done, total)
