"""Writes turns, events, objects and tags."""

from collections.abc import Callable, Collection, Sequence
from typing import Any
from uuid import UUID

import orjson
from psycopg.types.json import Jsonb
from psycopg.types.numeric import Int4

from turntree.core import event as events
from turntree.core import message as messages
from turntree.core.canonical import digest_bytes, digest_from_raw, digest_raw
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.event import SealedEvent
from turntree.core.ids import Digest, ProgramId, RunId, SessionId, Timestamp, TurnId
from turntree.core.message import (
    Message,
)
from turntree.core.message_context import TouchedFile
from turntree.core.run import RunEvent
from turntree.core.thread import SealResult
from turntree.core.turn import SealedTurn
from turntree.core.usage import ModelCall
from turntree.core.value import Facet, value
from turntree.db.arrays import bytea_array, int_array, text_array
from turntree.db.database import Database, Row, as_uuid, fetch
from turntree.db.sql import load_statements
from turntree.ledger.turn_rows import actor_of, tool_calls, touched_files

SQL = load_statements(__file__)

EVENTS_PAGE_MAX = 10_000
# PostgreSQL's integer. A transcript may claim any number.
TOKENS_MAX = 2**31 - 1

Build = Callable[[TurnId | None, Digest | None], tuple[SealedTurn, Sequence[SealedEvent]]]
"""Seals a turn after the given head; returns it with the events that its stream still lacks."""

NodeId = TurnId | ProgramId
"""A node that may have tags."""


@value
class Ledger(Facet):
    """Turns, runs and events. Append-only."""

    database: Database

    async def seal(
        self,
        sealed: SealedTurn,
        parent: TurnId | None,
        *,
        by: str,
        at: Timestamp,
        session: SessionId | None = None,
        calls: Sequence[ModelCall] = (),
        journal: Sequence[SealedEvent] = (),
        epoch: int | None = None,
        key: str | None = None,
    ) -> SealResult:
        """Store a turn, finish its run and advance its session: all or nothing.

        A turn or an idempotency key that is already stored returns its first result and changes
        nothing.

        Raises:
            Conflict: The session's head is no longer ``parent``, or the run was taken over.
            NotFound: No such parent or session.
            InvalidOperation: The turn was built on another parent, or is sealed with another
                digest.
        """
        request = {"by": by, "at": at, "key": key, "epoch": epoch, "session": as_uuid(session)}
        params = {**turn_params(sealed, parent, calls), **_journal_params(journal), **request}
        # One function does all of it in one round trip and one transaction. Split, each part would
        # need the lock on the session while the client thinks.
        return _stored(await self.database.fetch_one(SQL["append_turn"], **params))

    async def seal_at_head(
        self,
        build: Build,
        session: SessionId,
        *,
        by: str,
        at: Timestamp,
        calls: Sequence[ModelCall] = (),
        key: str | None = None,
    ) -> tuple[SealResult, SealedTurn]:
        """Lock the session, build a turn after its head and store it: no other writer can
        interleave.

        Raises:
            NotFound: No such session.
        """
        # Locking beats retrying: a writer that waits costs nothing, a writer that loses costs a
        # whole turn.
        async with self.database.connection() as connection, connection.transaction():
            scope = {"workspace": self.database.workspace, "session": UUID(session)}
            rows = await fetch(connection, SQL["lock_session"], **scope)
            if not rows:
                raise NotFound(f"there is no session {session}")
            head, raw = rows[0]
            digest = None if raw is None else digest_from_raw(bytes(raw))
            # Built under the lock, because the turn's digest contains that of its parent.
            sealed, journal = build(head, digest)
            params = {**turn_params(sealed, head, calls), **_journal_params(journal)}
            request = {"by": by, "at": at, "key": key, "epoch": None}
            rows = await fetch(connection, SQL["append_turn"], **scope, **params, **request)
            return _stored(rows[0]), sealed

    async def append(self, recorded: SealedEvent) -> bool:
        """Append an event to any stream, at its position. False if it is already there.

        Raises:
            Conflict: Another event has that position.
        """
        return await self._append(recorded, None, None)

    async def append_fact(self, fact: RunEvent, *, epoch: int) -> bool:
        """Append an event of an open run, with its message. False if it is already there.

        Raises:
            Conflict: Another event has that position, or the run was taken over.
        """
        return await self._append(events.record(fact.event), _payload(fact.message), epoch)

    async def start(self, run: RunId, session: SessionId | None, first: RunEvent) -> int:
        """Start a run with its first event and return the epoch to write under.

        Raises:
            Conflict: The session has another open run.
        """
        recorded = events.record(first.event)
        row = await self.database.fetch_one(
            SQL["start_run"],
            run=UUID(run),
            session=as_uuid(session),
            at=first.event.at,
            id=digest_raw(recorded.id),
            body=recorded.body,
            payload=_payload(first.message),
        )
        assert row is not None, "the function returns one row or raises"
        epoch: int = row[0]
        return epoch

    async def take(self, run: RunId) -> int:
        """Claim a run from a worker that may be dead; return the epoch to write under.

        Raises:
            NotFound: No such run, or it is finished.
        """
        row = await self.database.fetch_one(SQL["claim_run"], run=UUID(run))
        if row is None or row[0] is None:
            raise NotFound(f"there is no open run {run}")
        epoch: int = row[0]
        return epoch

    async def facts(self, stream: str, *, after: int = 0) -> list[RunEvent]:
        """Return the events of a stream in order, from a position on."""
        # In pages, until one is empty: a run that streams for hours has more events than one reply
        # should hold.
        recorded: list[RunEvent] = []
        while rows := await self.database.fetch(
            SQL["list_run_events"],
            stream=UUID(stream),
            after=after + len(recorded),
            limit=EVENTS_PAGE_MAX,
        ):
            recorded += [
                RunEvent(events.from_json(orjson.loads(body)), _message(payload))
                for body, payload in rows
            ]
        return recorded

    async def put_object(self, data: bytes) -> Digest:
        """Store bytes under their digest; the same bytes are stored once."""
        digest = digest_bytes(data)
        await self.database.run(SQL["put_object"], digest=digest_raw(digest), bytes=data)
        return digest

    async def get_object(self, digest: Digest) -> bytes:
        """Return an object's bytes.

        Raises:
            NotFound: No such object.
        """
        row = await self.database.fetch_one(SQL["find_object"], digest=digest_raw(digest))
        if row is None:
            raise NotFound(f"there is no object {digest}")
        return bytes(row[0])

    async def get_objects(self, digests: Collection[Digest]) -> dict[Digest, bytes]:
        """Return several objects, in one statement.

        Raises:
            NotFound: One of them does not exist.
        """
        objects = await self.find_objects(digests)
        for digest in digests:
            if digest not in objects:
                raise NotFound(f"there is no object {digest}")
        return objects

    async def find_objects(self, digests: Collection[Digest]) -> dict[Digest, bytes]:
        """Return those of the objects that exist, in one statement."""
        if not digests:
            return {}
        raw = [digest_raw(digest) for digest in digests]
        rows = await self.database.fetch(SQL["list_objects"], digests=raw)
        return {digest_from_raw(bytes(digest)): bytes(data) for digest, data in rows}

    async def list_objects(
        self, digests: Sequence[Digest], *, bytes_max: int
    ) -> dict[Digest, tuple[bytes, int]]:
        """Return objects, each with its size; of one larger than ``bytes_max`` the beginning."""
        rows = await self.database.fetch(
            SQL["list_objects_up_to"],
            digests=[digest_raw(digest) for digest in digests],
            bytes=bytes_max,
        )
        return {digest_from_raw(bytes(raw)): (bytes(data), size) for raw, data, size in rows}

    async def _append(self, recorded: SealedEvent, payload: str | None, epoch: int | None) -> bool:
        event = recorded.event
        row = await self.database.fetch_one(
            SQL["append_event"],
            stream=UUID(event.stream),
            seq=Int4(event.seq),
            id=digest_raw(recorded.id),
            kind=event.kind,
            body=recorded.body,
            payload=payload,
            epoch=epoch,
        )
        return row is not None and bool(row[0])


@value
class Tags:
    """Tags of turns and programs, and erasure of messages."""

    database: Database

    async def set_tag(self, node: NodeId, tag: str, *, on: bool, by: str, at: Timestamp) -> bool:
        """Add a tag to a turn or a program, or remove it; return whether anything changed.

        Raises:
            NotFound: No such turn or program.
        """
        row = await self.database.fetch_one(
            SQL["set_tag"], node=UUID(node), tag=tag, on=on, by=by, at=at
        )
        return row is not None and bool(row[0])

    async def list_tags(
        self,
        *,
        turn: TurnId | None = None,
        tag: str | None = None,
        after: tuple[TurnId, str] | None = None,
        limit: int | None = None,
    ) -> list[tuple[TurnId, str]]:
        """Return (turn, tag) pairs ordered by tag: of one turn, of one tag, or all.

        With a ``limit`` it is a page of them; the next one comes ``after`` the last of this one.
        """
        after_turn, after_tag = after or (None, None)
        rows = await self.database.fetch(
            SQL["list_tags"],
            turn=as_uuid(turn),
            tag=tag,
            after_turn=as_uuid(after_turn),
            after_tag=after_tag,
            limit=limit,
        )
        return [(TurnId(node), word) for node, word in rows]

    async def erase(
        self, turn: TurnId, sequence: int, *, reason: str, by: str, at: Timestamp
    ) -> bool:
        """Erase one message permanently; its digest and an event remain as the receipt.

        Raises:
            NotFound: No such turn or message.
        """
        # Imported here: the codec of raw records takes long to load, and no reader needs it.
        from turntree.ledger.raw_store import erase_records, find_blocks

        params = {"turn": UUID(turn), "sequence": sequence, "reason": reason, "by": by, "at": at}
        workspace = self.database.workspace
        # The eraser sees everything, so check first whether this viewer may erase.
        await self.database.run(SQL["require_turn_access"], turn=UUID(turn), right="configure")
        async with (
            self.database.acting_as("turntree_eraser") as connection,
            connection.transaction(),
        ):
            # Read first: they may be packed against the text that is about to be erased.
            blocks = await find_blocks(connection, workspace, turn)
            ((changed,),) = await fetch(
                connection, SQL["erase_message"], workspace=workspace, **params
            )
            if changed:
                await erase_records(connection, workspace, turn, blocks)
        return bool(changed)


def _stored(row: Row | None) -> SealResult:
    assert row is not None, "the function returns one row or raises"
    turn, depth, version, repeated = row
    return SealResult(TurnId(turn), depth, version, repeated)


def turn_params(
    sealed: SealedTurn, parent: TurnId | None, calls: Sequence[ModelCall]
) -> dict[str, Any]:
    """Return the columns of a turn and of its projections."""
    header = sealed.turn.header
    compaction = header.compaction
    line, _, body = sealed.body.partition("\n")
    return {
        "turn": UUID(header.id),
        "parent": as_uuid(parent),
        "parent_digest": None if header.parent is None else digest_raw(header.parent),
        "digest": digest_raw(sealed.turn.digest),
        "started_at": header.started_at,
        "sealed_at": header.sealed_at,
        "kind": header.kind,
        "outcome": header.outcome,
        "agent_role": header.agent_role,
        "actor": actor_of(header),
        "model": header.model,
        "provider": header.provider,
        "header": line,
        "body": body,
        "calls": text_array([word for call in tool_calls(sealed.turn) for word in call]),
        "models": text_array(
            [word for call in calls for word in (call.model, call.provider, call.call_id)]
        ),
        "tokens": int_array([number for call in calls for number in _numbers(call)]),
        "files": text_array(
            [
                word
                for index, file in touched_files(sealed.turn)
                for word in _file_words(index, file)
            ]
        ),
        "compaction": None if compaction is None else Jsonb(compaction.to_json()),
    }


def _journal_params(journal: Sequence[SealedEvent]) -> dict[str, Any]:
    return {
        "event_ids": bytea_array([digest_raw(fact.id) for fact in journal]),
        "event_kinds": text_array([fact.event.kind for fact in journal]),
        "event_bodies": text_array([fact.body for fact in journal]),
    }


def _file_words(index: int, file: TouchedFile) -> tuple[str | None, ...]:
    lines = (None if line is None else str(line) for line in (file.line_start, file.line_end))
    return str(index), file.kind, file.path, *lines


def _numbers(call: ModelCall) -> tuple[int, int, int, int, int]:
    u = call.usage
    numbers = u.input, u.output, u.cached_input, u.cache_write, u.reasoning
    if not all(0 <= number <= TOKENS_MAX for number in numbers):
        raise InvalidOperation(
            f"a model call uses between 0 and {TOKENS_MAX} tokens of a kind, not {u}"
        )
    return numbers


def _payload(message: Message | None) -> str | None:
    return None if message is None else messages.line_of(message).decode()


def _message(payload: str | None) -> Message | None:
    if payload is None:
        return None
    message = messages.from_json(orjson.loads(payload))
    assert isinstance(message, Message), "an open run has nothing to erase"
    return message
