"""What can be done with resources: knowing them, keeping their states, pinning those to turns.

A keeper's methods block, so each is called in a thread. What is kept is noted afterwards: a state
that nobody noted costs room and harms nobody.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TypeAlias, cast

import anyio.to_thread

from turntree.core.clock import Clock
from turntree.core.errors import InvalidOperation, NotFound, Unsupported
from turntree.core.ids import Digest, ResourceId, SessionId, SnapshotId, Timestamp, TurnId
from turntree.core.principal import Principal
from turntree.core.thread import ThreadTurn
from turntree.core.value import value
from turntree.ledger.revisions import RevisionResolver
from turntree.ledger.sessions import Sessions
from turntree.ledger.thread_store_port import Threads
from turntree.resources import store_port as ports
from turntree.resources.driver import HasFiles, ResourceDriver, TakenSnapshot
from turntree.resources.lineage import find_heirs, find_newest, inherit
from turntree.resources.resource import (
    AttachMode,
    Liveness,
    Resource,
    Scope,
    Snapshot,
    TurnSnapshot,
)
from turntree.resources.store_port import ResolvedTurnSnapshot

PINNED_TURNS_MAX = 10_000

FindKeeper: TypeAlias = Callable[[str], ResourceDriver]
"""Returns the keeper of a kind of resource, or raises ``Unsupported``."""


@value
class PinnedStates:
    """The states of one kind that turns pin, by where their bytes have to be."""

    here: frozenset[Digest]
    elsewhere: frozenset[Digest]
    """On another machine, or on this one under another name."""


@value
class Resources:
    """``tree.resources``: what turns work on."""

    ledger: ports.Resources
    attachments: ports.Attachments
    pins: ports.TurnSnapshots
    all_pins: ports.TurnSnapshots
    """With those of sessions that are closed to the user: no answer may name these."""
    advice: ports.Leases
    keepers: FindKeeper
    host: str
    threads: Threads
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
        mode: AttachMode = "rw",
        part_of: ResourceId | None = None,
        imperative: bool = False,
    ) -> Resource:
        """Return the resource at a place, known from now on and attached to a session if named.

        Raises:
            Unsupported: Nothing is installed that looks after this kind.
            NotFound: No such session.
            InvalidOperation: The place has a name whose bytes are no text.
        """
        try:
            place.encode()
        except UnicodeEncodeError as error:
            raise InvalidOperation(f"{place!r} has a name whose bytes are no text") from error
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
                Scope(session_id=None if found is None else found.id),
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
        """Return the resource of a folder, attached to a session if one is named."""
        return await self.ensure("directory", settled(path), name=name, session=session)

    async def ensure_file(
        self, path: str, session: str | None = None, *, name: str | None = None
    ) -> Resource:
        """Return the resource of a file, attached to a session if one is named."""
        return await self.ensure("file", settled(path), name=name, session=session)

    async def get(self, resource: ResourceId) -> Resource:
        """Return a resource.

        Raises:
            NotFound: No such resource.
        """
        return await self.ledger.get(resource)

    async def find(self, kind: str, place: str) -> Resource | None:
        """Return the resource at a place of this machine."""
        return await self.ledger.find(kind, self.host, place)

    async def find_last_holder(self, kind: str, places: Sequence[str]) -> SessionId | None:
        """Return the session that last worked at the first of some places of this machine."""
        return await self.attachments.find_last_holder(kind, self.host, places)

    async def attach(self, session: str, resource: Resource, mode: AttachMode = "rw") -> bool:
        """Let a session work on a resource; False if it did already.

        Raises:
            NotFound: No such session.
        """
        return await self._attach(resource.id, (await self.sessions.get(session)).id, mode)

    async def detach(self, session: str, resource: Resource) -> bool:
        """Take a resource away from a session; False if it had none.

        Raises:
            NotFound: No such session.
        """
        found = await self.sessions.get(session)
        return await self.attachments.detach(
            resource.id, found.id, by=str(self.by), at=self.world.now()
        )

    async def list_attached(self, session: str) -> list[tuple[Resource, AttachMode]]:
        """Return what a session works on.

        Raises:
            NotFound: No such session.
        """
        return await self.attachments.list_attached((await self.sessions.get(session)).id)

    async def take(self, resource: Resource) -> Snapshot:
        """Keep the present state of a resource.

        Raises:
            NotFound: There is nothing at its place.
            Unsupported: Its states cannot be kept.
        """
        self._check_here(resource)
        keeper = self.keeper_of(resource)
        return await self.note(resource, await in_thread(keeper.snapshot, resource.place))

    async def note(self, resource: Resource, taken: TakenSnapshot) -> Snapshot:
        """Note a state that was kept before, perhaps by another process.

        Raises:
            InvalidOperation: No state of the resource can be kept.
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
    ) -> bool:
        """Note in which states a turn found and left a resource; False if that is known.

        Raises:
            NotFound: No such turn.
        """
        found = None if before is None else (await self.note(resource, before)).id
        left = (await self.note(resource, after)).id
        pin = TurnSnapshot(turn, resource.id, left, found, mode, began_at, ended_at)
        return await self.pins.pin(pin, by=str(self.by), at=self.world.now())

    async def pins_of(self, revision: str | TurnId) -> list[ResolvedTurnSnapshot]:
        """Return what the turn that a revision names pins.

        Raises:
            NotFound: It names nothing.
        """
        return await self.pins.list_pins([(await self.revisions.resolve(revision)).turn])

    async def list_pinned_states(self, kind: str) -> PinnedStates:
        """Return the states that turns pin, of one kind of reference: ``shadow-tree``."""
        found = await self.ledger.list_pinned_states(kind, self.host)
        here = frozenset(Digest(id) for id, is_here in found.items() if is_here)
        return PinnedStates(here, frozenset(map(Digest, found)) - here)

    async def nearest(
        self, revision: str | TurnId
    ) -> tuple[ThreadTurn, list[ResolvedTurnSnapshot]]:
        """Return the nearest turn, at a revision or above it, that pins anything, and its pins.

        Raises:
            NotFound: None of them does.
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
        """Return the pins of a thread's newest pinned turns, newest first.

        Raises:
            NotFound: The revision names nothing.
        """
        turn = (await self.revisions.resolve(revision)).turn
        found = await self.pins.list_pinned_along(turn, limit=limit)
        return await self.pins.list_pins([turn for turn, _ in found])

    async def find_heirs(
        self, turn: TurnId, attached: Sequence[Resource]
    ) -> dict[ResourceId, Resource]:
        """Return which place everything that a thread pinned has become.

        A place that its session works on, or else the one that the thread last worked on.
        """
        if attached:
            return await find_heirs(self.ledger, attached)
        return await find_newest(self.ledger, await self.pins_along(turn, PINNED_TURNS_MAX))

    async def nearest_pins(
        self, turn: TurnId, heirs: Mapping[ResourceId, Resource]
    ) -> dict[ResourceId, ResolvedTurnSnapshot]:
        """Return, for each place that a session works on, the nearest pin at a turn or above it."""
        found: dict[ResourceId, ResolvedTurnSnapshot] = {}
        for pinned in inherit(await self.pins_along(turn, PINNED_TURNS_MAX), heirs):
            found.setdefault(pinned.resource.id, pinned)
        return found

    async def pins_before(
        self, turn: ThreadTurn, heirs: Mapping[ResourceId, Resource]
    ) -> dict[ResourceId, ResolvedTurnSnapshot]:
        """Return, for each place that a session works on, the state in which a turn found it.

        What the turn itself did not note is as the nearest one above it left it. The state stands
        where that of a pin's end does.
        """
        above = {} if turn.parent is None else await self.nearest_pins(turn.parent, heirs)
        own = inherit(await self.pins.list_pins([turn.turn.id]), heirs)
        found = {
            one.resource.id: replace(one, after=one.before) for one in own if one.before is not None
        }
        return {**above, **found}

    def keeper_of(self, resource: Resource) -> ResourceDriver:
        """Return what looks after a resource.

        Raises:
            Unsupported: Nothing is installed that does.
        """
        return self.keepers(resource.kind)

    def file_keeper_of(self, resource: Resource) -> HasFiles:
        """Return the keeper of a resource whose states are made of files.

        Raises:
            Unsupported: They are not.
        """
        keeper = find_files(self.keeper_of(resource))
        if keeper is None:
            raise Unsupported(f"the states of {resource.name} are not made of files")
        return keeper

    async def probe(self, resource: Resource) -> Liveness:
        """Look whether a resource is there, and note the answer as advice."""
        self._check_here(resource)
        status = await in_thread(self.keeper_of(resource).probe, resource.place)
        await self.advice.note_liveness(resource.id, status, self.world.now())
        return status

    async def _attach(self, resource: ResourceId, session: SessionId, mode: AttachMode) -> bool:
        return await self.attachments.attach(
            resource, session, mode, by=str(self.by), at=self.world.now()
        )

    def _check_here(self, resource: Resource) -> None:
        if resource.host != self.host:
            raise InvalidOperation(
                f"{resource.name} is on {resource.host}, and this is {self.host}"
            )


def find_files(keeper: ResourceDriver) -> HasFiles | None:
    """Return the same keeper if its states are made of files."""
    looks_inside = all(hasattr(keeper, name) for name in ("list_entries", "read", "compare"))
    return cast("HasFiles", keeper) if looks_inside else None


def settled(path: str) -> str:
    """Return the one spelling of a path: absolute, without detours."""
    return str(Path(path).expanduser().resolve())


in_thread = anyio.to_thread.run_sync
