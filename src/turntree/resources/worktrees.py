"""Worktrees: folders that were made in the state of a turn, and what has become of them.

Making one is a plan like any other (``tree.plans``). Here they are listed, looked at and removed.
Knows resources that were forked from others. Must never lose what is kept nowhere else.
"""

import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import PurePath

from turntree.core.errors import InvalidOperation, NotFound, PermissionDenied, UnsavedChanges
from turntree.core.ids import Digest, TurnId
from turntree.core.ref import ExtRef
from turntree.core.session import Session
from turntree.core.value import value
from turntree.resources.driver import HasIgnoreRules, TracksForks, VerifiesSnapshots
from turntree.resources.files import Files
from turntree.resources.lineage import origin_of
from turntree.resources.resource import FileChange, Liveness, Resource, Snapshot
from turntree.resources.service import Resources, in_thread

PAGE = 1000
LEFT_OUT_SHOWN_MAX = 5


@value
class Worktree:
    """A folder that was made in the state of a turn."""

    resource: Resource
    turn: TurnId
    state: ExtRef
    """What it was made in."""
    liveness: Liveness
    sessions: tuple[Session, ...]
    """Who works there."""
    before: bool = False
    """Whether it was made as the turn found it, not as it left it."""


@value
class RemovedWorktree:
    """A worktree that is gone, and the state it was left in."""

    worktree: Worktree
    last: Snapshot | None
    """None if it had gone before."""
    changes: tuple[FileChange, ...] = ()
    """What was changed since a turn last pinned it, or since it was made."""
    left_out: tuple[str, ...] = ()
    """What no state holds, and is gone for good."""


@value
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

    async def remove(self, place: str, *, force: bool = False) -> RemovedWorktree:
        """Remove a worktree; its last state is kept, and nobody works there any more.

        Raises:
            NotFound: There is none, or it was not made from a turn.
            UnsavedChanges: It holds changes that no turn has pinned or files that no state holds,
                and
                ``force`` was not given.
            InvalidOperation: Another folder stands there than the one that was made, or a session
                that is
                closed works there and ``force`` was not given. Nothing has changed.
        """
        one = await self.get(place)
        resource = one.resource
        if one.liveness == "dead":
            await self._let_go(one)
            return RemovedWorktree(one, None)
        await self._check_made(resource)
        last = await self.resources.take(resource)
        changes = await self.files.compare(resource, await self._pinned(one), last.external)
        left_out = await self._list_left_out(resource, last)
        if (changes or left_out) and not force:
            raise UnsavedChanges(f"{place} holds {_describe(len(changes), left_out)}")
        world, by = self.resources.world, str(self.resources.by)
        # First, so that whoever dies here finds the place as it was, or can bring it back.
        await self.resources.attachments.leave(
            resource.id, last.id, by=by, at=world.now(), force=force
        )
        await in_thread(self.resources.keeper_of(resource).discard, resource.place)
        await self.resources.probe(resource)
        return RemovedWorktree(one, last, tuple(changes), tuple(left_out))

    async def restore(self, place: str) -> Worktree:
        """Bring a worktree back that was removed: its last state, and who worked there.

        Raises:
            NotFound: None was removed there, or its last state is no longer kept.
            InvalidOperation: Something is there.
        """
        one = await self.get(place)
        if one.liveness != "dead":
            raise InvalidOperation(f"something is at {place}")
        resource, attachments = one.resource, self.resources.attachments
        left = await attachments.find_left(resource.id)
        if left is None:
            raise NotFound(f"nobody removed {place}: it went by itself")
        state = await self.resources.ledger.get_snapshot(left.snapshot)
        # First: nobody may be left working on a place that can no longer be made.
        await self._check_kept(resource, state)
        world, by = self.resources.world, str(self.resources.by)
        for session in left.sessions:
            # Whoever was closed meanwhile to who restores it comes back by itself.
            with contextlib.suppress(NotFound, PermissionDenied):
                await attachments.attach(resource.id, session, "rw", by=by, at=world.now())
        # Last: as long as there is no folder, all of it can be asked for again.
        await in_thread(self.resources.keeper_of(resource).fork, state.external, place)
        await self.resources.probe(resource)
        return await self.get(place)

    async def find_gone(self, name: str) -> list[str]:
        """Return the places of worktrees that are gone and are called so."""
        gone = [one.resource for one in await self.list_all(gone=True) if one.liveness == "dead"]
        return [one.place for one in gone if PurePath(one.place).name == name]

    async def _find(self, resource: Resource) -> Worktree | None:
        turn, origin = resource.metadata.get("turn"), origin_of(resource)
        if resource.host != self.resources.host or origin is None or not isinstance(turn, str):
            return None
        keeper = self.resources.keeper_of(resource)
        holders = await self.resources.attachments.list_holders(resource.id)
        sessions = [await self.resources.sessions.ledger.get(id) for id in holders]
        liveness = await in_thread(keeper.probe, resource.place)
        before = resource.metadata.get("before") is True
        return Worktree(resource, TurnId(turn), origin[1], liveness, tuple(sessions), before)

    async def _check_made(self, resource: Resource) -> None:
        """Refuse what stands where a worktree was made and is another folder."""
        keeper, place = self.resources.keeper_of(resource), resource.place
        if isinstance(keeper, TracksForks) and await in_thread(keeper.forked_from, place) is None:
            raise InvalidOperation(
                f"what stands at {place} is not what was made there: it was replaced or copied back"
                "\ntake it away by hand, then remove the worktree once more"
            )

    async def _check_kept(self, resource: Resource, state: Snapshot) -> None:
        keeper = self.resources.keeper_of(resource)
        if not isinstance(keeper, VerifiesSnapshots):
            return
        states = {Digest(state.external.id)}
        look = partial(keeper.list_losses, states, lambda _: None, full=False, limit=1)
        if await in_thread(look):
            raise NotFound(f"the last state of {resource.place} is no longer kept")

    async def _list_left_out(self, resource: Resource, state: Snapshot) -> list[str]:
        keeper = self.resources.keeper_of(resource)
        if not isinstance(keeper, HasIgnoreRules):
            return []
        return await in_thread(keeper.list_left_out, resource.place, state.external)

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


def _describe(changes: int, left_out: Sequence[str]) -> str:
    """Return what would be lost, in words."""
    told: list[str] = []
    if changes:
        told.append(f"{changes} change{'' if changes == 1 else 's'} that no turn has pinned")
    if left_out:
        told.append(f"what no snapshot holds and nobody could bring back: {name_some(left_out)}")
    return " and ".join(told)


def name_some(paths: Sequence[str]) -> str:
    """Return the first of some paths and how many there are besides."""
    more = len(paths) - LEFT_OUT_SHOWN_MAX
    shown = ", ".join(paths[:LEFT_OUT_SHOWN_MAX])
    return f"{shown} and {more} more" if more > 0 else shown
