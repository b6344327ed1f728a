"""Worktrees: folders created from a turn's snapshot. List, remove and restore them.

Creating one is a plan like any other (``tree.plans``). Removing one must never lose data that is
stored nowhere else.
"""

import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import PurePath

from turntree.core.errors import InvalidOperation, NotFound, PermissionDenied, UnsavedChanges
from turntree.core.ids import Digest, TurnId
from turntree.core.ref import ExtRef
from turntree.core.session import Session
from turntree.core.value import Facet, value
from turntree.resources.driver import HasIgnoreRules, TracksForks, VerifiesSnapshots
from turntree.resources.files import Files
from turntree.resources.lineage import origin_of
from turntree.resources.resource import FileChange, Liveness, Resource, Snapshot
from turntree.resources.service import Resources, in_thread

PAGE = 1000
LEFT_OUT_SHOWN_MAX = 5


@value
class Worktree:
    """A folder created from a turn's snapshot."""

    resource: Resource
    turn: TurnId
    state: ExtRef
    """The snapshot it was created from."""
    liveness: Liveness
    sessions: tuple[Session, ...]
    """The sessions that work there."""
    before: bool = False
    """Whether it was created from the state before the turn, not after it."""


@value
class RemovedWorktree:
    """A removed worktree and its last snapshot."""

    worktree: Worktree
    last: Snapshot | None
    """None if it was deleted outside Turntree."""
    changes: tuple[FileChange, ...] = ()
    """Changes since its last turn snapshot, or since it was created."""
    left_out: tuple[str, ...] = ()
    """Paths that no snapshot holds; they are gone for good."""


@value
class Worktrees(Facet):
    """``tree.worktrees``: folders created from snapshots."""

    resources: Resources
    files: Files

    async def list_all(self, *, gone: bool = False) -> list[Worktree]:
        """Return the worktrees of this machine, oldest first; with ``gone``, removed ones too."""
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
        """Return the worktree at a location.

        Raises:
            NotFound: There is none, or it was not created from a turn.
        """
        for kind in ("directory", "file"):
            resource = await self.resources.find(kind, place)
            one = None if resource is None else await self._find(resource)
            if one is not None:
                return one
        raise NotFound(f"{place} is not a worktree created from a turn")

    async def remove(self, place: str, *, force: bool = False) -> RemovedWorktree:
        """Remove a worktree after storing its last state, and detach its sessions.

        Raises:
            NotFound: There is none, or it was not created from a turn.
            UnsavedChanges: It holds changes without a turn snapshot or files in no snapshot, it is
                not as it was when it was last removed, and ``force`` was not given.
            InvalidOperation: The folder was replaced, or a hidden session works there and ``force``
                was not given. Nothing has changed.
        """
        one = await self.get(place)
        resource = one.resource
        if one.liveness == "dead":
            for session in one.sessions:
                await self.resources.detach(session.label, one.resource)
            await self.resources.probe(one.resource)
            return RemovedWorktree(one, None)
        await self._check_made(resource)
        last = await self.resources.take(resource)
        changes = await self.files.compare(resource, await self._pinned(one), last.external)
        left_out = await self._list_left_out(resource, last)
        # After a restore nothing is lost: the state of the last removal is still stored.
        left = await self.resources.attachments.find_left(resource.id)
        is_kept = left is not None and (
            (await self.resources.ledger.get_snapshot(left.snapshot)).external == last.external
        )
        if ((changes and not is_kept) or left_out) and not force:
            raise UnsavedChanges(f"{place} holds {_describe(len(changes), left_out)}")
        world, by = self.resources.world, str(self.resources.by)
        # Detach first: a crash after this leaves the folder in place, or recorded and restorable.
        await self.resources.attachments.leave(
            resource.id, last.id, by=by, at=world.now(), force=force
        )
        await in_thread(self.resources.keeper_of(resource).discard, resource.place)
        await self.resources.probe(resource)
        return RemovedWorktree(one, last, tuple(changes), tuple(left_out))

    async def restore(self, place: str) -> Worktree:
        """Restore a removed worktree: its last state and its sessions.

        Raises:
            NotFound: None was removed there, or its last snapshot is no longer stored.
            InvalidOperation: Something exists there.
        """
        one = await self.get(place)
        if one.liveness != "dead":
            raise InvalidOperation(f"something is at {place}")
        resource, attachments = one.resource, self.resources.attachments
        left = await attachments.find_left(resource.id)
        if left is None:
            raise NotFound(f"{place} was deleted outside Turntree; nothing to restore")
        state = await self.resources.ledger.get_snapshot(left.snapshot)
        # Check first: no session may be attached to a folder that can no longer be created.
        await self._check_kept(resource, state)
        world, by = self.resources.world, str(self.resources.by)
        for session in left.sessions:
            # A session that was hidden from the caller meanwhile can attach itself again.
            with contextlib.suppress(NotFound, PermissionDenied):
                await attachments.attach(resource.id, session, "rw", by=by, at=world.now())
        # Create the folder last: as long as it is absent, the whole call can be repeated.
        await in_thread(self.resources.keeper_of(resource).fork, state.external, place)
        await self.resources.probe(resource)
        return await self.get(place)

    async def find_gone(self, name: str) -> list[str]:
        """Return the locations of removed worktrees with this name."""
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
        """Raise if the folder at a worktree's location is not the one that was created there."""
        keeper, place = self.resources.keeper_of(resource), resource.place
        if isinstance(keeper, TracksForks) and await in_thread(keeper.forked_from, place) is None:
            raise InvalidOperation(
                f"{place} is not the folder that was created there: it was replaced or copied back"
                "\nmove it away, then remove the worktree again"
            )

    async def _check_kept(self, resource: Resource, state: Snapshot) -> None:
        keeper = self.resources.keeper_of(resource)
        if not isinstance(keeper, VerifiesSnapshots):
            return
        states = {Digest(state.external.id)}
        look = partial(keeper.list_losses, states, lambda _: None, full=False, limit=1)
        if await in_thread(look):
            raise NotFound(f"the last state of {resource.place} is no longer stored")

    async def _list_left_out(self, resource: Resource, state: Snapshot) -> list[str]:
        keeper = self.resources.keeper_of(resource)
        if not isinstance(keeper, HasIgnoreRules):
            return []
        return await in_thread(keeper.list_left_out, resource.place, state.external)

    async def _pinned(self, one: Worktree) -> ExtRef:
        """Return the state a turn last left it in, or the one it was created from."""
        world = self.resources.world
        pins = await self.resources.pins.list_pins_between(
            one.resource.id, one.resource.created_at, world.now()
        )
        return pins[-1].after.external if pins else one.state


def _describe(changes: int, left_out: Sequence[str]) -> str:
    """Return what would be lost, in words."""
    told: list[str] = []
    if changes:
        told.append(f"{changes} change{'' if changes == 1 else 's'} that no turn has pinned")
    if left_out:
        told.append(f"files that no snapshot could restore: {name_some(left_out)}")
    return " and ".join(told)


def name_some(paths: Sequence[str]) -> str:
    """Return the first of some paths and how many more there are."""
    more = len(paths) - LEFT_OUT_SHOWN_MAX
    shown = ", ".join(paths[:LEFT_OUT_SHOWN_MAX])
    return f"{shown} and {more} more" if more > 0 else shown
