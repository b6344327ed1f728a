"""Propose a restore: which files would change, which stay, and which are in conflict.

Nothing is executed here, except that the present state is captured for the comparison. Changes of
the turns that are undone are reverted; changes of other writers stay; a path that both changed is a
conflict that the caller has to resolve.
"""

from collections.abc import Sequence
from typing import Literal

from turntree.core.errors import Hint, InvalidOperation, NotFound
from turntree.core.ids import PlanId, ResourceId, SessionId, Timestamp, TurnId
from turntree.core.ref import ExtRef
from turntree.core.session import Session, SessionMove, undo_target
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.resources.attribution import RestoreDecision, Side, of_paths, settle
from turntree.resources.changes_since import ChangeAttribution
from turntree.resources.driver import HasFiles
from turntree.resources.lineage import inherit
from turntree.resources.plans.plan import PlanState, fold
from turntree.resources.plans.step_executor import StepExecutor
from turntree.resources.plans.steps import (
    ForkResource,
    MoveHead,
    Plan,
    RestoreResource,
    Step,
    StepTarget,
    TakeSnapshot,
)
from turntree.resources.plans.store import PlanStore
from turntree.resources.resource import FileChange, ResolvedTurnSnapshot, Resource, Snapshot
from turntree.resources.service import PINNED_TURNS_MAX, Resources, find_files, in_thread

RestoreKind = Literal["rewind", "reset", "undo"]
MOVES_PAGE = 1000
CONFLICTS_SHOWN_MAX = 10


@value
class RestoreItem:
    """What would happen to one resource."""

    resource: Resource
    target: Snapshot
    """The state to restore."""
    pinned_by: TurnId | None
    """The turn that left it so: the requested one, or its nearest ancestor with a snapshot."""
    present: ExtRef | None
    """The present state; None if the resource is gone or cannot be captured."""
    changes: tuple[FileChange, ...] = ()
    """What would be restored, from the present state to the target."""
    kept: tuple[FileChange, ...] = ()
    """What stays, because only other writers changed it."""
    conflicts: tuple[FileChange, ...] = ()
    """What both the undone turns and other writers changed."""
    supported: bool = True
    """Whether it can be restored at all."""
    whole: bool = False
    """Whether all of it is restored, path by path or not."""
    fate: Literal["stands", "goes", "outlives"] = "stands"
    """What an undo does to a resource the move created: remove it, unless it changed since."""

    @property
    def acts(self) -> bool:
        """Whether the restore would change it."""
        return self.supported and (self.whole or bool(self.changes))


@value
class RestorePlan:
    """A proposed restore."""

    plan: Plan
    session: Session
    move: RestoreKind
    target: TurnId | None
    """The head of the session afterwards."""
    items: tuple[RestoreItem, ...]
    unknown: tuple[Resource, ...] = ()
    """Resources of the session of which no turn at or above the target has a snapshot."""
    undecided: bool = False
    """Whether there are unresolved conflicts: the plan cannot be executed."""

    @property
    def conflicts(self) -> tuple[tuple[Resource, FileChange], ...]:
        """Every conflict, with its resource."""
        return tuple((item.resource, one) for item in self.items for one in item.conflicts)


@value
class RestoreProposer:
    """Works out what a restore would do."""

    resources: Resources
    plans: PlanStore
    hands: StepExecutor

    async def propose(
        self,
        session: str,
        revision: str | None,
        *,
        exact: bool = False,
        keep_conflicts: bool = False,
        kind: RestoreKind = "rewind",
        before: bool = False,
    ) -> RestorePlan:
        """Return the plan of moving a session together with the files it works on.

        With ``before`` the session goes back to the state before that turn.

        Raises:
            NotFound: No such session or turn, or no turn there has a snapshot.
            InvalidOperation: The turn is not an ancestor, or there is nothing to undo.
        """
        found = await self.resources.sessions.get(session)
        if kind == "undo":
            target, items = await self._undo_items(found, exact=exact)
        else:
            if revision is None:
                raise InvalidOperation(f"where should {found.label} {kind} to?")
            asked = (await self.resources.revisions.resolve(revision)).turn
            turn = await self.resources.threads.get_turn(asked)
            target = turn.parent if before else asked
            items = await self._items(found, turn, kind, exact=exact, before=before)
        named = {item.resource.id for item in items}
        attached = await self.resources.attachments.list_attached(found.id)
        unknown = tuple(one for one, _ in attached if one.id not in named)
        move: RestoreKind = "reset" if kind != "undo" and target == found.head else kind
        undecided = not keep_conflicts and any(item.conflicts for item in items)
        plan = await self._plan(found, move, target, items)
        return RestorePlan(
            plan, found, move, target, tuple(items), () if kind == "undo" else unknown, undecided
        )

    async def _items(
        self, session: Session, turn: ThreadTurn, kind: RestoreKind, *, exact: bool, before: bool
    ) -> list[RestoreItem]:
        threads, head, target = self.resources.threads, session.head, turn.turn.id
        if head is None:
            raise InvalidOperation(f"{session.label} has no turns yet")
        base = await threads.find_common_ancestor(head, target)
        if kind == "rewind" and base != target:
            raise InvalidOperation(
                f"a session rewinds to an ancestor of its head, and {target} is none"
            )
        attached = await self.resources.attachments.list_attached(session.id)
        heirs = await self.resources.find_heirs(head, [one for one, _ in attached])
        if before:
            wanted = await self.resources.pins_before(turn, heirs)
            base, bases = turn.parent, wanted
        else:
            wanted = await self.resources.nearest_pins(target, heirs)
            bases = {} if base is None else await self.resources.nearest_pins(base, heirs)
        if not wanted:
            raise NotFound(f"no turn at {target} or above it knows any files")
        if not attached:
            await self._check_left(session, [one.resource for one in wanted.values()])
        depth = 0 if base is None else (await threads.get_turn(base)).depth
        left = [one for one, _ in await self.resources.pins.list_below(head, depth)]
        along = inherit(await self.resources.pins_along(head, PINNED_TURNS_MAX), heirs)
        return [
            await self._item(pinned, bases.get(id), along, left, exact=exact)
            for id, pinned in wanted.items()
        ]

    async def _check_left(self, session: Session, places: Sequence[Resource]) -> None:
        """Raise if other sessions work on these resources and this session does not."""
        for place in places:
            if await self.resources.attachments.has_holders(place.id):
                raise InvalidOperation(
                    f"{session.label} no longer works at {place.place}, and other sessions do",
                    hint=Hint("worktree.create", {"revision": session.label}),
                )

    async def _item(
        self,
        wanted: ResolvedTurnSnapshot,
        base: ResolvedTurnSnapshot | None,
        along: Sequence[ResolvedTurnSnapshot],
        left: Sequence[TurnId],
        *,
        exact: bool,
    ) -> RestoreItem:
        resource, target = wanted.resource, wanted.after
        by = wanted.pin.turn
        if not self._can_restore(resource) or not target.restorable:
            return RestoreItem(resource, target, by, None, supported=False)
        present = await self._present(resource)
        files = find_files(self.resources.keeper_of(resource))
        if present is None or files is None:
            whole = present != target.external
            return RestoreItem(resource, target, by, present, whole=whole)
        differences = await in_thread(files.compare, present, target.external)
        if exact:
            return RestoreItem(
                resource, target, by, present, tuple(differences), whole=bool(differences)
            )
        chain = _since(resource, base, along)
        start = None if base is None else base.after.external
        # Sessions hidden from the viewer count too: their changes must not be reverted as ours.
        deeds = await ChangeAttribution(self.resources.all_pins).since(
            files, resource, start, chain, present, left
        )
        changed = await in_thread(_changed, files, start, target.external)
        settled = settle(differences, deeds, changed)
        return _item(resource, target, by, present, settled)

    async def _undo_items(
        self, session: Session, *, exact: bool
    ) -> tuple[TurnId | None, list[RestoreItem]]:
        taken_back = await self._taken_back(session.id)
        if taken_back is None:
            raise InvalidOperation("there is nothing to undo")
        plan = await self.plans.find_of_move(session.id, taken_back.version)
        if plan is None:
            return taken_back.before, []
        events = [fact.event for fact in await self.plans.read(plan)]
        state, began = fold(events), events[0].at
        items: list[RestoreItem] = []
        for step in state.plan.steps:
            if isinstance(step, RestoreResource) and step.supported:
                items.append(await self._undo_item(state, step, exact=exact))
            elif isinstance(step, ForkResource) and state.plan.kind == "restore":
                items += await self._unmake_item(session, step, began)
        return taken_back.before, items

    async def _taken_back(self, session: SessionId) -> SessionMove | None:
        """Return the move that the next undo reverts."""
        moves: list[SessionMove] = []
        reflog, before = self.resources.sessions.reflog, 2**31 - 1
        while page := await reflog.list_moves(session, before=before, limit=MOVES_PAGE):
            moves += page
            before = page[-1].version
        return undo_target(moves[::-1])

    async def _undo_item(
        self, state: PlanState, step: RestoreResource, *, exact: bool
    ) -> RestoreItem:
        """Return what undoing a restore would do: its paths get the content they had before."""
        resource = await self.resources.ledger.get(step.site.resource)
        assert step.safety is not None, "the present is kept before it is replaced"
        kept = state.observed[step.safety].snapshot
        assert kept is not None, "a plan that is done has kept the present"
        target = await self.resources.ledger.get_snapshot(kept)
        present = await self._present(resource)
        files = find_files(self.resources.keeper_of(resource))
        if present is None or files is None:
            whole = present != target.external
            return RestoreItem(resource, target, None, present, whole=whole)
        only = await self.hands.paths(step.only)
        differences = of_paths(await in_thread(files.compare, present, target.external), only)
        since = await in_thread(_changed, files, step.external, present)
        deeds: list[dict[str, Side]] = [] if exact else [dict.fromkeys(since, "others")]
        changed = await in_thread(_changed, files, step.external, target.external)
        return _item(resource, target, None, present, settle(differences, deeds, changed))

    async def _unmake_item(
        self, session: Session, step: ForkResource, began: Timestamp
    ) -> list[RestoreItem]:
        """Return what happens to a resource that a restore recreated: undo removes it again.

        It stays if it was changed since, or if another session works there.
        """
        assert step.snapshot is not None, "what is made anew is made in a known state"
        resource = await self.resources.ledger.get(step.site.resource)
        made = await self.resources.ledger.get_snapshot(step.snapshot)
        present = await self._present(resource)
        if present is None:
            return []
        attachments = self.resources.attachments
        is_taken = await attachments.has_holders(resource.id, since=began, but=session.id)
        is_same = await self.hands.is_as_made(step.site, made.external)
        fate: Literal["goes", "outlives"] = "goes" if is_same and not is_taken else "outlives"
        return [RestoreItem(resource, made, None, present, fate=fate)]

    def _can_restore(self, resource: Resource) -> bool:
        is_here = resource.host == self.resources.host
        return is_here and not resource.imperative and "restore" in resource.capabilities

    async def _present(self, resource: Resource) -> ExtRef | None:
        """Capture the present state and return it; None if the resource does not exist."""
        keeper = self.resources.keeper_of(resource)
        if await in_thread(keeper.probe, resource.place) == "dead":
            return None
        return (await in_thread(keeper.snapshot, resource.place)).external

    async def _plan(
        self, session: Session, move: RestoreKind, target: TurnId | None, items: list[RestoreItem]
    ) -> Plan:
        steps: list[Step] = []
        safety: dict[ResourceId, int] = {}
        for item in items:
            if item.acts and item.present is not None:
                safety[item.resource.id] = len(steps)
                steps.append(TakeSnapshot(site_of(item.resource), item.present.id))
        steps += [
            await self._step(item, safety.get(item.resource.id))
            for item in items
            if item.acts or not item.supported
        ]
        goes_to = None if move == "undo" else target
        steps.append(MoveHead(session.id, move, goes_to, session.head))
        world, by = self.resources.world, str(self.resources.by)
        return Plan(PlanId(world.new_id()), "restore", self.resources.host, by, tuple(steps))

    async def _step(self, item: RestoreItem, safety: int | None) -> ForkResource | RestoreResource:
        resource, target = item.resource, item.target
        site = site_of(resource)
        if item.supported and item.present is None:
            # Where nothing exists, nothing is replaced, so discarding the copy is a full rollback.
            return ForkResource(site, resource.id, resource.name, "rw", target.id, target.external)
        only = None
        if item.supported and not item.whole:
            only = await self.hands.put_paths([change.path for change in item.changes])
        return RestoreResource(site, target.id, target.external, only, safety, item.supported)


def check_decided(plan: RestorePlan) -> None:
    """Raise if a plan has unresolved conflicts.

    Raises:
        InvalidOperation: There are some; the message lists them.
    """
    if not plan.undecided:
        return
    shown = [change.path for _, change in plan.conflicts[:CONFLICTS_SHOWN_MAX]]
    more = len(plan.conflicts) - len(shown)
    listed = "\n".join(f"  {path}" for path in shown) + (f"\n  and {more} more" if more else "")
    raise InvalidOperation(
        f"turns that would be left behind changed these, and others did too:\n{listed}\n"
        "leave them as they are, or make everything as it was then"
    )


def _since(
    resource: Resource, base: ResolvedTurnSnapshot | None, along: Sequence[ResolvedTurnSnapshot]
) -> list[ResolvedTurnSnapshot]:
    """Return the turn snapshots of a resource that follow its base, oldest first.

    The base is the state after a turn or before it; in the second case the turn's own snapshot
    follows.
    """
    chain: list[ResolvedTurnSnapshot] = []
    for pinned in along:
        if pinned.resource.id != resource.id:
            continue
        is_base = base is not None and pinned.pin.turn == base.pin.turn
        if base is None or not is_base or base.after.id != pinned.after.id:
            chain.append(pinned)
        if is_base:
            break
    return chain[::-1]


def _changed(files: HasFiles, old: ExtRef | None, new: ExtRef) -> frozenset[str]:
    if old is None or old == new:
        return frozenset()
    return frozenset(change.path for change in files.compare(old, new))


def _item(
    resource: Resource,
    target: Snapshot,
    by: TurnId | None,
    present: ExtRef,
    settled: RestoreDecision,
) -> RestoreItem:
    changes, kept, conflicts = settled.applied, settled.kept, settled.conflicts
    return RestoreItem(resource, target, by, present, changes, kept, conflicts)


def site_of(resource: Resource) -> StepTarget:
    """Return the location of a resource as plans record it."""
    return StepTarget(resource.id, resource.kind, resource.place)
