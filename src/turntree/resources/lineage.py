"""Places that were made from others: what is pinned of the one is the past of the other.

A worktree's turns pin the worktree, and the turns before it the place that it was made from.
Whoever works in the worktree goes back in the worktree. Knows which resource was made from which.
Must never let a session touch a place that it does not work on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from turntree.core.ids import ResourceId
from turntree.core.ref import ExtRef, from_json
from turntree.resources import store_port as ports
from turntree.resources.resource import Resource
from turntree.resources.store_port import ResolvedTurnSnapshot

ORIGINS_MAX = 20
"""How many times a place may have been made from another one."""


def origin_of(resource: Resource) -> tuple[ResourceId, ExtRef] | None:
    """Return the place that one was made from, and the state it was made in."""
    origin, said = resource.metadata.get("forked_from"), resource.metadata.get("state")
    state = None if said is None else from_json(said)
    if not isinstance(origin, str) or not isinstance(state, ExtRef):
        return None
    return ResourceId(origin), state


async def list_origins(ledger: ports.Resources, resource: Resource) -> list[Resource]:
    """Return the places that one was made from, directly or not, the nearest first.

    One that was made anew since is the last of them: what it is made from now is not the past.
    """
    found: list[Resource] = []
    while len(found) < ORIGINS_MAX and (origin := origin_of(resource)) is not None:
        older = await ledger.get(origin[0])
        found.append(older)
        if older.created_at > resource.created_at:
            break
        resource = older
    return found


async def find_heirs(
    ledger: ports.Resources, attached: Iterable[Resource]
) -> dict[ResourceId, Resource]:
    """Return which of the places that a session works on each resource has become.

    Such a place is its own heir, and that of whatever it was made from.
    """
    places = list(attached)
    heirs = {place.id: place for place in places}
    for place in places:
        for origin in await list_origins(ledger, place):
            heirs.setdefault(origin.id, place)
    return heirs


async def find_newest(
    ledger: ports.Resources, pins: Sequence[ResolvedTurnSnapshot]
) -> dict[ResourceId, Resource]:
    """Return the same of a thread that no session works on: what it worked on last is the place.

    Places that another one of the thread was made from are its past.
    """
    places = {one.resource.id: one.resource for one in pins}
    older: set[ResourceId] = set()
    for place in places.values():
        origins = await list_origins(ledger, place)
        # One that was made anew since is newer, perhaps made from this very place.
        older |= {one.id for one in origins if one.created_at <= place.created_at} - {place.id}
    return await find_heirs(ledger, [one for one in places.values() if one.id not in older])


def inherit(
    pins: Sequence[ResolvedTurnSnapshot], heirs: Mapping[ResourceId, Resource]
) -> list[ResolvedTurnSnapshot]:
    """Return pins as those of the places that a session works on; without heirs, as they are.

    What a session does not work on is not its business, whatever its turns once pinned.
    """
    if not heirs:
        return list(pins)
    return [
        replace(pinned, resource=heirs[pinned.resource.id])
        for pinned in pins
        if pinned.resource.id in heirs
    ]
