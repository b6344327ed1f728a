"""Who changed what in a place since a turn: states compared along a thread, turns told apart.

Knows pins and keepers. Must never know what is done with the answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from turntree.domain.attribution import Outside, Side, Work, attribute, sides
from turntree.domain.ids import TurnId
from turntree.domain.ref import ExtRef
from turntree.domain.resource import Resource
from turntree.ports.keepers import FileKeeper
from turntree.ports.resources import Pinned, Pins
from turntree.runtime.resources import in_thread


@dataclass(frozen=True, slots=True)
class Deeds:
    """Looks into the states that turns of a thread left."""

    pins: Pins

    async def since(
        self,
        files: FileKeeper,
        resource: Resource,
        base: ExtRef | None,
        chain: Sequence[Pinned],
        present: ExtRef,
        left: Sequence[TurnId],
    ) -> list[dict[str, Side]]:
        """Return who changed which paths between a state and the present.

        ``chain`` are the pins of the resource since then, oldest first; ``left`` are the turns
        that somebody is about to leave behind, pinned or not.
        """
        written = await self._written(resource, left)
        pinned = {one.pin.turn for one in chain}
        # What a turn that nobody pinned says it wrote would otherwise pass for somebody else's.
        unseen = {path for turn in left if turn not in pinned for path in written.get(turn, ())}
        gaps, works = await in_thread(_compare_all, files, base, chain, present)
        deeds = [_gap(gap, unseen) for gap in gaps]
        if chain:
            deeds += await self._at_work(files, resource, chain, works, written, left)
        return deeds

    async def _at_work(
        self,
        files: FileKeeper,
        resource: Resource,
        chain: Sequence[Pinned],
        changed: Sequence[frozenset[str]],
        written: dict[TurnId, frozenset[str]],
        left: Sequence[TurnId],
    ) -> list[dict[str, Side]]:
        mine = {one.pin.turn for one in chain}
        first, last = chain[0].pin.began_at, max(one.pin.ended_at for one in chain)
        met = await self.pins.list_pins_between(resource.id, first, last)
        rivals = [one for one in met if one.pin.turn not in mine and one.before is not None]
        theirs = await in_thread(_changes_of, files, rivals)
        others = [one.pin.turn for one in rivals]
        said = {**written, **await self._written(resource, others)}
        works = [
            _work(one, paths, said)
            for one, paths in zip([*chain, *rivals], [*changed, *theirs], strict=True)
        ]
        ours = {*left, *await self.pins.list_spawned(others, left)}
        found = attribute(works)
        return [sides(found[one.pin.turn], ours) for one in chain]

    async def _written(
        self, resource: Resource, turns: Sequence[TurnId]
    ) -> dict[TurnId, frozenset[str]]:
        found = await self.pins.list_written(turns)
        return {
            turn: frozenset(relative(path, resource.place) for path in paths)
            for turn, paths in found.items()
        }


def relative(path: str, place: str) -> str:
    """Return a path as a state of the place spells it; tools spell it as they like."""
    pure = PurePosixPath(path)
    return str(pure.relative_to(place)) if pure.is_relative_to(place) else str(pure)


def _compare_all(
    files: FileKeeper, base: ExtRef | None, chain: Sequence[Pinned], present: ExtRef
) -> tuple[list[frozenset[str]], list[frozenset[str]]]:
    """Return what changed between turns, and what changed while each was at work."""
    gaps: list[frozenset[str]] = []
    works: list[frozenset[str]] = []
    at = base
    for one in chain:
        found = at if one.before is None else one.before.external
        if at is not None and found is not None:
            gaps.append(_paths(files, at, found))
        works.append(frozenset() if found is None else _paths(files, found, one.after.external))
        at = one.after.external
    if at is not None:
        gaps.append(_paths(files, at, present))
    return gaps, works


def _changes_of(files: FileKeeper, rivals: Sequence[Pinned]) -> list[frozenset[str]]:
    return [
        frozenset()
        if one.before is None
        else _paths(files, one.before.external, one.after.external)
        for one in rivals
    ]


def _paths(files: FileKeeper, old: ExtRef, new: ExtRef) -> frozenset[str]:
    if old == new:
        return frozenset()
    return frozenset(change.path for change in files.compare(old, new))


def _gap(paths: frozenset[str], unseen: set[str]) -> dict[str, Side]:
    outside = {path: Outside() for path in paths if path not in unseen}
    return {**sides(outside, ()), **dict.fromkeys(paths & unseen, "ours")}


def _work(one: Pinned, changed: frozenset[str], said: dict[TurnId, frozenset[str]]) -> Work:
    pin = one.pin
    return Work(pin.turn, pin.began_at, pin.ended_at, changed, said.get(pin.turn, frozenset()))
