"""Worktrees: folders that were made in the state of a turn, and what has become of them.

Making one is a plan like any other (``tree.plans``). Here they are listed, looked at and removed.
Knows resources that were forked from others. Must never lose what is kept nowhere else.
"""

from dataclasses import dataclass

from turntree.domain.errors import NotFound, Refused
from turntree.domain.ids import TurnId
from turntree.domain.ref import ExtRef
from turntree.domain.resource import Change, Liveness, Resource, Snapshot
from turntree.domain.session import Session
from turntree.runtime.descent import origin_of
from turntree.runtime.files import Files
from turntree.runtime.resources import Resources, in_thread

PAGE = 1000


@dataclass(frozen=True, slots=True)
class Worktree:
    """A folder that was made in the state of a turn."""

    resource: Resource
    turn: TurnId
    state: ExtRef
    """What it was made in."""
    liveness: Liveness
    sessions: tuple[Session, ...]
    """Who works there."""


@dataclass(frozen=True, slots=True)
class Removed:
    """A worktree that is gone, and the state it was left in."""

    worktree: Worktree
    last: Snapshot | None
    """None if it had gone before."""
    changes: tuple[Change, ...] = ()
    """What was changed since a turn last pinned it, or since it was made."""


@dataclass(frozen=True, slots=True)
class Worktrees:
    """``tree.worktrees``: places made from states."""

    resources: Resources
    files: Files

    async def list_all(self, *, gone: bool = False) -> list[Worktree]:
        """Return the worktrees of this machine, oldest first; those that are gone only if asked."""
        found: list[Worktree] = []
        page = await self.resources.ledger.list_page(limit=PAGE)
        while page:
            for resource in page:
                one = await self._find(resource)
                if one is not None and (gone or one.liveness != "dead"):
                    found.append(one)
            page = await self.resources.ledger.list_page(after=page[-1].id, limit=PAGE)
        return found

    async def get(self, place: str) -> Worktree:
        """Return the worktree at a place.

        Raises:
            NotFound: There is none, or it was not made from a turn.
        """
        for kind in ("directory", "file"):
            resource = await self.resources.find(kind, place)
            one = None if resource is None else await self._find(resource)
            if one is not None:
                return one
        raise NotFound(f"{place} is no worktree that was made from a turn")

    async def remove(self, place: str, *, force: bool = False) -> Removed:
        """Remove a worktree; its last state is kept, and nobody works there any more.

        Raises:
            NotFound: There is none, or it was not made from a turn.
            Refused: It holds changes that no turn has pinned, and ``force`` was not given.
        """
        one = await self.get(place)
        resource = one.resource
        if one.liveness == "dead":
            await self._let_go(one)
            return Removed(one, None)
        last = await self.resources.take(resource)
        changes = await self.files.compare(resource, await self._pinned(one), last.external)
        if changes and not force:
            raise Refused(f"{place} holds {len(changes)} changes that no turn has pinned")
        await in_thread(self.resources.keeper_of(resource).discard, resource.place)
        await self._let_go(one)
        return Removed(one, last, tuple(changes))

    async def _find(self, resource: Resource) -> Worktree | None:
        turn, origin = resource.metadata.get("turn"), origin_of(resource)
        if resource.host != self.resources.host or origin is None or not isinstance(turn, str):
            return None
        keeper = self.resources.keeper_of(resource)
        holders = await self.resources.attachments.list_holders(resource.id)
        sessions = [await self.resources.sessions.ledger.get(id) for id in holders]
        liveness = await in_thread(keeper.probe, resource.place)
        return Worktree(resource, TurnId(turn), origin[1], liveness, tuple(sessions))

    async def _pinned(self, one: Worktree) -> ExtRef:
        """Return the state that a turn last left it in, or the one it was made in."""
        world = self.resources.world
        pins = await self.resources.pins.list_pins_between(
            one.resource.id, one.resource.created_at, world.now()
        )
        return pins[-1].after.external if pins else one.state

    async def _let_go(self, one: Worktree) -> None:
        for session in one.sessions:
            await self.resources.detach(session.label, one.resource)
        await self.resources.probe(one.resource)
