"""The inbox on PostgreSQL: pending messages, and the runs that answer them.

A write that gives a session work runs in a transaction of the engine, so that the message and its
wake-up commit together. Every other write is one statement on our own connection. Must never know
what a run does.
"""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import orjson
from psycopg.types.json import Jsonb
from psycopg.types.numeric import Int4

from turntree.core import event as events
from turntree.core import message as messages
from turntree.core.canonical import Json, canonical, digest_bytes, digest_from_raw, digest_raw
from turntree.core.errors import NotFound, PermissionDenied
from turntree.core.ids import RunId, SessionId, Timestamp, TurnId
from turntree.core.message import Message
from turntree.core.run import RunEvent
from turntree.core.value import value
from turntree.db.arrays import bytea_array, int_array, text_array
from turntree.db.database import Database, Row, as_uuid, fetch
from turntree.db.sql import load_statements
from turntree.runs.engine import Engine, SharedTransaction
from turntree.runs.inbox import (
    Backlog,
    Idle,
    PendingMessage,
    QueuedMessage,
    ResumeRun,
    StartRun,
    Work,
)

SQL = load_statements(__file__)


@value
class InboxStore:
    """Pending messages, and the runs that answer them."""

    database: Database
    engine: Engine

    async def post(
        self,
        session: SessionId,
        message: Message,
        *rest: Message,
        by: str,
        at: Timestamp,
        key: str | None = None,
        options: Mapping[str, Json] | None = None,
    ) -> QueuedMessage:
        """Queue a message, with others that belong to the same turn, and wake its session.

        Idempotency keys of messages and of turns are separate namespaces.

        Raises:
            NotFound: No such session.
            InvalidOperation: The key belongs to another message or another session.
        """
        chosen_options, texts = dict(options or {}), [_words(one) for one in rest]
        following = {"rest": digest_bytes("\n".join(texts).encode())} if texts and key else {}
        common = {"session": UUID(session), "by": by, "at": at}
        async with self._noting_denials(), self.engine.transaction() as transaction:
            run, seq, repeated, wake = await self._call(
                transaction, SQL["post_message"], **common, payload=_words(message), key=key,
                options=Jsonb({**chosen_options, **following}),
            )  # fmt: skip
            for words in () if repeated else texts:
                # The session's queue is locked until commit, so no worker can have started the
                # first one.
                await self._call(
                    transaction, SQL["post_message"], **common, payload=words, key=None,
                    options=Jsonb({**chosen_options, "fold": True}),
                )  # fmt: skip
            if wake is not None:
                await transaction.wake(session, wake)
        return QueuedMessage(RunId(run), seq, repeated)

    async def next_work(self, session: SessionId, *, worker: str) -> Work:
        """Return the next work of a session; take over an open run that is not parked.

        Returns ``Idle`` if another worker that holds a lease serves the session.
        """
        rows = await self.database.fetch(SQL["next_work"], session=UUID(session), worker=worker)
        what, run, epoch, canceled, head, digest, path, *_ = rows[0]
        match what:
            case "continue":
                return ResumeRun(RunId(run), epoch, canceled)
            case "begin":
                head_digest = None if digest is None else digest_from_raw(bytes(digest))
                messages = tuple(_waiting(row[7], row[1], *row[8:]) for row in rows)
                return StartRun(messages, head, head_digest, path)
            case _:
                return Idle()

    async def begin(
        self,
        run: RunId,
        session: SessionId,
        facts: Sequence[RunEvent],
        messages: Sequence[int],
        *,
        worker: str,
    ) -> int:
        """Start a run with its first events, claim its messages, and return its epoch.

        Raises:
            Conflict: The session has another open run, or another worker claimed one of the
            messages.
        """
        row = await self.database.fetch_one(
            SQL["start_queued_run"],
            run=UUID(run),
            session=UUID(session),
            seqs=int_array(messages),
            worker=worker,
            at=facts[0].event.at,
            **_fact_params(facts),
        )
        assert row is not None, "the function returns one row or raises"
        epoch: int = row[0]
        return epoch

    async def append_facts(self, facts: Sequence[RunEvent], *, epoch: int) -> bool:
        """Append events to an open run in one transaction; False if they were already recorded.

        A ``run.parked`` event also parks the run.

        Raises:
            Canceled: The run was canceled, and one of the events announces a side effect.
            Conflict: Another event has one of these positions, or the run was taken over.
        """
        first = facts[0].event
        ((is_new,),) = await self.database.fetch(
            SQL["append_run_events"],
            run=UUID(first.stream),
            epoch=Int4(epoch),
            first=Int4(first.seq),
            **_fact_params(facts),
        )
        return bool(is_new)

    async def unpark(self, run: RunId, *, by: str, at: Timestamp, data: Mapping[str, Json]) -> bool:
        """Resume a parked run and wake its session; False if it was not parked."""
        document = canonical({**data, "by": by}).decode()
        return await self._changing(SQL["unpark_run"], run=UUID(run), at=at, data=document)

    async def cancel(
        self, session: SessionId, *, by: str, at: Timestamp, discard: bool = False
    ) -> RunId | None:
        """Request cancellation of the session's open run; None if there is none."""
        run, _ = await self._waking(
            SQL["cancel_session_run"], session, session=UUID(session), by=by, at=at, discard=discard
        )
        return None if run is None else RunId(run)

    async def cancel_one(
        self, run: RunId, *, by: str, at: Timestamp, discard: bool = False
    ) -> bool:
        """Request cancellation of this run only; False if it is sealed or does not exist.

        A run that has not started keeps its position, and ends as soon as it starts.
        """
        return await self._changing(SQL["cancel_run"], run=UUID(run), by=by, at=at, discard=discard)

    async def note_failure(self, run: RunId, *, epoch: int) -> int:
        """Count an attempt that ended in an unexpected error; return the count.

        Returns 0 if the run is finished or was taken over.
        """
        row = await self.database.fetch_one(SQL["count_crash"], run=UUID(run), epoch=epoch)
        return 0 if row is None else int(row[0])

    async def note_retaken(self, run: RunId, calls: Sequence[str], *, epoch: int) -> dict[str, int]:
        """Count started calls as taken over; return the count of each, this one included.

        The count is 0 if the run is finished or was taken over again.
        """
        row = await self.database.fetch_one(
            SQL["note_retaken"], run=UUID(run), calls=text_array(calls), epoch=epoch
        )
        counted: dict[str, int] = {} if row is None else orjson.loads(row[0])
        return {call: counted.get(call, 0) for call in calls}

    async def list_waiting(self, session: SessionId) -> list[PendingMessage]:
        """Return a session's messages that are neither started nor canceled."""
        rows = await self.database.fetch(SQL["list_waiting"], session=UUID(session))
        return [_waiting(*row) for row in rows]

    async def list_piles(self) -> list[Backlog]:
        """Return the backlog of each session that is not archived, oldest first.

        Canceled messages do not count.
        """
        rows = await self.database.fetch(SQL["list_backlogs"])
        return [Backlog(SessionId(session), *row) for session, *row in rows]

    async def find_waiting(self, run: RunId) -> PendingMessage | None:
        """Return the message that a run will start with, or None once it has started."""
        row = await self.database.fetch_one(SQL["find_waiting"], run=UUID(run))
        return None if row is None else _waiting(*row)

    async def find_agent(
        self,
        session: SessionId | None,
        label: str | None,
        head: TurnId | None,
        *,
        named: str | None = None,
        by: str,
    ) -> str | None:
        """Return the name of the agent that answers in a session; None if no agent does.

        A session that does not exist yet is described by its label and the turn it begins at.

        Raises:
            PermissionDenied: The principal may not invoke the agent.
            NotFound: There is no agent of the name that the message has.
            InvalidOperation: What the message names is not an agent.
        """
        row = await self.database.fetch_one(
            SQL["find_agent"],
            session=as_uuid(session),
            label=label,
            head=as_uuid(head),
            named=named,
            by=by,
        )
        assert row is not None, "the function returns one row or raises"
        name: str | None = row[0]
        return name

    async def find_keyed_session(self, by: str, key: str) -> SessionId | None:
        """Return the session that a principal sent a message to with an idempotency key."""
        row = await self.database.fetch_one(SQL["find_keyed_session"], by=by, key=key)
        return None if row is None else SessionId(row[0])

    async def find_by_key(self, by: str, key: str) -> RunId | None:
        """Return the run of the message that a principal sent with an idempotency key."""
        row = await self.database.fetch_one(SQL["find_by_key"], by=by, key=key)
        return None if row is None else RunId(str(row[0]))

    async def _changing(self, query: bytes, /, **params: Any) -> bool:
        """Run a statement that returns whether it changed a run, and the run's session."""
        try:
            is_changed, *_ = await self._waking(query, None, **params)
        except NotFound:
            return False  # Hidden from this viewer, for whom the run does not exist.
        return bool(is_changed)

    async def _waking(self, query: bytes, woken: SessionId | None, /, **params: Any) -> Row:
        """Run a statement whose last column is the number of the wake-up to schedule."""
        async with self._noting_denials(), self.engine.transaction() as transaction:
            row = await self._call(transaction, query, **params)
            if row[-1] is not None:
                # If the caller does not know the session, the statement returns it.
                await transaction.wake(woken or SessionId(row[-2]), row[-1])
        return row

    @asynccontextmanager
    async def _noting_denials(self) -> AsyncGenerator[None, None]:
        """Record a denied access after the engine's transaction, which its error rolls back."""
        try:
            yield
        except (PermissionDenied, NotFound) as error:
            await self.database.note_denial(error)
            raise

    async def _call(self, transaction: SharedTransaction, query: bytes, /, **params: Any) -> Row:
        async with self.database.borrow(transaction.driver) as connection:
            (row,) = await fetch(connection, query, workspace=self.database.workspace, **params)
        return row


def _words(message: Message) -> str:
    return messages.line_of(message).decode()


def _fact_params(facts: Sequence[RunEvent]) -> dict[str, Any]:
    recorded = [events.record(fact.event) for fact in facts]
    said = [fact.message for fact in facts]
    return {
        "ids": bytea_array([digest_raw(event.id) for event in recorded]),
        "kinds": text_array([event.event.kind for event in recorded]),
        "bodies": text_array([event.body for event in recorded]),
        "payloads": text_array(
            [None if event is None else messages.line_of(event).decode() for event in said]
        ),
    }


def _waiting(
    seq: int, run: str, payload: str, by: str, at: Timestamp, options: Mapping[str, Json]
) -> PendingMessage:
    message = messages.from_json(orjson.loads(payload))
    assert isinstance(message, Message), "nothing that waits was erased"
    return PendingMessage(seq, RunId(run), message, by, at, options)
