"""Protocols for sessions and their reflogs, the only parts of the ledger that move."""

from typing import Protocol

from turntree.core.ids import Label, SessionId, Timestamp, TurnId
from turntree.core.program import Visibility
from turntree.core.session import (
    AliasReason,
    MoveKind,
    Origin,
    Session,
    SessionMove,
    SessionStatus,
    Spawn,
)
from turntree.core.thread import MoveResult


class Sessions(Protocol):
    """Pointers into the tree. Each move is typed, checked, logged and recorded as an event."""

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
        ...

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
        ...

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
        ...

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
        ...

    async def merge(
        self, session: SessionId, other: SessionId, kept_label: Label, *, by: str, at: Timestamp
    ) -> None:
        """Point all names of ``other`` to ``session``; ``other`` is archived.

        Raises:
            InvalidOperation: They are the same session.
        """
        ...

    async def set_status(
        self, session: SessionId, status: SessionStatus, *, by: str, at: Timestamp
    ) -> None:
        """Archive a session, mark it deleted or make it active again. Its turns stay."""
        ...

    async def get(self, session: SessionId) -> Session:
        """Return a session by its id.

        Raises:
            NotFound: No such session.
        """
        ...

    async def find(self, name: str) -> Session | None:
        """Return the session that a label or an alias points to."""
        ...

    async def note_missed(self, name: str) -> None:
        """Record that a viewer asked for a session by name and found none.

        If the session exists but is hidden, its stream records the denial; if it does not exist,
        nothing is recorded.
        """
        ...

    async def list_page(
        self,
        *,
        after: str = "",
        limit: int = 1000,
        status: SessionStatus | None = "active",
        head: TurnId | None = None,
    ) -> list[Session]:
        """Return sessions ordered by label; ``head`` keeps those with that head."""
        ...


class Reflog(Protocol):
    """The heads of sessions over time."""

    async def list_moves(
        self, session: SessionId, *, before: int = ..., limit: int = 100
    ) -> list[SessionMove]:
        """Return moves, newest first, before a version."""
        ...

    async def find_move_at(self, session: SessionId, at: Timestamp) -> SessionMove | None:
        """Return the move that set the head as of a time, or None before the first."""
        ...
