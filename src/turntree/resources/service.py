"""The resources facet: register resources, take snapshots, and link those to turns.

Driver methods block, so each runs in a thread. The driver stores a snapshot before the ledger
records it: an unrecorded snapshot only costs space until the next garbage collection.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TypeAlias, cast

import anyio.to_thread

from turntree.core.clock import Clock
from turntree.core.errors import InvalidOperation, NotFound, Unsupported
from turntree.core.ids import Digest, ResourceId, RunId, SessionId, SnapshotId, Timestamp, TurnId
from turntree.core.principal import Principal
from turntree.core.thread import ThreadTurn
from turntree.core.value import Facet, value
from turntree.ledger.revisions import RevisionResolver
from turntree.ledger.sessions import Sessions
from turntree.ledger.thread_store import ThreadStore
from turntree.resources.driver import HasFiles, ResourceDriver, TakenSnapshot
from turntree.resources.lineage import find_heirs, find_newest, inherit
from turntree.resources.resource import (
    AttachMode,
    CallStates,
    Handle,
    Liveness,
    ResolvedTurnSnapshot,
    Resource,
    Scope,
    Snapshot,
    TurnSnapshot,
)
from turntree.resources.store import AttachmentStore, LeaseStore, ResourceStore, TurnSnapshotStore

PINNED_TURNS_MAX = 10_000

FindKeeper: TypeAlias = Callable[[str], ResourceDriver]
"""Returns the driver of a resource kind, or raises ``Unsupported``."""


@value
class PinnedStates:
    """The snapshots of one kind that turns refer to, by where their bytes must be."""

    here: frozenset[Digest]
    elsewhere: frozenset[Digest]
    """On another machine, or on this one under another host name."""


@value
class Resources(Facet):
    """``tree.resources``: what turns work on."""

    ledger: ResourceStore
    attachments: AttachmentStore
    pins: TurnSnapshotStore
    all_pins: TurnSnapshotStore
    """Includes those of sessions hidden from the viewer: results must never name these."""
    advice: LeaseStore
    keepers: FindKeeper
    host: str
    threads: ThreadStore
    revisions: RevisionResolver
    sessions: Sessions
    world: Clock
    by: Principal

    async def ensure(
        self,
        kind: str,
        place: str,
        *,
        name: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        run: RunId | None = None,
        mode: AttachMode = "rw",
        part_of: ResourceId | None = None,
        imperative: bool = False,
    ) -> Resource:
        """Return the resource at a location; register it, and attach it to a session if named.

        A new resource belongs to the agent, the run and the session that are named.

        Raises:
            Unsupported: No driver is installed for this kind.
            NotFound: No such session.
            InvalidOperation: The location is not valid UTF-8.
        """
        try:
            place.encode()
        except UnicodeEncodeError as error:
            raise InvalidOperation(f"{place!r} is not valid UTF-8") from error
        keeper = self.keepers(kind)
        found = None if session is None else await self.sessions.get(session)
        resource = await self.ledger.ensure(
            Resource(
                ResourceId(self.world.new_id()),
                kind,
                self.host,
                place,
                name or PurePath(place).name or place,
                keeper.capabilities,
                imperative,
                self.world.now(),
                Scope(
                    None if agent is None else str(Principal("agent", agent)),
                    run,
                    None if found is None else found.id,
                ),
                part_of,
            ),
            by=str(self.by),
        )
        if found is not None:
            await self._attach(resource.id, found.id, mode)
        return resource

    async def ensure_directory(
        self, path: str, session: str | None = None, *, name: str | None = None
    ) -> Resource:
        """Return the resource of a directory, attached to a session if one is named."""
        return await self.ensure("directory", settled(path), name=name, session=session)

    async def get(self, resource: ResourceId) -> Resource:
        """Return a resource.

        Raises:
            NotFound: No such resource.
        """
        return await self.ledger.get(resource)

    async def find(self, kind: str, place: str) -> Resource | None:
        """Return the resource at a location on this machine, or None."""
        return await self.ledger.find(kind, self.host, place)

    async def list_around(self, path: str) -> list[Resource]:
        """Return the resources that contain an absolute path of this machine, innermost first."""
        folders = [path, *map(str, PurePath(path).parents)]
        found = [await self.find("file", path)]
        found += [await self.find("directory", folder) for folder in folders]
        return [resource for resource in found if resource is not None]

    async def find_last_holder(
        self, kind: str, places: Sequence[str]
    ) -> tuple[SessionId, str] | None:
        """Return the session that last worked at the first of some locations here, and which."""
        return await self.attachments.find_last_holder(kind, self.host, places)

    async def attach(
        self,
        session: str,
        resource: Resource,
        mode: AttachMode = "rw",
        *,
        handle: Handle | None = None,
    ) -> bool:
        """Attach a resource to a session; False if it was attached already.

        A live connection to it is recorded as its handle.

        Raises:
            NotFound: No such session.
        """
        found = await self.sessions.get(session)
        return await self._attach(resource.id, found.id, mode, handle)

    async def detach(self, session: str, resource: Resource) -> bool:
        """Detach a resource from a session; False if it was not attached.

        Raises:
            NotFound: No such session.
        """
        found = await self.sessions.get(session)
        return await self.attachments.detach(
            resource.id, found.id, by=str(self.by), at=self.world.now()
        )

    async def list_attached(self, session: str) -> list[tuple[Resource, AttachMode]]:
        """Return the resources that a session works on.

        Raises:
            NotFound: No such session.
        """
        return await self.attachments.list_attached((await self.sessions.get(session)).id)

    async def take(self, resource: Resource) -> Snapshot:
        """Take a snapshot of a resource and record it.

        Raises:
            NotFound: The resource does not exist.
            Unsupported: Its driver cannot take snapshots.
        """
        self._check_here(resource)
        keeper = self.keeper_of(resource)
        return await self.note(resource, await in_thread(keeper.snapshot, resource.place))

    async def note(self, resource: Resource, taken: TakenSnapshot) -> Snapshot:
        """Record a snapshot that was taken before, perhaps by another process.

        Raises:
            InvalidOperation: The resource does not support snapshots.
        """
        keeper = self.keeper_of(resource)
        return await self.ledger.keep(
            Snapshot(
                SnapshotId(self.world.new_id()),
                resource.id,
                keeper.method,
                taken.external,
                taken.size,
                self.world.now(),
                "restore" in resource.capabilities,
                taken.consistency,
            ),
            by=str(self.by),
        )

    async def pin(
        self,
        turn: TurnId,
        resource: Resource,
        before: TakenSnapshot | None,
        after: TakenSnapshot,
        began_at: Timestamp,
        ended_at: Timestamp,
        mode: AttachMode = "rw",
        calls: Sequence[CallStates] = (),
        late_ms: int | None = None,
    ) -> bool:
        """Record the snapshots before and after a turn; False if they are recorded already.

        ``calls`` are the states around its tool calls, as far as these were observed. ``late_ms``
        is how long after the turn began the first state was recorded, if files changed meanwhile.

        Raises:
            NotFound: No such turn.
        """
        found = None if before is None else (await self.note(resource, before)).id
        left = (await self.note(resource, after)).id
        pin = TurnSnapshot(
            turn, resource.id, left, found, mode, began_at, ended_at, tuple(calls), late_ms
        )
        return await self.pins.pin(pin, by=str(self.by), at=self.world.now())

    async def pins_of(self, revision: str | TurnId) -> list[ResolvedTurnSnapshot]:
        """Return the turn snapshots of the turn that a revision names.

        Raises:
            NotFound: It names nothing.
        """
        return await self.pins.list_pins([(await self.revisions.resolve(revision)).turn])

    async def list_pinned_states(self, kind: str) -> PinnedStates:
        """Return the snapshots that turns refer to, of one kind of reference: ``shadow-tree``."""
        found = await self.ledger.list_pinned_states(kind, self.host)
        here = frozenset(Digest(id) for id, is_here in found.items() if is_here)
        return PinnedStates(here, frozenset(map(Digest, found)) - here)

    async def nearest(
        self, revision: str | TurnId
    ) -> tuple[ThreadTurn, list[ResolvedTurnSnapshot]]:
        """Return the nearest turn at or above a revision that has snapshots, and these.

        Raises:
            NotFound: None of them has any.
        """
        turn = (await self.revisions.resolve(revision)).turn
        found = await self.pins.list_pinned_along(turn, limit=1)
        if not found:
            raise NotFound(f"no turn at {revision} or above it knows any files")
        nearest = found[0][0]
        return await self.threads.get_turn(nearest), await self.pins.list_pins([nearest])

    async def pins_along(
        self, revision: str | TurnId, limit: int = 100
    ) -> list[ResolvedTurnSnapshot]:
        """Return the turn snapshots of a thread's newest turns that have any, newest first.

        Raises:
            NotFound: The revision names nothing.
        """
        turn = (await self.revisions.resolve(revision)).turn
        found = await self.pins.list_pinned_along(turn, limit=limit)
        return await self.pins.list_pins([turn for turn, _ in found])

    async def find_heirs(
        self, turn: TurnId, attached: Sequence[Resource]
    ) -> dict[ResourceId, Resource]:
        """Map every resource of a thread to the one that stands for it now.

        That is one its session works on, or else the one that the thread last worked on.
        """
        if attached:
            return await find_heirs(self.ledger, attached)
        return await find_newest(self.ledger, await self.pins_along(turn, PINNED_TURNS_MAX))

    async def nearest_pins(
        self, turn: TurnId, heirs: Mapping[ResourceId, Resource]
    ) -> dict[ResourceId, ResolvedTurnSnapshot]:
        """Return, for each resource of a session, the nearest turn snapshot at or above a turn."""
        found: dict[ResourceId, ResolvedTurnSnapshot] = {}
        for pinned in inherit(await self.pins_along(turn, PINNED_TURNS_MAX), heirs):
            found.setdefault(pinned.resource.id, pinned)
        return found

    async def pins_before(
        self, turn: ThreadTurn, heirs: Mapping[ResourceId, Resource]
    ) -> dict[ResourceId, ResolvedTurnSnapshot]:
        """Return, for each resource of a session, its state when a turn began.

        Where the turn has no snapshot of its own, the state its nearest ancestor left counts. The
        state is in ``after``, as for any turn snapshot.
        """
        above = {} if turn.parent is None else await self.nearest_pins(turn.parent, heirs)
        own = inherit(await self.pins.list_pins([turn.turn.id]), heirs)
        found = {
            one.resource.id: replace(one, after=one.before) for one in own if one.before is not None
        }
        return {**above, **found}

    def keeper_of(self, resource: Resource) -> ResourceDriver:
        """Return the driver of a resource.

        Raises:
            Unsupported: No driver is installed for its kind.
        """
        return self.keepers(resource.kind)

    def file_keeper_of(self, resource: Resource) -> HasFiles:
        """Return the driver of a resource whose snapshots consist of files.

        Raises:
            Unsupported: They do not.
        """
        keeper = find_files(self.keeper_of(resource))
        if keeper is None:
            raise Unsupported(f"snapshots of {resource.name} do not consist of files")
        return keeper

    async def probe(self, resource: Resource) -> Liveness:
        """Check whether a resource exists, and record the result as advice."""
        self._check_here(resource)
        status = await in_thread(self.keeper_of(resource).probe, resource.place)
        await self.advice.note_liveness(resource.id, status, self.world.now())
        return status

    async def _attach(
        self,
        resource: ResourceId,
        session: SessionId,
        mode: AttachMode,
        handle: Handle | None = None,
    ) -> bool:
        return await self.attachments.attach(
            resource, session, mode, by=str(self.by), at=self.world.now(), handle=handle
        )

    def _check_here(self, resource: Resource) -> None:
        if resource.host != self.host:
            raise InvalidOperation(
                f"{resource.name} is on {resource.host}, and this is {self.host}"
            )


def find_files(keeper: ResourceDriver) -> HasFiles | None:
    """Return the same driver if its snapshots consist of files."""
    looks_inside = all(hasattr(keeper, name) for name in ("list_entries", "read", "compare"))
    return cast("HasFiles", keeper) if looks_inside else None


def settled(path: str) -> str:
    """Return the canonical spelling of a path: absolute, symlinks resolved."""
    return str(Path(path).expanduser().resolve())


in_thread = anyio.to_thread.run_sync
