"""Creates, moves, names and finds sessions."""

import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from turntree.core.canonical import digest_from_raw, digest_raw
from turntree.core.errors import NotFound
from turntree.core.event import SealedEvent
from turntree.core.ids import Digest, Label, SessionId, Timestamp, TurnId
from turntree.core.program import Visibility
from turntree.core.session import (
    AliasReason,
    MoveKind,
    Origin,
    Session,
    SessionMove,
    SessionStatus,
    Spawn,
    begun,
)
from turntree.core.thread import MoveResult
from turntree.core.value import value
from turntree.core.viewer import EVERYTHING
from turntree.db.arrays import text_array
from turntree.db.database import Database, Row, as_uuid, as_uuids
from turntree.db.sql import load_statements

SQL = load_statements(__file__)

# PostgreSQL's integer, for "the newest".
VERSION_MAX = 2**31 - 1


@value
class SessionEnd:
    """Where a session ends, for lists of many sessions."""

    head: TurnId | None
    model: str | None
    worked_at: Timestamp
    spawned_by: str | None
    """The label of the session that spawned it."""


@value
class SessionStore:
    """Pointers into the tree. Each move is typed, checked, logged and recorded as an event."""

    database: Database

    async def create(
        self,
        session: SessionId,
        label: Label,
        *,
        by: str,
        at: Timestamp,
        head: TurnId | None = None,
        key: str | None = None,
        origin: Origin | None = None,
        spawn: Spawn | None = None,
        source: SessionId | TurnId | None = None,
        visibility: Visibility | None = None,
    ) -> MoveResult:
        """Create a session, empty or at any turn; nothing is copied.

        It inherits the visibility of its ``source``, which is what spawned it or else its head: the
        owner and the grantees of a private source are those of the session too, and ``by`` may
        continue it. ``visibility`` overrides this.

        Raises:
            Conflict: The name is taken.
            PermissionDenied: It is to be public, and another principal owns its private source.
            NotFound: No such turn.
        """
        if key is None and spawn is None:
            result = await self.begin(
                session, label, by=by, at=at, head=head, origin=origin, source=source,
                visibility=visibility,
            )  # fmt: skip
            return MoveResult(session, result.version, None, head, repeated=False)
        fact = begun(session, label, head, by=by, at=at, origin=origin, spawn=spawn)
        params = _first_row(session, label, head, by, at, fact, origin, source, visibility)
        row = await self.database.fetch_one(
            SQL["create_session"], **params, key=key, **_spawn(spawn)
        )
        assert row is not None, "the function returns one row or raises"
        created, version, current_head, repeated = row
        return MoveResult(created, version, None, current_head, repeated)

    async def begin(
        self,
        session: SessionId,
        label: Label,
        *,
        by: str,
        at: Timestamp,
        head: TurnId | None = None,
        origin: Origin | None = None,
        source: SessionId | TurnId | None = None,
        visibility: Visibility | None = None,
    ) -> Session:
        """Create a session that was not spawned, and return it: one round trip.

        Raises:
            Conflict: The name is taken.
            PermissionDenied: As ``create``.
            NotFound: No such turn, or it is hidden from this viewer.
        """
        fact = begun(session, label, head, by=by, at=at, origin=origin)
        params = _first_row(session, label, head, by, at, fact, origin, source, visibility)
        row = await self.database.fetch_one(SQL["insert_session"], **params)
        assert row is not None, "one row, whether there is a head or not"
        _, digest, sealed, depth = row
        return Session(
            session, label, head, _digest(digest), 1, "active", at, at, depth, origin,
            head_sealed_at=None if sealed is None else as_instant(sealed),
        )  # fmt: skip

    async def move(
        self,
        session: SessionId,
        kind: MoveKind,
        target: TurnId | None,
        *,
        by: str,
        at: Timestamp,
        expected_head: TurnId | None = None,
        check_head: bool = False,
        key: str | None = None,
    ) -> MoveResult:
        """Move a session's head; ``undo`` needs no target.

        Raises:
            Conflict: ``check_head`` is set and the session has another head.
            NotFound: No such session or turn.
            InvalidOperation: A rewind to a turn that is not an ancestor, or nothing to undo.
        """
        row = await self.database.fetch_one(
            SQL["move_session"],
            session=UUID(session),
            kind=kind,
            target=as_uuid(target),
            check=check_head,
            expected=as_uuid(expected_head),
            by=by,
            at=at,
            key=key,
        )
        assert row is not None, "the function returns one row or raises"
        return MoveResult(*row)

    async def name(
        self,
        session: SessionId,
        name: Label,
        *,
        by: str,
        at: Timestamp,
        as_label: bool,
        reason: AliasReason = "manual",
    ) -> None:
        """Give a session a new label and keep the old one as an alias, or add an alias.

        Raises:
            Conflict: The name is taken.
        """
        await self.database.fetch(
            SQL["name_session"],
            session=UUID(session),
            name=name,
            as_label=as_label,
            reason=reason,
            by=by,
            at=at,
        )

    async def merge(
        self, session: SessionId, other: SessionId, kept_label: Label, *, by: str, at: Timestamp
    ) -> None:
        """Point all names of ``other`` to ``session``; ``other`` is archived.

        Raises:
            InvalidOperation: They are the same session.
        """
        await self.database.fetch(
            SQL["merge_sessions"],
            session=UUID(session),
            other=UUID(other),
            kept_label=kept_label,
            by=by,
            at=at,
        )

    async def set_status(
        self, session: SessionId, status: SessionStatus, *, by: str, at: Timestamp
    ) -> None:
        """Archive a session, mark it deleted or make it active again. Its turns stay."""
        await self.database.fetch(
            SQL["set_session_status"], session=UUID(session), status=status, by=by, at=at
        )

    async def get(self, session: SessionId) -> Session:
        """Return a session by its id.

        Raises:
            NotFound: No such session.
        """
        row = await self.database.fetch_one(SQL["find_session"], session=UUID(session))
        if row is None:
            raise NotFound(f"there is no session {session}")
        return _session(row)

    async def find(self, name: str) -> Session | None:
        """Return the session that a label or an alias points to."""
        # As labels are stored, however a keyboard composes an accent.
        name = unicodedata.normalize("NFC", name)
        row = await self.database.fetch_one(SQL["find_session_by_name"], name=name)
        return None if row is None else await self.get(SessionId(row[0]))

    async def find_status(self, name: str) -> SessionStatus | None:
        """Return the status of the session that a name points to: one round trip, not two."""
        name = unicodedata.normalize("NFC", name)
        row = await self.database.fetch_one(SQL["find_session_status"], name=name)
        return None if row is None else row[0]

    async def count_written_files(self, heads: Sequence[TurnId]) -> dict[TurnId, int]:
        """Return how many files the tools of each thread wrote."""
        rows = await self.database.fetch(SQL["count_written_files"], heads=text_array(heads))
        return {TurnId(head): count for head, count in rows}

    async def list_names(
        self, part: str, *, begins: bool = True, ends: bool = True, limit: int = 100
    ) -> list[tuple[str, Label]]:
        """Return names that begin or end with a text, each with the label it leads to.

        Those of active sessions, the newest first. An empty text is part of every name.
        """
        rows = await self.database.fetch(
            SQL["list_names"], part=part, begins=begins, ends=ends, limit=limit
        )
        return [(name, Label(label)) for name, label in rows]

    async def note_missed(self, name: str) -> None:
        """Record that a viewer asked for a session by name and found none.

        If the session exists but is hidden, its stream records the denial; if it does not exist,
        nothing is recorded.
        """
        if self.database.sight != EVERYTHING:
            # Only the system can find out whether it does not exist or is hidden.
            everything = self.database.seen_by(EVERYTHING)
            await everything.run(SQL["record_hidden_name"], name=name, by=self.database.sight)

    async def list_spawned(self, turn: TurnId) -> list[SessionId]:
        """Return the sessions that calls of a turn spawned."""
        rows = await self.database.fetch(SQL["list_spawned_sessions"], turn=UUID(turn))
        return [SessionId(id) for (id,) in rows]

    async def list_heads(self, sessions: Sequence[SessionId]) -> dict[SessionId, SessionEnd]:
        """Return where some sessions end, by their ids."""
        rows = await self.database.fetch(SQL["list_session_heads"], sessions=as_uuids(sessions))
        return {
            SessionId(id): SessionEnd(head, model, as_instant(at), parent)
            for id, head, model, at, parent in rows
        }

    async def count_by_day(
        self, sessions: Sequence[SessionId], since: Timestamp
    ) -> list[tuple[SessionId, int, int]]:
        """Return how many turns some sessions took on each day: the session, the day, the number.

        Days are counted from ``since``; turns before the fork of a session are not its own.
        """
        rows = await self.database.fetch(
            SQL["count_session_days"], sessions=as_uuids(sessions), since=since
        )
        return [(SessionId(id), day, turns) for id, day, turns in rows]

    async def list_labels_at(self, turns: Sequence[TurnId]) -> dict[TurnId, list[str]]:
        """Return the labels of the sessions whose head is one of some turns, active ones first."""
        labels: dict[TurnId, list[str]] = {}
        for turn, label in await self.database.fetch(SQL["list_labels_at"], turns=as_uuids(turns)):
            labels.setdefault(TurnId(turn), []).append(label)
        return labels

    async def list_page(
        self,
        *,
        after: str = "",
        limit: int = 1000,
        status: SessionStatus | None = "active",
        head: TurnId | None = None,
    ) -> list[Session]:
        """Return sessions ordered by label; ``head`` keeps those with that head."""
        rows = await self.database.fetch(
            SQL["list_sessions"], after=after, limit=limit, status=status, head=as_uuid(head)
        )
        return [_session(row) for row in rows]


@value
class ReflogStore:
    """The heads of sessions over time."""

    database: Database

    async def list_moves(
        self, session: SessionId, *, before: int = VERSION_MAX, limit: int = 100
    ) -> list[SessionMove]:
        """Return moves, newest first, before a version."""
        rows = await self.database.fetch(
            SQL["list_moves"], session=UUID(session), before=before, limit=limit
        )
        return [_move(row) for row in rows]

    async def find_move_at(self, session: SessionId, at: Timestamp) -> SessionMove | None:
        """Return the move that set the head as of a time, or None before the first."""
        row = await self.database.fetch_one(SQL["find_move_at"], session=UUID(session), at=at)
        return None if row is None else _move(row)


def _spawn(spawn: Spawn | None) -> dict[str, Any]:
    return {
        "parent_session": None if spawn is None else UUID(spawn.parent_session),
        "parent_turn": None if spawn is None else UUID(spawn.parent_turn),
        "call": spawn and spawn.call_id,
        "mode": spawn and spawn.mode,
        "task": spawn and spawn.task,
    }


def as_instant(moment: datetime) -> Timestamp:
    """Return a datetime as a ``Timestamp``."""
    text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
    return Timestamp(text.removesuffix("+00:00") + "Z")


def _digest(raw: bytes | None) -> Digest | None:
    return None if raw is None else digest_from_raw(bytes(raw))


def _first_row(
    session: SessionId,
    label: Label,
    head: TurnId | None,
    by: str,
    at: Timestamp,
    fact: SealedEvent,
    origin: Origin | None,
    source: SessionId | TurnId | None,
    visibility: Visibility | None,
) -> dict[str, Any]:
    """Return the parameters of both statements that create a session."""
    return {
        "session": UUID(session),
        "label": label,
        "head": as_uuid(head),
        "by": by,
        "at": at,
        "id": digest_raw(Digest(fact.id)),
        "body": fact.body,
        "origin": origin and origin.tool,
        "origin_session": origin and origin.session_id,
        "source": as_uuid(source),
        "visibility": visibility,
    }


def _session(row: Row) -> Session:
    (
        id, label, head, digest, version, status, created, updated, sealed, depth,
        origin, origin_session, parent_session, parent_turn, call, mode, task, aliases,
    ) = row  # fmt: skip
    return Session(
        SessionId(id),
        Label(label),
        head,
        _digest(digest),
        version,
        status,
        as_instant(created),
        as_instant(updated),
        depth,
        None if origin is None else Origin(origin, origin_session),
        None if call is None else Spawn(parent_session, parent_turn, call, mode, task),
        tuple(aliases),
        None if sealed is None else as_instant(sealed),
    )


def _move(row: Row) -> SessionMove:
    session, version, kind, before, after, at, by, before_digest, after_digest = row
    return SessionMove(
        session,
        version,
        kind,
        before,
        after,
        as_instant(at),
        by,
        _digest(before_digest),
        _digest(after_digest),
    )
