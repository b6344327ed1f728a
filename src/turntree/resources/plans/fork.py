"""Propose a fork: what happens to each resource, what it costs, and the steps of the plan.

Nothing is executed here. A resource that can be forked gets a copy in the new branch; one that
cannot is kept by exactly one branch, or left out.
"""

import os.path
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Literal

from turntree.core.errors import Conflict, InvalidOperation, NotFound, PathExists, Unsupported
from turntree.core.ids import Label, PlanId, ResourceId, SessionId, TurnId
from turntree.core.program import Visibility
from turntree.core.revision import check_label
from turntree.core.session import Session
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.resources.driver import HasFiles, ResourceDriver, SnapshotCost
from turntree.resources.plans.steps import (
    CreateForkSession,
    ForkResource,
    Plan,
    ResourceShare,
    ShareMode,
    Step,
    StepTarget,
    TakeSnapshot,
)
from turntree.resources.resource import AttachMode, ResolvedTurnSnapshot, Resource, Snapshot
from turntree.resources.service import Resources, find_files, in_thread, settled

Choice = Literal["keep", "take", "snapshot", "discard"]
"""What the caller wants to happen to a resource.

keep      the source branch keeps it, and the new one does without
take      the new branch takes it over, and the source loses it
snapshot  the new branch gets a copy, in the state of the turn
discard   the new branch does without; who keeps it is not recorded
"""

PLACES_MAX = 100


@value
class ForkItem:
    """What happens to one resource."""

    resource: Resource
    mode: ShareMode
    attached: AttachMode | None
    """How the source session is attached to it, or None if it no longer is."""
    kept_by: SessionId | None = None
    snapshot: Snapshot | None = None
    """The snapshot the copy is created from; None means the present state."""
    pinned_by: TurnId | None = None
    """The turn that left it so: the forked one, or its nearest ancestor with a snapshot."""
    place: str | None = None
    """The location of the copy."""
    cost: SnapshotCost | None = None


@value
class ForkPlan:
    """A proposed fork."""

    plan: Plan
    turn: ThreadTurn
    source: Session | None
    """The session that is forked, if the turn belongs to one."""
    session: SessionId | None
    """The session that will be created; None creates the copies only."""
    label: Label | None
    items: tuple[ForkItem, ...]

    @property
    def places(self) -> list[str]:
        """The folders that it creates."""
        return [item.place for item in self.items if item.place is not None]


@value
class ForkProposer:
    """Works out what a fork would do."""

    resources: Resources

    async def propose(
        self,
        revision: str,
        label: str | None,
        *,
        place: str | Mapping[str, str] | None = None,
        choices: Mapping[str, Choice] | None = None,
        before: bool = False,
        visibility: Visibility | None = None,
    ) -> ForkPlan:
        """Return the plan of a fork at a revision; without a label, of its copies alone.

        With ``before`` it forks from the state before the turn. The fork inherits the visibility of
        its source, unless ``visibility`` is given.

        Raises:
            NotFound: No such turn, or no resource with a given name.
            Conflict: The label is taken.
            Unsupported: ``snapshot`` was chosen for a resource that cannot be forked.
            PathExists: Something exists at the given location.
            InvalidOperation: A choice leaves a resource without a session, or to two.
        """
        found = await self.resources.revisions.resolve(revision)
        turn = await self.resources.threads.get_turn(found.turn)
        checked = None if label is None else check_label(label)
        if checked is not None and await self.resources.sessions.ledger.find(checked) is not None:
            raise Conflict(f"the name {checked} is taken")
        source = found.session or await self._find_source(found.turn)
        session = None if label is None else SessionId(self.resources.world.new_id())
        attached = {} if source is None else await self._attached(source)
        works_on = [one for one, _ in attached.values()]
        heirs = await self.resources.find_heirs(found.turn, works_on)
        pins = await (
            self.resources.pins_before(turn, heirs)
            if before
            else self.resources.nearest_pins(found.turn, heirs)
        )
        known = {one.id: one for one, _ in attached.values()}
        known |= {one.resource.id: one.resource for one in pins.values()}
        chosen = _by_resource(known.values(), choices or {})
        draft = _Draft(self.resources, turn, source, session, place)
        items = [
            await draft.decide(
                resource,
                attached[resource.id][1] if resource.id in attached else None,
                pins.get(resource.id),
                chosen.get(resource.id),
            )
            for resource in known.values()
        ]
        items = await draft.give_places(items)
        plan = await self._plan(
            turn, source, session, checked, items, before=before, visibility=visibility
        )
        return ForkPlan(plan, turn, source, session, checked, tuple(items))

    async def propose_worktree(
        self, revision: str, place: str | None = None, *, before: bool = False
    ) -> ForkPlan:
        """Return the plan of a folder with the files that a turn left, and of its session.

        The session is named after the folder. With ``before`` the files are as the turn found them.

        Raises:
            NotFound: No such turn, or no snapshot of its files.
            PathExists: Something exists at the given location.
        """
        first = await self.propose(revision, None, before=before)
        if not any(item.pinned_by for item in first.items):
            short = first.turn.turn.digest[7:15]
            raise NotFound(
                f"no snapshot shows the files before {short}"
                if before
                else f"no session works in the folder of {short} any more"
            )
        # Only resources of which a turn has a snapshot, not all that its session works on.
        others = [item.resource.id for item in first.items if item.pinned_by is None]
        choices: dict[str, Choice] = dict.fromkeys(others, "discard")
        name = os.path.basename(place or next(iter(first.places), "worktree"))  # noqa: PTH119
        label = await self.resources.sessions.find_free_label(_label_from(name))
        return await self.propose(revision, label, place=place, choices=choices, before=before)

    async def _find_source(self, turn: TurnId) -> Session | None:
        """Return the session to fork when only a turn was named."""
        held = await self.resources.threads.list_sessions_holding(turn)
        sessions = [await self.resources.sessions.ledger.get(id) for id in held]
        for session in sessions:
            if await self.resources.attachments.list_attached(session.id):
                return session
        return sessions[0] if sessions else None

    async def _attached(self, source: Session) -> dict[ResourceId, tuple[Resource, AttachMode]]:
        rows = await self.resources.attachments.list_attached(source.id)
        return {resource.id: (resource, mode) for resource, mode in rows}

    async def _plan(
        self,
        turn: ThreadTurn,
        source: Session | None,
        session: SessionId | None,
        label: Label | None,
        items: list[ForkItem],
        *,
        before: bool,
        visibility: Visibility | None,
    ) -> Plan:
        steps: list[Step] = []
        taken: dict[ResourceId, int] = {}
        for item in items:
            if item.mode == "snapshot" and item.snapshot is None:
                taken[item.resource.id] = len(steps)
                steps.append(TakeSnapshot(_site(item.resource, item.resource.place)))
        shares: list[ResourceShare] = []
        for item in items:
            mode: AttachMode = item.attached or "rw"
            is_taken = item.kept_by is not None and item.kept_by == session
            fork = len(steps) if item.mode == "snapshot" else None
            shares.append(
                ResourceShare(
                    item.resource.id, item.mode, item.kept_by, fork, mode if is_taken else None
                )
            )
            if item.mode == "snapshot":
                steps.append(self._fork(item, mode, taken.get(item.resource.id)))
        at_event = None
        if source is not None:
            at_event = await self.resources.attachments.newest_event(source.id)
        steps.append(
            CreateForkSession(
                session,
                label,
                turn.parent if before else turn.turn.id,
                None if source is None else source.id,
                at_event,
                tuple(shares),
                turn.turn.id if before else None,
                visibility,
            )
        )
        world, by = self.resources.world, str(self.resources.by)
        return Plan(PlanId(world.new_id()), "fork", self.resources.host, by, tuple(steps))

    def _fork(self, item: ForkItem, mode: AttachMode, taken_by: int | None) -> ForkResource:
        assert item.place is not None, "what is forked has a new place"
        return ForkResource(
            _site(item.resource, item.place),
            ResourceId(self.resources.world.new_id()),
            item.resource.name,
            mode,
            None if item.snapshot is None else item.snapshot.id,
            None if item.snapshot is None else item.snapshot.external,
            taken_by,
        )


@value
class _Draft:
    """A proposal in progress."""

    resources: Resources
    turn: ThreadTurn
    source: Session | None
    session: SessionId | None
    place: str | Mapping[str, str] | None

    async def decide(
        self,
        resource: Resource,
        attached: AttachMode | None,
        pinned: ResolvedTurnSnapshot | None,
        choice: Choice | None,
    ) -> ForkItem:
        """Return what happens to a resource."""
        needed = {"snapshot", "fork"}
        is_here = resource.host == self.resources.host
        can = is_here and not resource.imperative and needed <= resource.capabilities
        match choice or ("snapshot" if can else "keep" if attached else "discard"):
            case "snapshot":
                if not can:
                    raise Unsupported(
                        f"{resource.name} cannot be forked: one branch keeps it, "
                        "or the new one does without"
                    )
                return await self._snapshot(resource, attached, pinned, is_asked=choice is not None)
            case "keep":
                if self.source is None:
                    raise InvalidOperation(f"no session is forked that could keep {resource.name}")
                return ForkItem(resource, "keep", attached, self.source.id)
            case "take":
                if self.session is None:
                    raise InvalidOperation(f"no session begins that could take {resource.name}")
                return ForkItem(resource, "keep", attached, self.session)
            case "discard":
                return ForkItem(resource, "discard", attached)

    async def give_places(self, items: list[ForkItem]) -> list[ForkItem]:
        """Return the items with the locations of the copies.

        Raises:
            InvalidOperation: A location is given for several resources, or taken.
            NotFound: A location is given for a resource that is not forked.
        """
        forked = [item for item in items if item.mode == "snapshot"]
        named = dict(self.place) if isinstance(self.place, Mapping) else {}
        if isinstance(self.place, str):
            if len(forked) != 1:
                names = ", ".join(item.resource.name for item in forked) or "none does"
                raise InvalidOperation(
                    f"one place is named, and {len(forked)} resources need one: {names}\n"
                    "without a location, each gets one next to its own"
                )
            named = {forked[0].resource.name: self.place}
        for name in named.keys() - {item.resource.name for item in forked}:
            raise NotFound(f"no resource that is forked is called {name}")
        given: list[ForkItem] = []
        for item in items:
            if item.mode == "snapshot":
                asked = named.get(item.resource.name)
                place = await self._free_place(item.resource, asked)
                given.append(replace(item, place=place))
            else:
                given.append(item)
        return given

    async def _snapshot(
        self,
        resource: Resource,
        attached: AttachMode | None,
        pinned: ResolvedTurnSnapshot | None,
        *,
        is_asked: bool,
    ) -> ForkItem:
        keeper = self.resources.keeper_of(resource)
        if pinned is not None and pinned.after.restorable:
            state = pinned.after
            files = find_files(keeper)
            count = 0 if files is None else await in_thread(_count_files, files, state)
            cost = SnapshotCost(state.size, count, state.size)
            return ForkItem(resource, "snapshot", attached, None, state, pinned.pin.turn, cost=cost)
        if not is_asked and await in_thread(keeper.probe, resource.place) == "dead":
            return ForkItem(resource, "discard", attached)
        cost = await in_thread(keeper.measure, resource.place)
        return ForkItem(resource, "snapshot", attached, cost=cost)

    async def _free_place(self, resource: Resource, asked: str | None) -> str:
        keeper = self.resources.keeper_of(resource)
        if asked is not None:
            place = asked if find_files(keeper) is None else settled(asked)
            free = await self._find_free(keeper, place)
            if free != place:
                raise PathExists(place, free)
            return place
        return await self._find_free(keeper, f"{resource.place}@{self.turn.turn.digest[7:14]}")

    async def _find_free(self, keeper: ResourceDriver, wanted: str) -> str:
        """Return a free location: the wanted one, or the first free one numbered after it."""
        for number in range(1, PLACES_MAX):
            place = wanted if number == 1 else f"{wanted}-{number}"
            if await in_thread(_is_free, keeper, place):
                return place
        raise InvalidOperation(
            f"there are {PLACES_MAX} places beside {wanted} already: name another"
        )


def _by_resource(
    known: Iterable[Resource], choices: Mapping[str, Choice]
) -> dict[ResourceId, Choice]:
    """Return the choices by resource id; the caller names resources by name, id or location."""
    resources = list(known)
    found: dict[ResourceId, Choice] = {}
    for name, choice in choices.items():
        meant = [one for one in resources if name in (one.id, one.name, one.place)]
        if not meant:
            raise NotFound(f"no resource of this turn is called {name}")
        if len(meant) > 1:
            raise InvalidOperation(
                f"{len(meant)} resources are called {name}: name one by its place"
            )
        found[meant[0].id] = choice
    return found


def _label_from(folder: str) -> str:
    """Return a folder's name in the characters of a label. ``HEAD`` means another session."""
    plain = re.sub(r"[^A-Za-z0-9_+-]+", "-", folder).strip("-") or "worktree"
    return "HEAD-worktree" if plain == "HEAD" else plain


def _is_free(keeper: ResourceDriver, place: str) -> bool:
    if keeper.probe(place) != "dead":
        return False
    # A folder cannot be made where a file is, nor the other way round.
    return find_files(keeper) is None or not os.path.lexists(place)


def _count_files(keeper: HasFiles, state: Snapshot) -> int:
    return sum(entry.kind == "file" for entry in keeper.list_entries(state.external))


def _site(resource: Resource, place: str) -> StepTarget:
    return StepTarget(resource.id, resource.kind, place)
