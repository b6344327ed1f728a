"""Find who changed which paths of a resource since a turn, by comparing snapshots along a thread.

It reads turn snapshots through drivers; what the result is used for is decided by the caller.
"""

from collections.abc import Collection, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from turntree.core.ids import Timestamp, TurnId
from turntree.core.ref import ExtRef
from turntree.core.value import value
from turntree.resources.attribution import (
    ChangedByTurn,
    ChangedByUnknown,
    ChangedOutside,
    Side,
    TurnActivity,
    attribute,
    attribute_gap,
    sides,
)
from turntree.resources.driver import HasFiles
from turntree.resources.resource import ResolvedTurnSnapshot, Resource
from turntree.resources.service import in_thread
from turntree.resources.store import TurnSnapshotStore


class _Gap(NamedTuple):
    """The paths that changed between two turns of a thread."""

    paths: frozenset[str]
    since: Timestamp | None
    """When the turn before it ended; None before the first."""
    until: Timestamp | None
    """When the turn after it began; None after the last."""

    def meets(self, work: TurnActivity) -> bool:
        """Return whether a turn was running during the gap."""
        is_over = self.since is not None and work.ended_at < self.since
        return not is_over and (self.until is None or work.began_at <= self.until)


@value
class ChangeAttribution:
    """Attributes changes by comparing the snapshots that the turns of a thread left."""

    pins: TurnSnapshotStore

    async def since(
        self,
        files: HasFiles,
        resource: Resource,
        base: ExtRef | None,
        chain: Sequence[ResolvedTurnSnapshot],
        present: ExtRef,
        left: Sequence[TurnId],
    ) -> list[dict[str, Side]]:
        """Return who changed which paths between a state and the present.

        ``chain`` are the turn snapshots of the resource since then, oldest first; ``left`` are the
        turns that a restore is about to undo, with or without snapshots.
        """
        written = await self._written(resource, left)
        pinned = {one.pin.turn for one in chain}
        # Writes reported by a turn without a snapshot would otherwise count as another writer's.
        unseen = {path for turn in left if turn not in pinned for path in written.get(turn, ())}
        gaps, works = await in_thread(_compare_all, files, base, chain, present)
        rivals = await self._rivals(files, resource, chain) if chain else []
        ours = {*left, *await self.pins.list_spawned([one.turn for one in rivals], left)}
        mine = [_work(one, paths, written) for one, paths in zip(chain, works, strict=True)]
        found = attribute([*mine, *rivals])
        deeds = [sides(found[one.turn], ours) for one in mine]
        return [*deeds, *(_sides_of(gap, rivals, ours, unseen) for gap in gaps)]

    async def of_turn(
        self, files: HasFiles, resource: Resource, pinned: ResolvedTurnSnapshot
    ) -> dict[str, ChangedByTurn | ChangedByUnknown]:
        """Return who made each change that happened while a turn ran, by path."""
        written = await self._written(resource, [pinned.pin.turn])
        (changed,) = await in_thread(_changes_of, files, [pinned])
        rivals = await self._rivals(files, resource, [pinned])
        return attribute([_work(pinned, changed, written), *rivals])[pinned.pin.turn]

    async def _rivals(
        self, files: HasFiles, resource: Resource, chain: Sequence[ResolvedTurnSnapshot]
    ) -> list[TurnActivity]:
        """Return the other turns that were running while those of a thread were."""
        mine = {one.pin.turn for one in chain}
        first, last = chain[0].pin.began_at, max(one.pin.ended_at for one in chain)
        met = await self.pins.list_pins_between(resource.id, first, last)
        # A turn that ended when this one began did not overlap it: manual snapshots end like that.
        rivals = [
            one
            for one in met
            if one.pin.turn not in mine
            and one.before is not None
            and (one.pin.ended_at > first or one.pin.began_at == first)
        ]
        changed = await in_thread(_changes_of, files, rivals)
        said = await self._written(resource, [one.pin.turn for one in rivals])
        return [_work(one, paths, said) for one, paths in zip(rivals, changed, strict=True)]

    async def _written(
        self, resource: Resource, turns: Sequence[TurnId]
    ) -> dict[TurnId, frozenset[str]]:
        found = await self.pins.list_written(turns)
        return {
            turn: frozenset(relative(path, resource.place) for path in paths)
            for turn, paths in found.items()
        }


def relative(path: str, place: str) -> str:
    """Return a path relative to the resource, as snapshots spell it; tools may use another form."""
    pure = PurePosixPath(path)
    return str(pure.relative_to(place)) if pure.is_relative_to(place) else str(pure)


def _compare_all(
    files: HasFiles, base: ExtRef | None, chain: Sequence[ResolvedTurnSnapshot], present: ExtRef
) -> tuple[list[_Gap], list[frozenset[str]]]:
    """Return what changed between turns, and what changed while each turn ran."""
    gaps: list[_Gap] = []
    works: list[frozenset[str]] = []
    at, since = base, None
    for one in chain:
        found = at if one.before is None else one.before.external
        if at is not None and found is not None:
            gaps.append(_Gap(_paths(files, at, found), since, one.pin.began_at))
        works.append(frozenset() if found is None else _paths(files, found, one.after.external))
        at, since = one.after.external, one.pin.ended_at
    if at is not None:
        gaps.append(_Gap(_paths(files, at, present), since, None))
    return gaps, works


def _changes_of(files: HasFiles, rivals: Sequence[ResolvedTurnSnapshot]) -> list[frozenset[str]]:
    return [
        frozenset()
        if one.before is None
        else _paths(files, one.before.external, one.after.external)
        for one in rivals
    ]


def _paths(files: HasFiles, old: ExtRef, new: ExtRef) -> frozenset[str]:
    if old == new:
        return frozenset()
    return frozenset(change.path for change in files.compare(old, new))


def _sides_of(
    gap: _Gap, rivals: Sequence[TurnActivity], ours: Collection[TurnId], unseen: Collection[str]
) -> dict[str, Side]:
    found = attribute_gap(gap.paths, [one for one in rivals if gap.meets(one)])
    unpinned = [
        path for path, by in found.items() if isinstance(by, ChangedOutside) and path in unseen
    ]
    return {**sides(found, ours), **dict.fromkeys(unpinned, "ours")}


def _work(
    one: ResolvedTurnSnapshot, changed: frozenset[str], said: dict[TurnId, frozenset[str]]
) -> TurnActivity:
    pin = one.pin
    return TurnActivity(
        pin.turn, pin.began_at, pin.ended_at, changed, said.get(pin.turn, frozenset())
    )
