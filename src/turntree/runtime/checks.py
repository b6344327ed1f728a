"""``tree.checks``: proving and checking what is stored, in the ledger and beside it.

What the ledger holds is checked by the ledger. What keepers hold is asked of them, for no row can
tell whether a file's bytes are still there.
"""

from dataclasses import dataclass
from functools import partial

from turntree.domain.checks import Change, Finding, Verified
from turntree.domain.errors import Unsupported
from turntree.domain.ids import TurnId
from turntree.ports import checks as ports
from turntree.ports.checks import Report
from turntree.ports.keepers import Prover
from turntree.runtime.resources import Resources, in_thread

RULE = "I68"
FINDINGS_MAX = 10_000
"""Where to stop looking: a store with this many faults needs its backup, not a longer list."""


@dataclass(frozen=True, slots=True)
class Checks:
    """Reads everything again. No fact is ever changed, and a projection only if asked for."""

    ledger: ports.Checks
    resources: Resources

    async def verify(self, head: TurnId) -> Verified:
        """Hash the stored bytes of a thread from its root to a head.

        Raises:
            NotFound: No such turn.
        """
        return await self.ledger.verify(head)

    async def fsck(
        self, *, full: bool = True, report: Report = lambda _stage, _done, _total: None
    ) -> list[Finding]:
        """Check the whole workspace against its invariants, and the files that turns pin.

        Without ``full`` nothing is hashed but the lists of folders.
        """
        findings = await self.ledger.fsck(full=full, report=report)
        return findings + await self._check_states(full=full, report=report)

    async def repair_derived(self, *, dry_run: bool) -> list[Change]:
        """Rebuild what follows from the facts and return what changed, or would change.

        Raises:
            Refused: The account does not own the database.
        """
        return await self.ledger.repair_derived(dry_run=dry_run)

    async def _check_states(self, *, full: bool, report: Report) -> list[Finding]:
        findings: list[Finding] = []
        for prover in await self._list_provers():
            pinned = await self.resources.list_pinned_states(prover.external_kind)
            unknown = await in_thread(prover.list_unknown, pinned.here)
            if unknown:
                findings.append(_warn(prover.external_kind, len(unknown)))
            here = pinned.here - unknown
            told = partial(_tell, report, len(here))
            look = partial(prover.list_losses, here, told, full=full, limit=FINDINGS_MAX)
            findings += [
                Finding(RULE, f"{one.path}: {one.why}", f"state {one.state}")
                for one in await in_thread(look)
            ]
        return findings

    async def _list_provers(self) -> list[Prover]:
        """Return what can tell of the states that are pinned; of others nobody here can.

        Kinds of resource may share their states: these are looked at once.
        """
        found: dict[str, Prover] = {}
        for kind in await self.resources.ledger.list_pinned_kinds():
            try:
                keeper = self.resources.keepers(kind)
            except Unsupported:
                continue
            if isinstance(keeper, Prover):
                found.setdefault(keeper.external_kind, keeper)
        return list(found.values())


def _warn(kind: str, count: int) -> Finding:
    """Return what is said of states that another home of this machine has to keep."""
    sentence = f"{count} pinned here, never kept in this home: see that another one has them"
    return Finding(RULE, sentence, f"states of {kind}", "warning")


def _tell(report: Report, total: int, done: int) -> None:
    report("files", done, total)
