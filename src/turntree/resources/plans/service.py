"""What can be done with plans: proposing them, carrying them out, bringing broken ones to an end.

A proposal is a value that can be looked at and thrown away. Carried out, it ends in the new world
or leaves the old one, whatever happens on the way.
"""

from collections.abc import Mapping
from dataclasses import replace

from turntree.core.errors import Conflict
from turntree.core.ids import PlanId
from turntree.core.program import Visibility
from turntree.core.value import value
from turntree.resources.plans import store_port as plan_ports
from turntree.resources.plans.fork import Choice, ForkPlan, ForkProposer
from turntree.resources.plans.plan import PlanState, fold
from turntree.resources.plans.restore import (
    RestoreKind,
    RestorePlan,
    RestoreProposer,
    check_decided,
    site_of,
)
from turntree.resources.plans.saga import PlanOutcome, PlanRunner


@value
class Plans:
    """``tree.plans``: forks and moves that take files with them."""

    facts: plan_ports.Plans
    saga: PlanRunner
    forks: ForkProposer
    restores: RestoreProposer

    async def propose_fork(
        self,
        revision: str,
        label: str | None,
        *,
        place: str | Mapping[str, str] | None = None,
        choices: Mapping[str, Choice] | None = None,
        before: bool = False,
        visibility: Visibility | None = None,
    ) -> ForkPlan:
        """Return what forking a turn would do to each resource; nothing is done.

        Without a label no session begins: the places alone are made. With ``before`` everything
        is as the turn found it. The session is as private as what it is made from, unless
        ``visibility`` says otherwise.

        Raises:
            NotFound: No such turn, or a resource is named that is not there.
            Conflict: The label is taken.
            Unsupported: A resource that cannot be brought back was to be.
            Refused: A choice that leaves a resource to nobody, or to two.
        """
        return await self.forks.propose(
            revision,
            label,
            place=place,
            choices=choices,
            before=before,
            visibility=visibility,
        )

    async def propose_restore(
        self,
        session: str,
        revision: str | None = None,
        *,
        exact: bool = False,
        keep_conflicts: bool = False,
        kind: RestoreKind = "rewind",
        before: bool = False,
    ) -> RestorePlan:
        """Return what moving a session with its files would change; nothing is done.

        With ``before`` it goes where it stood before that turn, with the files as they were then.

        ``exact`` makes everything as it was then, whoever changed it; ``keep_conflicts`` leaves
        alone what both sides changed. An undo needs no revision.

        Raises:
            NotFound: No such session or turn, or no turn there knows any files.
            Refused: The turn is no ancestor, or there is nothing to undo.
        """
        return await self.restores.propose(
            session,
            revision,
            exact=exact,
            keep_conflicts=keep_conflicts,
            kind=kind,
            before=before,
        )

    async def carry_out(self, proposal: ForkPlan | RestorePlan) -> PlanOutcome:
        """Carry a proposal out: all of it, or nothing.

        What somebody else left unfinished is brought to an end first.

        Raises:
            Refused: There are conflicts that nobody has decided, or something could not be taken
                back and waits for ``reconcile``.
            Conflict: Somebody else is at work on the same resources.
        """
        if isinstance(proposal, RestorePlan):
            check_decided(proposal)
        await self.reconcile()
        outcome = await self.saga.begin(proposal.plan)
        if isinstance(proposal, ForkPlan) or outcome.end == "rolled_back":
            return outcome
        # Last, when the session stands where it belongs: whoever dies before leaves a folder that
        # was there before as well.
        left: list[str] = []
        for item in proposal.items:
            if item.fate == "goes":
                site = site_of(item.resource)
                left += await self.saga.hands.unmake(site, item.target.external)
        return replace(outcome, left=(*outcome.left, *left))

    async def reconcile(self) -> list[PlanOutcome]:
        """Bring every plan of this machine to an end that nobody is carrying out any more.

        Looks at what is, not at what was meant: what is all done but for the last step is
        finished, everything else is taken back.

        Raises:
            Refused: Something could not be taken back; it is tried again next time.
        """
        outcomes: list[PlanOutcome] = []
        for id in await self.facts.list_open():
            state = await self.get(id)
            if state.end is not None or state.plan.host != self.saga.hands.host:
                continue
            try:
                outcomes.append(await self.saga.resume(state))
            except Conflict:
                continue  # Somebody is at work on it.
        return outcomes

    async def list_open(self) -> list[PlanState]:
        """Return the plans that have not ended, of any machine, oldest first."""
        return [await self.get(id) for id in await self.facts.list_open()]

    async def count_left(self) -> int:
        """Return how many plans of this machine have not ended; no other can end those."""
        host = self.saga.hands.host
        return sum(state.plan.host == host for state in await self.list_open())

    async def list_newest(self, limit: int = 20) -> list[PlanState]:
        """Return plans, newest first."""
        return [await self.get(id) for id in await self.facts.list_newest(limit=limit)]

    async def get(self, plan: PlanId) -> PlanState:
        """Return a plan and how far it came.

        Raises:
            NotFound: No such plan.
        """
        return fold([fact.event for fact in await self.facts.read(plan)])
