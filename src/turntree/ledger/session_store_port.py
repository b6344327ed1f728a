"""Sessions and their reflogs: the only parts of the ledger that move."""

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
    """Pointers into the tree. Every move is typed, checked, logged and recorded as an event."""

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
        """Begin a session, empty or at any turn; nothing is copied.

        It is as closed as its ``source``, which is what spawned it or else its head: whoever owns a
        private one owns it too, the same people are let in, and ``by`` may go on in it.
        ``visibility`` says otherwise.

        Raises:
            Conflict: The name is taken.
            Denied: It is to be public, and its source is private and somebody else's.
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
        """Begin a session that nothing spawned, and return it: one round trip.

        Raises:
            Conflict: The name is taken.
            Denied: As ``create``.
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
            Conflict: ``check_head`` was asked for and the session stands elsewhere.
            NotFound: No such session or turn.
            Refused: A rewind to no ancestor, or nothing to undo.
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
        """Give a session a new label, the old one becoming an alias, or one more alias.

        Raises:
            Conflict: The name is taken.
        """
        ...

    async def merge(
        self, session: SessionId, other: SessionId, kept_label: Label, *, by: str, at: Timestamp
    ) -> None:
        """Let every name of ``other`` lead to ``session``; ``other`` is archived.

        Raises:
            Refused: The two are one.
        """
        ...

    async def set_status(
        self, session: SessionId, status: SessionStatus, *, by: str, at: Timestamp
    ) -> None:
        """Archive a session, mark it deleted, or bring it back. Its turns stay."""
        ...

    async def get(self, session: SessionId) -> Session:
        """Return a session by its id.

        Raises:
            NotFound: No such session.
        """
        ...

    async def find(self, name: str) -> Session | None:
        """Return the session a label or an alias leads to."""
        ...

    async def note_missed(self, name: str) -> None:
        """Write down that somebody asked for a session by name and was shown none.

        If it is there and closed to them, it tells of the denial; if there is none, nothing does.
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
        """Return sessions in order of their labels; ``head`` keeps those that stand there."""
        ...


class Reflog(Protocol):
    """Where sessions stood, and when."""

    async def list_moves(
        self, session: SessionId, *, before: int = ..., limit: int = 100
    ) -> list[SessionMove]:
        """Return moves, newest first, from before a version on."""
        ...

    async def find_move_at(self, session: SessionId, at: Timestamp) -> SessionMove | None:
        """Return the move that had set the head at a moment, or None before the first."""
        ...
