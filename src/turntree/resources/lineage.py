"""Follow resources to the ones they were forked from, so that a worktree shares their history.

A worktree's turns have snapshots of the worktree, and earlier turns have snapshots of the directory
it was forked from. Restoring in the worktree uses both, and changes the worktree only: a session
must never touch a resource that it does not work on.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from turntree.core.ids import ResourceId
from turntree.core.ref import ExtRef, from_json
from turntree.resources.resource import ResolvedTurnSnapshot, Resource
from turntree.resources.store import ResourceStore

ORIGINS_MAX = 20
"""Longest chain of forks to follow."""


def origin_of(resource: Resource) -> tuple[ResourceId, ExtRef] | None:
    """Return the resource that one was forked from, and the state it was created in."""
    origin, said = resource.metadata.get("forked_from"), resource.metadata.get("state")
    state = None if said is None else from_json(said)
    if not isinstance(origin, str) or not isinstance(state, ExtRef):
        return None
    return ResourceId(origin), state


async def list_origins(ledger: ResourceStore, resource: Resource) -> list[Resource]:
    """Return the resources that one was forked from, directly or not, the nearest first.

    One that was recreated since is the last of them: its current origin is not our history.
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
    ledger: ResourceStore, attached: Iterable[Resource]
) -> dict[ResourceId, Resource]:
    """Map each resource to the one that stands for it in a session.

    A resource the session works on stands for itself and for all its origins.
    """
    places = list(attached)
    heirs = {place.id: place for place in places}
    for place in places:
        for origin in await list_origins(ledger, place):
            heirs.setdefault(origin.id, place)
    return heirs


async def find_newest(
    ledger: ResourceStore, pins: Sequence[ResolvedTurnSnapshot]
) -> dict[ResourceId, Resource]:
    """Return the same map for a thread without a session, using its newest resources.

    Resources that another one of the thread was forked from are its history.
    """
    places = {one.resource.id: one.resource for one in pins}
    older: set[ResourceId] = set()
    for place in places.values():
        origins = await list_origins(ledger, place)
        # An origin that was recreated since is newer, perhaps even forked from this resource.
        older |= {one.id for one in origins if one.created_at <= place.created_at} - {place.id}
    return await find_heirs(ledger, [one for one in places.values() if one.id not in older])


def inherit(
    pins: Sequence[ResolvedTurnSnapshot], heirs: Mapping[ResourceId, Resource]
) -> list[ResolvedTurnSnapshot]:
    """Return turn snapshots as those of the session's resources; without heirs, unchanged.

    Snapshots of resources that the session does not work on are dropped.
    """
    if not heirs:
        return list(pins)
    return [
        replace(pinned, resource=heirs[pinned.resource.id])
        for pinned in pins
        if pinned.resource.id in heirs
    ]
