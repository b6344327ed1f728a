"""Propose a revert or a pick: take back what turns did to files, or apply it elsewhere.

Both merge three states. A revert goes from the state that a turn left to the state it found, a pick
the other way round, and undoing one of them goes from its result to what was there before. Nothing
is executed here, except that the present state is captured for the comparison.

Only changes that the turn itself made are merged. What another turn made at the same time stays;
what cannot be told apart is listed, and stays too.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Final, Literal, cast

from turntree.core.errors import DatabaseUnavailable, InvalidOperation, NotFound, Unsupported
from turntree.core.ids import Digest, PlanId, ResourceId, TurnId
from turntree.core.message_context import ChangeKind
from turntree.core.ref import ExtRef
from turntree.core.value import value
from turntree.resources.attribution import ChangedByTurn, ChangedByUnknown
from turntree.resources.blame import LineBlame
from turntree.resources.changes_since import ChangeAttribution
from turntree.resources.driver import EditsSnapshots, TakenSnapshot
from turntree.resources.file_merge import (
    Choice,
    MergeConflict,
    Merger,
    MergeRequest,
    MergeResult,
    above_of,
)
from turntree.resources.plans.merge_log import (
    MERGES_READ_MAX,
    MergeOperation,
    read_merges,
    sort_merges,
)
from turntree.resources.plans.restore import CONFLICTS_SHOWN_MAX, site_of
from turntree.resources.plans.step_executor import StepExecutor
from turntree.resources.plans.steps import (
    Plan,
    RecordMerge,
    RestoreResource,
    Step,
    TakeSnapshot,
)
from turntree.resources.plans.store import PlanStore
from turntree.resources.resource import FileChange, FileEntry, ResolvedTurnSnapshot, Resource
from turntree.resources.service import Resources, in_thread
from turntree.resources.turn_work import Patch, Rival, TurnWork, find_work

MergeKind = Literal["revert", "pick"]
DIGITS: Final = 8
"""How much of a digest the markers of a conflict show."""


@value
class MergeChoices:
    """Which part of a turn's changes is meant, and what to do about conflicts."""

    paths: Collection[str] | None = None
    """Files and folders; None means all."""
    hunks: Mapping[str, Collection[int]] | None = None
    """For each path the hunks that are meant, by their place in its diff; None means all."""
    conflicts: Mapping[str, Choice] = field(default_factory=dict[str, Choice])
    default: Choice | None = None
    """What to do about conflicts that are not listed."""


EVERYTHING: Final = MergeChoices()


@value
class MergeItem:
    """What would happen to one resource."""

    resource: Resource
    base: ExtRef
    wanted: ExtRef
    present: ExtRef
    asked: tuple[FileChange, ...]
    """From the base to the wanted state."""
    target: TakenSnapshot
    """The present state with the changes."""
    changes: tuple[FileChange, ...]
    """From the present state to the target."""
    conflicts: tuple[MergeConflict, ...] = ()
    undecided: tuple[MergeConflict, ...] = ()
    done: tuple[str, ...] = ()
    """Paths that already are as wanted."""
    unclear: tuple[str, ...] = ()
    """Paths that several turns changed at the same time: they stay."""
    late_ms: int | None = None
    """How long after the turn began its first state was recorded: earlier changes are not known."""


@value
class MergePlan:
    """A proposed revert or pick."""

    kind: MergeKind
    turns: tuple[TurnId, ...]
    items: tuple[MergeItem, ...]
    undoes: PlanId | None = None

    @property
    def undecided(self) -> tuple[MergeConflict, ...]:
        """Conflicts without a choice: the plan cannot be executed."""
        return tuple(one for item in self.items for one in item.undecided)

    @property
    def acts(self) -> bool:
        """Whether any file would change."""
        return any(item.changes for item in self.items)


@value
class MergeProposer:
    """Works out what a revert or a pick would do."""

    resources: Resources
    plans: PlanStore
    hands: StepExecutor
    blame: LineBlame

    async def propose_revert(self, revision: str, choices: MergeChoices) -> MergePlan:
        """Return the plan of taking back what a turn did to files.

        Raises:
            NotFound: No such turn, or no snapshot shows the files before and after it.
        """
        turn = (await self.resources.revisions.resolve(revision)).turn
        labels = "now", f"before {await self._short(turn)}"
        late_ms = (await self.resources.pins.list_late([turn])).get(turn)
        items: list[MergeItem] = []
        for pinned in await self._list_pins(turn):
            work = await self._find_work(pinned, by_call=choices.hunks is None)
            merged: list[MergeItem] = []
            # Newest first: an earlier call's lines may be inside those that a later one wrote.
            for patch in reversed(work.patches):
                present = merged[-1].target.external if merged else None
                item = await self._merge(
                    pinned.resource, _reverse(patch), choices, labels, present=present
                )
                merged.append(await self._name_conflicts(item, turn))
            joined = await self._joined(merged, _reverse(_chosen(work.whole, choices)))
            items.append(replace(joined, late_ms=late_ms))
        return MergePlan("revert", (turn,), tuple(items))

    async def propose_pick(
        self, revisions: Sequence[str], place: str, choices: MergeChoices
    ) -> MergePlan:
        """Return the plan of applying what turns did to files in another folder, in order.

        Raises:
            NotFound: No such turn, or no snapshot shows the files before and after it.
        """
        resource = await self.resources.ensure_directory(place)
        turns = [(await self.resources.revisions.resolve(one)).turn for one in revisions]
        items: list[MergeItem] = []
        for turn in turns:
            labels = "now", await self._short(turn)
            for pinned in await self._list_pins(turn):
                for patch in (await self._find_work(pinned)).patches:
                    present = items[-1].target.external if items else None
                    item = await self._merge(resource, patch, choices, labels, present=present)
                    items.append(await self._name_conflicts(item, turn))
        return MergePlan("pick", tuple(turns), (await self._joined(items),))

    async def propose_undo(self, resource: ResourceId, choices: MergeChoices) -> MergePlan:
        """Return the plan of undoing the last revert or pick of a resource.

        Raises:
            InvalidOperation: There is none.
        """
        done, _ = sort_merges(await self.list_merges(resource))
        if not done:
            raise InvalidOperation("there is nothing to undo")
        return await self._propose_back(done[-1], choices)

    async def propose_redo(self, resource: ResourceId, choices: MergeChoices) -> MergePlan:
        """Return the plan of redoing the revert or pick that was undone last.

        Raises:
            InvalidOperation: There is none.
        """
        _, undone = sort_merges(await self.list_merges(resource))
        if not undone:
            raise InvalidOperation("there is nothing to redo")
        return await self._propose_back(undone[-1], choices)

    async def list_merges(self, resource: ResourceId) -> list[MergeOperation]:
        """Return the reverts and picks that changed a resource, oldest first."""
        return read_merges(await self.plans.list_merges(limit=MERGES_READ_MAX), resource)

    async def build(self, proposal: MergePlan) -> Plan:
        """Return the steps of a proposal, whose target states are recorded for it."""
        # Recorded here and not when it was proposed, because a dry run must leave no trace.
        items = [item for item in proposal.items if item.changes]
        steps: list[Step] = [
            TakeSnapshot(site_of(item.resource), item.present.id) for item in items
        ]
        for safety, item in enumerate(items):
            target = await self.resources.note(item.resource, item.target)
            only = await self.hands.put_paths([change.path for change in item.changes])
            steps.append(
                RestoreResource(site_of(item.resource), target.id, target.external, only, safety)
            )
        steps.append(RecordMerge(proposal.turns, proposal.undoes))
        world, by = self.resources.world, str(self.resources.by)
        id = PlanId(world.new_id())
        return Plan(id, proposal.kind, self.resources.host, by, tuple(steps))

    async def _list_pins(self, turn: TurnId) -> list[ResolvedTurnSnapshot]:
        pins = await self.resources.pins.list_pins([turn])
        known = [one for one in pins if one.before is not None]
        if not known:
            raise NotFound(f"no snapshot shows the files before and after {turn}")
        return known

    async def _find_work(self, pinned: ResolvedTurnSnapshot, *, by_call: bool = True) -> TurnWork:
        """Return what a turn itself changed, with what its subagents changed.

        The states around its tool calls tell its changes from those of others, if there are any.
        Otherwise the states around the turn have to do.
        """
        pin, resource = pinned.pin, pinned.resource
        files, pins = self._editor(resource), self.resources.all_pins
        met = await pins.list_pins_between(resource.id, pin.began_at, pin.ended_at)
        known = {one.pin.turn: one for one in met if one.before is not None}
        own = {pin.turn, *await pins.list_spawned(list(known), [pin.turn])}
        # The turn that spawned this one is no rival, and what it did besides is not meant.
        kin = own | await self.blame.list_kin(pin.turn, sorted(known.keys() - own))
        whole = await self._find_patch(pinned, kin)
        mine = [one for one in known.values() if one.pin.turn in own]
        calls = await pins.list_calls(resource.id, list(known))
        if by_call and all(calls.get(one.pin.turn) for one in mine):
            states = [call for one in mine for call in calls[one.pin.turn]]
            rivals = [
                Rival(one, tuple(calls.get(id, ()))) for id, one in known.items() if id not in kin
            ]
            return await in_thread(find_work, files, whole, states, rivals)
        # What a subagent did while its parent ran is part of the parent's own states.
        outlived = [one for one in mine if one.pin.ended_at > pin.ended_at]
        later = [await self._find_patch(one, kin) for one in outlived]
        return TurnWork(whole, (whole, *later))

    async def _find_patch(self, pinned: ResolvedTurnSnapshot, kin: Collection[TurnId]) -> Patch:
        """Return what changed while a turn ran and is not certainly another turn's."""
        files, resource = self._editor(pinned.resource), pinned.resource
        assert pinned.before is not None, "only such turns are asked for"
        base, wanted = pinned.before.external, pinned.after.external
        changes = await in_thread(files.compare, base, wanted)
        authors = await ChangeAttribution(self.resources.all_pins).of_turn(files, resource, pinned)
        who = {path: {*_turns_of(by)} for path, by in authors.items()}
        mine = [one for one in changes if who[one.path] <= {*kin}]
        unclear = [path for path, turns in who.items() if turns & {*kin} and turns - {*kin}]
        return Patch(base, wanted, mine, tuple(unclear))

    async def _propose_back(self, operation: MergeOperation, choices: MergeChoices) -> MergePlan:
        items: list[MergeItem] = []
        for step in operation.state.plan.steps:
            if not isinstance(step, RestoreResource):
                continue
            assert step.safety is not None, "the present is kept before it is replaced"
            kept = operation.state.observed[step.safety].external
            assert kept is not None, "a plan that is done has kept the present"
            resource = await self.resources.ledger.get(step.site.resource)
            files = self._editor(resource)
            changes = await in_thread(files.compare, step.external, kept)
            patch = Patch(step.external, kept, changes)
            items.append(await self._merge(resource, patch, choices, ("now", "before")))
        kind = cast("MergeKind", operation.state.plan.kind)
        return MergePlan(kind, operation.turns, tuple(items), operation.id)

    async def _merge(
        self,
        resource: Resource,
        patch: Patch,
        choices: MergeChoices,
        labels: tuple[str, str],
        *,
        present: ExtRef | None = None,
    ) -> MergeItem:
        files = self._editor(resource)
        if resource.host != self.resources.host:
            raise InvalidOperation(f"{resource.name} is on {resource.host}, not on this machine")
        if present is None:
            present = (await in_thread(files.snapshot, resource.place)).external
        found = _chosen(patch, choices)
        request = MergeRequest(
            found.changes, choices.hunks, choices.conflicts, choices.default, labels
        )
        result = await in_thread(partial(_merge_states, files, found, present, request))
        target = await in_thread(files.edit, present, result.edits)
        differences = await in_thread(files.compare, present, target.external)
        return MergeItem(
            resource,
            patch.base,
            patch.wanted,
            present,
            tuple(found.changes),
            target,
            tuple(differences),
            tuple(result.conflicts),
            tuple(result.undecided),
            tuple(result.done),
            found.unclear,
        )

    async def _joined(self, items: Sequence[MergeItem], whole: Patch | None = None) -> MergeItem:
        """Return several merges into one resource, one after the other, as one.

        ``whole`` is what they do together, if they are parts of one turn.
        """
        first, last = items[0], items[-1]
        files = self._editor(first.resource)
        changes = await in_thread(files.compare, first.present, last.target.external)
        asked = last if whole is None else replace(
            last, base=whole.base, wanted=whole.wanted, asked=tuple(whole.changes)
        )  # fmt: skip
        return replace(
            asked,
            present=first.present,
            changes=tuple(changes),
            conflicts=tuple(dict.fromkeys(one for item in items for one in item.conflicts)),
            undecided=tuple(dict.fromkeys(one for item in items for one in item.undecided)),
            done=tuple(dict.fromkeys(one for item in items for one in item.done)),
            unclear=tuple(dict.fromkeys(one for item in items for one in item.unclear)),
        )

    async def _name_conflicts(self, item: MergeItem, turn: TurnId) -> MergeItem:
        """Return a merge whose conflicts name the turns that made them.

        The turn itself may have lines there too, but it is not in its own way.
        """
        named: dict[MergeConflict, MergeConflict] = {}
        for one in item.conflicts:
            found = await self._name(item.resource, one)
            named[one] = replace(found, turns=tuple(it for it in found.turns if it != turn))
        return replace(
            item,
            conflicts=tuple(named[one] for one in item.conflicts),
            undecided=tuple(named[one] for one in item.undecided),
        )

    async def _name(self, resource: Resource, conflict: MergeConflict) -> MergeConflict:
        try:
            blamed = await self.blame(resource, conflict.path)
        except DatabaseUnavailable:
            return conflict  # The history goes back further than the files of this machine.
        except (NotFound, Unsupported):
            # The file is gone or not text. Its last change is the one in the way.
            changes = await self.blame.list_changes(resource, conflict.path)
            return replace(conflict, turns=tuple(one.turn for one in changes[-1:]))
        places = conflict.lines or ((1, len(blamed.lines)),)
        writers = [
            line.writer
            for start, count in places
            for line in blamed.lines[start - 1 : start - 1 + count]
        ]
        turns = dict.fromkeys(turn for one in writers if one.kind == "turn" for turn in one.turns)
        is_outside = any(one.kind == "outside" for one in writers)
        return replace(conflict, turns=tuple(turns), outside=is_outside)

    async def _short(self, turn: TurnId) -> str:
        digest = (await self.resources.threads.get_turn(turn)).turn.digest
        return digest.removeprefix("sha256:")[:DIGITS]

    def _editor(self, resource: Resource) -> EditsSnapshots:
        keeper = self.resources.keeper_of(resource)
        if not isinstance(keeper, EditsSnapshots):
            raise Unsupported(f"snapshots of {resource.name} cannot be merged")
        return keeper


def check_merge(plan: MergePlan) -> None:
    """Raise if a proposal has conflicts without a choice.

    Raises:
        InvalidOperation: There are some; the message lists them.
    """
    if plan.undecided:
        listed = "\n".join(f"  {one.path}" for one in plan.undecided[:CONFLICTS_SHOWN_MAX])
        raise InvalidOperation(f"these were changed since, in the same places:\n{listed}")


def _merge_states(
    files: EditsSnapshots, patch: Patch, present: ExtRef, request: MergeRequest
) -> MergeResult:
    # Two comparisons instead of a list of all files: unchanged trees are never opened.
    since = {one.path: one for one in files.compare(patch.base, present)}
    here = {one.path: one.old for one in patch.changes if one.path not in since}
    entries = {**here, **{path: one.new for path, one in since.items()}}
    found = {path: entry for path, entry in entries.items() if entry is not None}
    appeared = [one.new for one in since.values() if one.old is None and one.new is not None]
    sources: dict[Digest, tuple[ExtRef, str]] = {}
    for change in patch.changes:
        _add_source(sources, patch.base, change.old)
        _add_source(sources, patch.wanted, change.new)
    for entry in found.values():
        # What has not changed since is the same in the base.
        _add_source(sources, present if entry.path in since else patch.base, entry)

    def read(entry: FileEntry) -> bytes:
        assert entry.digest is not None, "a folder has no bytes"
        return files.read(*sources[entry.digest])

    return Merger(request, found, appeared, read).merge()


def _add_source(
    sources: dict[Digest, tuple[ExtRef, str]], state: ExtRef, entry: FileEntry | None
) -> None:
    if entry is not None and entry.digest is not None:
        sources[entry.digest] = state, entry.path


def _chosen(patch: Patch, choices: MergeChoices) -> Patch:
    """Return the part of a patch that the user means."""
    return replace(
        patch,
        changes=[one for one in patch.changes if _is_meant(one.path, choices.paths)],
        unclear=tuple(path for path in patch.unclear if _is_meant(path, choices.paths)),
    )


def _is_meant(path: str, asked: Collection[str] | None) -> bool:
    return asked is None or path in asked or any(above in asked for above in above_of(path))


def _reverse(patch: Patch) -> Patch:
    changes = [_reverse_change(one) for one in patch.changes]
    return replace(patch, base=patch.wanted, wanted=patch.base, changes=changes)


def _reverse_change(change: FileChange) -> FileChange:
    kind = {"added": "removed", "removed": "added"}.get(change.kind, change.kind)
    return FileChange(change.path, cast("ChangeKind", kind), change.new, change.old)


def _turns_of(by: ChangedByTurn | ChangedByUnknown) -> tuple[TurnId, ...]:
    return (by.turn,) if isinstance(by, ChangedByTurn) else by.turns
