"""The plans facet: propose forks, restores and merges, execute them, and finish interrupted ones.

A proposal is a value that can be inspected and thrown away. Executing it either completes or leaves
everything as it was, whatever fails on the way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from turntree.core.errors import Conflict
from turntree.core.ids import PlanId, ResourceId
from turntree.core.program import Visibility
from turntree.core.value import Facet, value
from turntree.resources.plans.fork import Choice, ForkPlan, ForkProposer
from turntree.resources.plans.merge import (
    EVERYTHING,
    MergeChoices,
    MergePlan,
    MergeProposer,
    check_merge,
)
from turntree.resources.plans.merge_log import MergeOperation
from turntree.resources.plans.plan import PlanState, fold
from turntree.resources.plans.restore import (
    RestoreKind,
    RestorePlan,
    RestoreProposer,
    check_decided,
    site_of,
)
from turntree.resources.plans.saga import PlanOutcome, PlanRunner
from turntree.resources.plans.store import PlanStore


@value
class Plans(Facet):
    """``tree.plans``: forks and moves that include files."""

    facts: PlanStore
    saga: PlanRunner
    forks: ForkProposer
    restores: RestoreProposer
    merges: MergeProposer

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
        """Return what forking a turn would do to each resource; nothing is executed.

        Without a label no session is created, only the copies. With ``before`` everything is as it
        was before the turn. The session inherits the visibility of its source, unless
        ``visibility`` is given.

        Raises:
            NotFound: No such turn, or no resource with a given name.
            Conflict: The label is taken.
            Unsupported: ``snapshot`` was chosen for a resource that cannot be forked.
            InvalidOperation: A choice leaves a resource without a session, or to two.
        """
        return await self.forks.propose(
            revision,
            label,
            place=place,
            choices=choices,
            before=before,
            visibility=visibility,
        )

    async def propose_worktree(
        self, revision: str, place: str | None = None, *, before: bool = False
    ) -> ForkPlan:
        """Return the plan of a folder with the files that a turn left, and of its session.

        The session is named after the folder. With ``before`` the files are as the turn found them.

        Raises:
            NotFound: No such turn, or no snapshot of its files.
            PathExists: Something exists at the given location.
        """
        return await self.forks.propose_worktree(revision, place, before=before)

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
        """Return what moving a session with its files would change; nothing is executed.

        With ``before`` the session and its files go back to the state before that turn.

        ``exact`` restores every path, even those that others changed since; ``keep_conflicts``
        leaves paths alone that both sides changed. An undo needs no revision.

        Raises:
            NotFound: No such session or turn, or no turn there has a snapshot.
            InvalidOperation: The turn is not an ancestor, or there is nothing to undo.
        """
        return await self.restores.propose(
            session,
            revision,
            exact=exact,
            keep_conflicts=keep_conflicts,
            kind=kind,
            before=before,
        )

    async def propose_revert(self, revision: str, choices: MergeChoices = EVERYTHING) -> MergePlan:
        """Return what taking back a turn's file changes would do; nothing is executed.

        Later turns and other writers' changes stay. What they changed in the same lines is a
        conflict, and ``choices`` decides about it.

        Raises:
            NotFound: No such turn, or no snapshot shows the files before and after it.
        """
        return await self.merges.propose_revert(revision, choices)

    async def propose_pick(
        self, revisions: Sequence[str], place: str, choices: MergeChoices = EVERYTHING
    ) -> MergePlan:
        """Return what applying the file changes of turns in another folder would do.

        Raises:
            NotFound: No such turn, or no snapshot shows the files before and after it.
        """
        return await self.merges.propose_pick(revisions, place, choices)

    async def propose_undo(
        self, resource: ResourceId, choices: MergeChoices = EVERYTHING
    ) -> MergePlan:
        """Return what undoing the last revert or pick of a resource would do.

        Raises:
            InvalidOperation: There is nothing to undo.
        """
        return await self.merges.propose_undo(resource, choices)

    async def propose_redo(
        self, resource: ResourceId, choices: MergeChoices = EVERYTHING
    ) -> MergePlan:
        """Return what redoing the revert or pick that was undone last would do.

        Raises:
            InvalidOperation: There is nothing to redo.
        """
        return await self.merges.propose_redo(resource, choices)

    async def list_merges(self, resource: ResourceId) -> list[MergeOperation]:
        """Return the reverts and picks that changed a resource, oldest first."""
        return await self.merges.list_merges(resource)

    async def carry_out(self, proposal: ForkPlan | RestorePlan | MergePlan) -> PlanOutcome:
        """Execute a proposal: all of it, or nothing.

        Interrupted plans of other processes are finished first.

        Raises:
            InvalidOperation: There are unresolved conflicts, or something could not be rolled back
                and waits for ``reconcile``.
            Conflict: Another process is working on the same resources.
        """
        if isinstance(proposal, RestorePlan):
            check_decided(proposal)
        if isinstance(proposal, MergePlan):
            check_merge(proposal)
        await self.reconcile()
        if isinstance(proposal, MergePlan):
            return await self.saga.begin(await self.merges.build(proposal))
        outcome = await self.saga.begin(proposal.plan)
        if isinstance(proposal, ForkPlan) or outcome.end == "rolled_back":
            return outcome
        # Remove recreated resources last, after the session has moved: a crash before this leaves a
        # folder that also existed before.
        left: list[str] = []
        for item in proposal.items:
            if item.fate == "goes":
                site = site_of(item.resource)
                left += await self.saga.hands.unmake(site, item.target.external)
        return replace(outcome, left=(*outcome.left, *left))

    async def reconcile(self) -> list[PlanOutcome]:
        """Finish every interrupted plan of this machine that no process is executing.

        It decides by the recorded state: a plan with only its commit left is finished, every other
        plan is rolled back.

        Raises:
            InvalidOperation: Something could not be rolled back; the next call tries again.
        """
        outcomes: list[PlanOutcome] = []
        for id in await self.facts.list_open():
            state = await self.get(id)
            if state.end is not None or state.plan.host != self.saga.hands.host:
                continue
            try:
                outcomes.append(await self.saga.resume(state))
            except Conflict:
                continue  # Another process is executing it.
        return outcomes

    async def list_open(self) -> list[PlanState]:
        """Return the plans that have not ended, on any machine, oldest first."""
        return [await self.get(id) for id in await self.facts.list_open()]

    async def count_left(self) -> int:
        """Return how many plans of this machine have not ended; no other machine can end those."""
        host = self.saga.hands.host
        return sum(state.plan.host == host for state in await self.list_open())

    async def list_newest(self, limit: int = 20) -> list[PlanState]:
        """Return plans, newest first."""
        return [await self.get(id) for id in await self.facts.list_newest(limit=limit)]

    async def get(self, plan: PlanId) -> PlanState:
        """Return a plan and how far it got.

        Raises:
            NotFound: No such plan.
        """
        return fold([fact.event for fact in await self.facts.read(plan)])
