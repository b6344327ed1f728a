"""Store plans in PostgreSQL: one event stream each, and the transaction that commits a plan."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

import orjson
from psycopg.types.numeric import Int4

from turntree.core import event as events
from turntree.core.canonical import Json, digest_raw
from turntree.core.errors import NotFound
from turntree.core.event import Event, SealedEvent
from turntree.core.ids import Digest, PlanId, SessionId, Timestamp
from turntree.core.session import begun
from turntree.core.thread import MoveResult
from turntree.core.value import value
from turntree.db.database import Connection, Database, as_uuid, fetch, run
from turntree.db.pool import ScopedConnection
from turntree.db.sql import load_statements
from turntree.ledger.session_store import SQL as SESSION_SQL
from turntree.ledger.store import SQL as LEDGER_SQL
from turntree.resources.plans.plan import CreatedResource, Note, PlanCommit
from turntree.resources.plans.steps import CreateForkSession, MoveHead, RecordMerge
from turntree.resources.resource import Resource, describe, is_made_anew
from turntree.resources.store import SQL as RESOURCE_SQL
from turntree.resources.store import (
    as_data,
    attach_resource,
    detach_resource,
    ensure_resource,
)

SQL = load_statements(__file__)


@value
class PlanStore:
    """Plans: one event stream each, and whether it has ended."""

    database: Database

    async def begin(self, fact: SealedEvent) -> None:
        """Record a plan before its first step."""
        await self.database.run(
            SQL["start_plan"],
            plan=UUID(fact.event.stream),
            kind=fact.event.data["kind"],
            at=fact.event.at,
            id=digest_raw(Digest(fact.id)),
            body=fact.body,
        )

    async def append(self, fact: SealedEvent, *, notes: Sequence[Note] = ()) -> bool:
        """Record a step and what it did to resources; False if the same event exists already.

        Raises:
            Conflict: Another process executes the plan and was faster.
        """
        async with self.database.connection() as connection, connection.transaction():
            is_new = await self._append(connection, fact)
            for note in notes if is_new else ():
                await self._tell(connection, fact.event.at, note)
            return is_new

    async def commit(
        self, facts: Sequence[SealedEvent], commitment: PlanCommit
    ) -> MoveResult | None:
        """Commit a plan: write all its results and end it, or do nothing.

        The session is created or moved, new resources are registered and attached, resources taken
        over change sessions, and the events that end the plan are appended.

        Raises:
            Conflict: The name is taken, the session moved, or another process executes the plan.
            NotFound: No such session or turn.
            InvalidOperation: The session cannot make this move.
        """
        async with self.database.connection() as connection, connection.transaction():
            # Append first: of two processes that execute one plan, the second waits here and fails.
            for fact in facts:
                await self._append(connection, fact)
            match commitment.step:
                case CreateForkSession():
                    moved = await self._begin(connection, commitment, commitment.step)
                case MoveHead():
                    moved = await self._move(connection, commitment, commitment.step)
                case RecordMerge():
                    moved = None
            if moved is not None:
                place = {"session": UUID(moved.session), "version": Int4(moved.version)}
                await self._run(connection, SQL["link_plan"], **place, plan=UUID(commitment.plan))
            return moved

    async def read(self, plan: PlanId) -> list[SealedEvent]:
        """Return the events of a plan, in order.

        Raises:
            NotFound: No such plan.
        """
        rows = await self.database.fetch(SQL["read_plan"], plan=UUID(plan))
        if not rows:
            raise NotFound(f"there is no plan {plan}")
        return [events.record(events.from_json(orjson.loads(body))) for (body,) in rows]

    async def list_open(self) -> list[PlanId]:
        """Return the plans that have not ended, oldest first."""
        return [PlanId(id) for (id,) in await self.database.fetch(SQL["list_open_plans"])]

    async def list_newest(self, *, limit: int) -> list[PlanId]:
        """Return plans, newest first."""
        return [PlanId(id) for (id,) in await self.database.fetch(SQL["list_plans"], limit=limit)]

    async def list_merges(self, *, limit: int) -> list[list[Event]]:
        """Return the events of the newest completed reverts and picks, oldest plan first."""
        rows = await self.database.fetch(SQL["list_merges"], limit=limit)
        found: dict[str, list[Event]] = {}
        for (body,) in rows:
            event = events.from_json(orjson.loads(body))
            found.setdefault(event.stream, []).append(event)
        return list(found.values())

    async def find_of_move(self, session: SessionId, version: int) -> PlanId | None:
        """Return the plan that a move of a session was part of, or None."""
        row = await self.database.fetch_one(
            SQL["find_plan_of_move"], session=UUID(session), version=Int4(version)
        )
        return None if row is None else PlanId(row[0])

    async def _begin(
        self, connection: ScopedConnection, done: PlanCommit, step: CreateForkSession
    ) -> MoveResult | None:
        by, at = done.by, done.at
        if step.session is not None:
            assert step.label is not None, "a session has a label"
            fact = begun(step.session, step.label, step.head, by=by, at=at)
            await self._run(
                connection, SESSION_SQL["insert_session"], session=UUID(step.session),
                label=step.label, head=as_uuid(step.head), by=by, at=at,
                id=digest_raw(Digest(fact.id)), body=fact.body, origin=None, origin_session=None,
                source=as_uuid(step.source or step.before), visibility=step.visibility,
            )  # fmt: skip
        for made in done.created:
            await self._add(connection, done, made, step.session)
        scope = self.database.workspace
        for resource, mode in done.taken:
            assert step.session is not None, "only a session takes something over"
            if step.source is not None:
                await detach_resource(connection, scope, resource.id, step.source, by=by, at=at)
            await attach_resource(connection, scope, resource, step.session, mode, by=by, at=at)
        if step.session is None:
            return None
        if done.forked is not None:
            await self._run(
                connection, SQL["record_session_event"], session=UUID(step.session),
                kind="session.forked",
                at=at, data=as_data({**done.forked, "by": by}),
            )  # fmt: skip
        return MoveResult(step.session, 1, None, step.head, repeated=False)

    async def _add(
        self,
        connection: ScopedConnection,
        done: PlanCommit,
        made: CreatedResource,
        session: SessionId | None,
    ) -> None:
        """Register a created resource, record its source, and attach its session."""
        scope, by, at = self.database.workspace, done.by, done.at
        resource = replace(
            made.resource, id=await ensure_resource(connection, scope, made.resource, by)
        )
        said: dict[str, Json] = {
            "snapshot_ref": made.snapshot,
            "outcome": "ok",
            "new_resource_ref": resource.id,
            "plan": done.plan,
            "by": by,
        }
        if is_made_anew(made.resource, resource.id):
            said["made"] = describe(resource)
            await self._let_go(connection, done, resource)
        await self._tell(connection, at, Note(resource.id, "snapshot.restore_attempted", said))
        if session is not None:
            await attach_resource(connection, scope, resource, session, made.mode, by=by, at=at)

    async def _let_go(self, connection: ScopedConnection, done: PlanCommit, gone: Resource) -> None:
        """Detach a location's sessions: they worked on a resource that no longer exists."""
        asked = {"workspace": self.database.workspace, "resource": UUID(gone.id)}
        # Also sessions that are hidden from the caller or that the caller may not change.
        async with self.database.seeing_everything(connection):
            await run(connection, RESOURCE_SQL["lock_resource"], asked)
            for (session,) in await fetch(connection, RESOURCE_SQL["list_holders"], **asked):
                await detach_resource(
                    connection, self.database.workspace, gone.id, session, by=done.by, at=done.at
                )

    async def _move(self, connection: Connection, done: PlanCommit, step: MoveHead) -> MoveResult:
        ((session, version, before, head, repeated),) = await fetch(
            connection, SESSION_SQL["move_session"], workspace=self.database.workspace,
            session=UUID(step.session), kind=step.move, target=as_uuid(step.target), check=True,
            expected=as_uuid(step.expected_head), by=done.by, at=done.at, key=None,
        )  # fmt: skip
        return MoveResult(session, version, before, head, repeated)

    async def _append(self, connection: Connection, fact: SealedEvent) -> bool:
        event = fact.event
        ends = event.data["outcome"] if event.kind == "plan.finished" else None
        ((is_new,),) = await fetch(
            connection, SQL["append_plan_event"], workspace=self.database.workspace,
            plan=UUID(event.stream), seq=Int4(event.seq), id=digest_raw(Digest(fact.id)),
            kind=event.kind, body=fact.body, outcome=ends,
        )  # fmt: skip
        return bool(is_new)

    async def _tell(self, connection: Connection, at: Timestamp, note: Note) -> None:
        data = as_data(note.data)
        await self._run(
            connection,
            LEDGER_SQL["record_event"],
            stream=UUID(note.resource),
            kind=note.kind,
            at=at,
            data=data,
        )

    async def _run(self, connection: Connection, query: bytes, **params: object) -> None:
        await run(connection, query, {"workspace": self.database.workspace, **params})
