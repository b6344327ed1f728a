"""Store resources, snapshots and turn snapshots in PostgreSQL.

Each write records its event in the same transaction; pure modules define what the event says.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson
from psycopg.types.json import Jsonb

from turntree.core.canonical import Json, canonical, digest_from_raw
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.ids import (
    EventId,
    ResourceId,
    SessionId,
    SnapshotId,
    Timestamp,
    TurnId,
)
from turntree.core.ref import EventRef, ExtRef
from turntree.core.ref import from_json as ref_from_json
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.arrays import text_array
from turntree.db.database import Connection, Database, Row, as_uuid, as_uuids, fetch, run
from turntree.db.sql import load_statements
from turntree.ledger.session_store import as_instant
from turntree.ledger.store import SQL as LEDGER_SQL
from turntree.ledger.thread_store import ID_MIN
from turntree.resources.resource import (
    AttachMode,
    CallStates,
    Handle,
    Lease,
    Liveness,
    ResolvedTurnSnapshot,
    Resource,
    ResourceAfterTurn,
    Scope,
    Snapshot,
    TurnSnapshot,
    describe,
    describe_pin,
    describe_state,
)

SQL = load_statements(__file__)

_RESOURCE_COLUMNS = 13
_PIN_COLUMNS = 4
_SNAPSHOT_COLUMNS = 9


@value
class ResourceStore:
    """Resources and snapshots. Each write records its event in the same transaction."""

    database: Database

    async def ensure(self, resource: Resource, *, by: str) -> Resource:
        """Return the resource of that kind at that location and host; register it if it is new."""
        async with self.database.connection() as connection, connection.transaction():
            id = await ensure_resource(connection, self.database.workspace, resource, by)
        return await self.get(id)

    async def get(self, resource: ResourceId) -> Resource:
        """Return a resource.

        Raises:
            NotFound: No such resource.
        """
        row = await self.database.fetch_one(SQL["find_resource"], resource=UUID(resource))
        if row is None:
            raise NotFound(f"there is no resource {resource}")
        return _resource(row)

    async def find(self, kind: str, host: str, place: str) -> Resource | None:
        """Return the resource at a location, or None."""
        row = await self.database.fetch_one(
            SQL["find_resource_at"], kind=kind, host=host, place=place
        )
        return None if row is None else _resource(row)

    async def list_page(self, *, after: str = ID_MIN, limit: int = 1000) -> list[Resource]:
        """Return resources, oldest first."""
        rows = await self.database.fetch(SQL["list_resources"], after=UUID(after), limit=limit)
        return [_resource(row) for row in rows]

    async def keep(self, snapshot: Snapshot, *, by: str) -> Snapshot:
        """Record a snapshot; the same state of the same resource is recorded once.

        Raises:
            NotFound: No such resource.
            InvalidOperation: The resource lacks the capability ``snapshot``.
        """
        row = await self.database.fetch_one(
            SQL["insert_snapshot"],
            id=UUID(snapshot.id),
            resource=UUID(snapshot.resource),
            method=snapshot.method,
            external_kind=snapshot.external.kind,
            external_id=snapshot.external.id,
            size=snapshot.size,
            restorable=snapshot.restorable,
            consistency=snapshot.consistency,
            at=snapshot.at,
            data=as_data({**describe_state(snapshot), "by": by}),
        )
        assert row is not None, "the function returns one row or raises"
        return snapshot if row[0] == snapshot.id else await self.get_snapshot(row[0])

    async def get_snapshot(self, snapshot: SnapshotId) -> Snapshot:
        """Return a recorded snapshot.

        Raises:
            NotFound: No such snapshot.
        """
        row = await self.database.fetch_one(SQL["find_snapshot"], snapshot=UUID(snapshot))
        if row is None:
            raise NotFound(f"there is no snapshot {snapshot}")
        return _snapshot(row)

    async def list_pinned_kinds(self) -> list[str]:
        """Return the kinds of the resources that have turn snapshots."""
        return [kind for (kind,) in await self.database.fetch(SQL["list_snapshotted_kinds"])]

    async def list_pinned_states(self, kind: str, host: str) -> dict[str, bool]:
        """Return the snapshots that turns refer to, and whether a host must have their bytes.

        A snapshot taken on another machine is stored there, or here under another host name.
        """
        rows = await self.database.fetch(SQL["list_snapshots_in_use"], kind=kind, host=host)
        return dict(rows)


@value
class AttachmentStore:
    """Which session works on what. Each write records its event in the same transaction."""

    database: Database

    async def attach(
        self,
        resource: ResourceId,
        session: SessionId,
        mode: AttachMode,
        *,
        by: str,
        at: Timestamp,
        handle: Handle | None = None,
    ) -> bool:
        """Attach a resource to a session; False if it was attached already.

        Raises:
            NotFound: No such resource or session.
        """
        found = await ResourceStore(self.database).get(resource)
        async with self.database.connection() as connection, connection.transaction():
            scope = self.database.workspace
            if handle is not None:
                await run(connection, SQL["add_handle"], {"workspace": scope, **_handle(handle)})
            return await attach_resource(
                connection, scope, found, session, mode, by=by, at=at, handle=handle
            )

    async def detach(
        self, resource: ResourceId, session: SessionId, *, by: str, at: Timestamp
    ) -> bool:
        """Detach a resource from a session; False if it was not attached."""
        async with self.database.connection() as connection, connection.transaction():
            scope = self.database.workspace
            return await detach_resource(connection, scope, resource, session, by=by, at=at)

    async def list_attached(self, session: SessionId) -> list[tuple[Resource, AttachMode]]:
        """Return the resources that a session works on."""
        rows = await self.database.fetch(SQL["list_attached"], session=UUID(session))
        return [(_resource(row), row[_RESOURCE_COLUMNS]) for row in rows]

    async def list_attached_by(self, session: SessionId, by: str) -> set[ResourceId]:
        """Return the resources of a session that a principal attached."""
        rows = await self.database.fetch(SQL["list_attached_by"], session=UUID(session), by=by)
        return {ResourceId(id) for (id,) in rows}

    async def list_holders(
        self, resource: ResourceId, *, since: Timestamp | None = None
    ) -> list[SessionId]:
        """Return the sessions that work on a resource, or only those attached since a timestamp."""
        if since is None:
            rows = await self.database.fetch(SQL["list_holders"], resource=UUID(resource))
        else:
            asked = {"resource": UUID(resource), "since": since}
            rows = await self.database.fetch(SQL["list_new_attachments"], **asked)
        return [SessionId(id) for (id,) in rows]

    async def find_last_holder(
        self, kind: str, host: str, places: Sequence[str]
    ) -> tuple[SessionId, str] | None:
        """Return the active session with turns that last worked at one of some locations.

        The first location with a session counts, and is returned too. A subagent's session is
        returned only where there is no other.
        """
        asked = {"kind": kind, "host": host, "places": text_array(places)}
        row = await self.database.fetch_one(SQL["find_last_holder"], **asked)
        return None if row is None else (SessionId(row[0]), row[1])

    async def list_places(self, kind: str, host: str) -> dict[SessionId, list[str]]:
        """Return the locations on a host that each session works at."""
        places: dict[SessionId, list[str]] = {}
        for session, place in await self.database.fetch(
            SQL["list_session_places"], kind=kind, host=host
        ):
            places.setdefault(SessionId(session), []).append(place)
        return places

    async def has_holders(
        self, resource: ResourceId, *, since: Timestamp | None = None, but: SessionId | None = None
    ) -> bool:
        """Return whether any session works on a resource, including hidden ones.

        ``since`` limits this to sessions attached later; ``but`` leaves one session out.
        """
        whole = AttachmentStore(self.database.seen_by(EVERYTHING))
        return any(one != but for one in await whole.list_holders(resource, since=since))

    async def leave(
        self,
        resource: ResourceId,
        snapshot: SnapshotId,
        *,
        by: str,
        at: Timestamp,
        force: bool = False,
    ) -> ResourceAfterTurn:
        """Detach a resource from all sessions and record its last snapshot.

        Returns the sessions that worked on it, without those hidden from the caller.

        Raises:
            InvalidOperation: A hidden session works on it, and ``force`` was not given.
        """
        left = ResourceAfterTurn(snapshot, tuple(await self.list_holders(resource)))
        said = {"snapshot_ref": snapshot, "sessions": list(left.sessions), "by": by}
        # All sessions includes those that are hidden from the caller.
        whole = self.database.seen_by(EVERYTHING)
        async with whole.connection() as connection, connection.transaction():
            scope = self.database.workspace
            asked = {"workspace": scope, "resource": UUID(resource)}
            await run(connection, SQL["lock_resource"], asked)
            holders = [
                SessionId(id) for (id,) in await fetch(connection, SQL["list_holders"], **asked)
            ]
            if not force and set(holders) - set(left.sessions):
                raise InvalidOperation("another session works there, and it is hidden from you")
            for session in holders:
                await detach_resource(connection, scope, resource, session, by=by, at=at)
            told = {"workspace": scope, "stream": UUID(resource), "kind": "resource.removed"}
            await run(
                connection, LEDGER_SQL["record_event"], {**told, "at": at, "data": as_data(said)}
            )
        return left

    async def find_left(self, resource: ResourceId) -> ResourceAfterTurn | None:
        """Return how a resource was left when it was last removed, or None."""
        row = await self.database.fetch_one(
            SQL["find_resource_after_turn"], resource=UUID(resource)
        )
        if row is None:
            return None
        data = orjson.loads(row[0])["data"]
        return ResourceAfterTurn(
            SnapshotId(data["snapshot_ref"]), tuple(map(SessionId, data["sessions"]))
        )

    async def newest_event(self, session: SessionId) -> EventRef | None:
        """Return the newest event of a session: it says what is attached by now."""
        row = await self.database.fetch_one(SQL["newest_event"], stream=UUID(session))
        if row is None:
            return None
        return EventRef(EventId(digest_from_raw(bytes(row[1]))), session, row[0])


@value
class TurnSnapshotStore:
    """The states of resources before and after turns."""

    database: Database

    async def pin(self, pin: TurnSnapshot, *, by: str, at: Timestamp) -> bool:
        """Record the snapshots before and after a turn; False if they are recorded already.

        Raises:
            NotFound: No such turn, resource or snapshot of it.
        """
        row = await self.database.fetch_one(
            SQL["insert_turn_snapshot"],
            turn=UUID(pin.turn),
            resource=UUID(pin.resource),
            before=as_uuid(pin.before),
            after=UUID(pin.after),
            mode=pin.mode,
            began_at=pin.began_at,
            ended_at=pin.ended_at,
            at=at,
            data=as_data({**describe_pin(pin), "by": by}),
        )
        return row is not None and bool(row[0])

    async def list_pins(self, turns: Sequence[TurnId]) -> list[ResolvedTurnSnapshot]:
        """Return the turn snapshots of turns, in the order of the turns given."""
        rows = await self.database.fetch(SQL["list_turn_snapshots"], turns=as_uuids(turns))
        return [_pinned(row) for row in rows]

    async def list_pinned_along(self, head: TurnId, *, limit: int) -> list[tuple[TurnId, int]]:
        """Return the turns of a thread that have snapshots, newest first, with their depths."""
        rows = await self.database.fetch(SQL["list_thread_snapshots"], head=UUID(head), limit=limit)
        return [(TurnId(turn), depth) for turn, depth in rows]

    async def list_newest(self, resource: ResourceId, *, limit: int) -> list[ResolvedTurnSnapshot]:
        """Return the turn snapshots of the turns that last worked on a resource, newest first."""
        rows = await self.database.fetch(
            SQL["list_newest_turns"], resource=UUID(resource), limit=limit
        )
        pins = await self.list_pins([TurnId(turn) for (turn,) in rows])
        return [one for one in pins if one.resource.id == resource]

    async def list_pins_between(
        self, resource: ResourceId, since: Timestamp, until: Timestamp
    ) -> list[ResolvedTurnSnapshot]:
        """Return the turn snapshots of a resource whose turns ran in an interval, oldest first."""
        rows = await self.database.fetch(
            SQL["list_turn_snapshots_between"], resource=UUID(resource), since=since, until=until
        )
        return [_pinned(row) for row in rows]

    async def list_calls(
        self, resource: ResourceId, turns: Sequence[TurnId]
    ) -> dict[TurnId, list[CallStates]]:
        """Return the states around the tool calls of turns, as far as these were observed."""
        found: dict[TurnId, list[CallStates]] = {}
        for turn, body in await self.database.fetch(SQL["list_calls"], turns=as_uuids(turns)):
            data = orjson.loads(body)["data"]
            if data["resource_ref"] == resource:
                found[TurnId(turn)] = [_call(told) for told in data.get("calls", ())]
        return found

    async def list_late(self, turns: Sequence[TurnId]) -> dict[TurnId, int]:
        """Return the turns whose first state was recorded too late, and by how many milliseconds.

        What such a turn changed before that is missing in its changes.
        """
        rows = await self.database.fetch(SQL["list_calls"], turns=as_uuids(turns)) if turns else ()
        told = [(TurnId(turn), orjson.loads(body)["data"].get("late_ms")) for turn, body in rows]
        return {turn: late_ms for turn, late_ms in told if late_ms is not None}

    async def list_written(self, turns: Sequence[TurnId]) -> dict[TurnId, set[str]]:
        """Return the paths that turns themselves report writing, as their tools spelled them."""
        found: dict[TurnId, set[str]] = {}
        for turn, path in await self.database.fetch(SQL["list_written"], turns=as_uuids(turns)):
            found.setdefault(TurnId(turn), set()).add(path)
        return found

    async def list_below(self, head: TurnId, depth: int) -> list[tuple[TurnId, int]]:
        """Return the turns of a thread below a depth, oldest first, with their depths."""
        rows = await self.database.fetch(SQL["list_turns_below"], head=UUID(head), low=depth)
        return [(TurnId(turn), found) for turn, found in rows]

    async def list_spawned(
        self, turns: Sequence[TurnId], by: Sequence[TurnId]
    ) -> frozenset[TurnId]:
        """Return which turns belong to sessions that one of the turns in ``by`` spawned."""
        rows = await self.database.fetch(
            SQL["list_spawned_turns"], turns=as_uuids(turns), by=as_uuids(by)
        )
        return frozenset(TurnId(turn) for (turn,) in rows)


@value
class LeaseStore:
    """Advisory data that may be out of date when it is read. Nothing here enters a digest."""

    database: Database

    async def note_liveness(self, resource: ResourceId, status: Liveness, at: Timestamp) -> None:
        """Record whether a resource existed."""
        data = as_data({"resource_ref": resource, "status": status})
        await self.database.run(
            SQL["record_liveness"], resource=UUID(resource), status=status, at=at, data=data
        )

    async def lease(
        self, resource: ResourceId, holder: str, until: Timestamp, now: Timestamp
    ) -> Lease | None:
        """Acquire or renew a lease; None while another holder's has not expired."""
        row = await self.database.fetch_one(
            SQL["acquire_lease"], resource=UUID(resource), holder=holder, until=until, now=now
        )
        return None if row is None else Lease(resource, holder, as_instant(row[0]))

    async def find_lease(self, resource: ResourceId) -> Lease | None:
        """Return the newest lease of a resource, expired or not."""
        row = await self.database.fetch_one(SQL["find_lease"], resource=UUID(resource))
        return None if row is None else Lease(resource, row[0], as_instant(row[1]))

    async def release(self, resource: ResourceId, holder: str) -> None:
        """Release a lease."""
        await self.database.run(SQL["release_lease"], resource=UUID(resource), holder=holder)


async def ensure_resource(
    connection: Connection, workspace: UUID, resource: Resource, by: str
) -> ResourceId:
    """Register a resource inside a transaction and return its id, which may be an older one."""
    scope = resource.scope
    ((id,),) = await fetch(
        connection,
        SQL["ensure_resource"],
        workspace=workspace,
        id=UUID(resource.id),
        kind=resource.kind,
        host=resource.host,
        place=resource.place,
        name=resource.name,
        capabilities=sorted(resource.capabilities),
        imperative=resource.imperative,
        agent=scope.agent_id,
        run=scope.run_id,
        session=as_uuid(scope.session_id),
        part_of=as_uuid(resource.part_of),
        metadata=Jsonb(dict(resource.metadata)),
        at=resource.created_at,
        data=as_data({**describe(resource), "resource_ref": resource.id, "by": by}),
    )
    return ResourceId(id)


async def attach_resource(
    connection: Connection,
    workspace: UUID,
    resource: Resource,
    session: SessionId,
    mode: AttachMode,
    *,
    by: str,
    at: Timestamp,
    handle: Handle | None = None,
) -> bool:
    """Attach a resource inside a transaction; False if it was attached already."""
    said: dict[str, Json] = {
        **describe(resource),
        "resource_ref": resource.id,
        "session_id": session,
        "mode": mode,
        "by": by,
    }
    if handle is not None:
        said["handle"] = {
            "id": handle.id,
            "provider": handle.provider,
            "provider_id": handle.provider_id,
            "restorable": False,
            "capabilities": sorted(handle.capabilities),
        }
    ((attached,),) = await fetch(
        connection,
        SQL["attach_resource"],
        workspace=workspace,
        resource=UUID(resource.id),
        session=UUID(session),
        mode=mode,
        at=at,
        data=as_data(said),
    )
    return bool(attached)


async def detach_resource(
    connection: Connection,
    workspace: UUID,
    resource: ResourceId,
    session: SessionId,
    *,
    by: str,
    at: Timestamp,
) -> bool:
    """Detach a resource inside a transaction; False if it was not attached."""
    ((detached,),) = await fetch(
        connection,
        SQL["detach_resource"],
        workspace=workspace,
        resource=UUID(resource),
        session=UUID(session),
        at=at,
        data=as_data({"resource_ref": resource, "session_id": session, "by": by}),
    )
    return bool(detached)


def as_data(said: Mapping[str, Json]) -> str:
    """Return an event's data as the SQL functions take it.

    Raises:
        NotCanonical: Something has no canonical form, such as a path that is not valid UTF-8.
    """
    return canonical(said).decode()


def _handle(handle: Handle) -> dict[str, Any]:
    return {
        "id": handle.id,
        "resource": UUID(handle.resource),
        "provider": handle.provider,
        "provider_id": handle.provider_id,
        "capabilities": sorted(handle.capabilities),
    }


def _resource(row: Row) -> Resource:
    (
        id, kind, host, place, name, capabilities, imperative, created, agent, run_id, session,
        part_of, metadata,
    ) = row[:_RESOURCE_COLUMNS]  # fmt: skip
    return Resource(
        ResourceId(id), kind, host, place, name, frozenset(capabilities), imperative,
        as_instant(created), Scope(agent, run_id, session), part_of, metadata,
    )  # fmt: skip


def _snapshot(row: Row) -> Snapshot:
    id, resource, method, kind, external, size, taken, restorable, consistency = row
    return Snapshot(
        SnapshotId(id), ResourceId(resource), method, ExtRef(kind, external), size,
        as_instant(taken), restorable, consistency,
    )  # fmt: skip


def _call(told: Mapping[str, Any]) -> CallStates:
    before, after = (ref_from_json(told[side]) for side in ("before", "after"))
    assert isinstance(before, ExtRef), "states lie outside of the ledger"
    assert isinstance(after, ExtRef), "states lie outside of the ledger"
    return CallStates(told["started_at"], told["ended_at"], before, after)


def _pinned(row: Row) -> ResolvedTurnSnapshot:
    turn, mode, began, ended = row[:_PIN_COLUMNS]
    rest = row[_PIN_COLUMNS:]
    resource, states = _resource(rest), rest[_RESOURCE_COLUMNS:]
    after = _snapshot(states[:_SNAPSHOT_COLUMNS])
    found = states[_SNAPSHOT_COLUMNS:]
    before = None if found[0] is None else _snapshot(found)
    pin = TurnSnapshot(
        TurnId(turn), resource.id, after.id, None if before is None else before.id, mode,
        as_instant(began), as_instant(ended),
    )  # fmt: skip
    return ResolvedTurnSnapshot(pin, resource, after, before)
