"""Operations on sessions. Each verb chooses the move; the ledger checks and logs it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypedDict

from turntree.core.clock import Clock
from turntree.core.errors import Conflict, InvalidOperation
from turntree.core.ids import SessionId, Timestamp, TurnId, find_long_id
from turntree.core.principal import Principal
from turntree.core.program import Visibility
from turntree.core.revision import check_label
from turntree.core.session import (
    AliasReason,
    MoveKind,
    Origin,
    Session,
    SessionMove,
    SessionStatus,
    Spawn,
    numbered_labels,
)
from turntree.core.thread import MoveResult
from turntree.core.value import Facet, value
from turntree.ledger.revisions import RevisionResolver
from turntree.ledger.session_store import ReflogStore, SessionStore

PAGE = 500
KEPT_CHARS_MAX = 180
"""Characters of its label that a merged session keeps, so that the suffix fits."""


class Signature(TypedDict):
    """The principal of a change, and its time."""

    by: str
    at: Timestamp


@value
class Sessions(Facet):
    """``tree.sessions``: labels that point at moving heads."""

    ledger: SessionStore
    reflog: ReflogStore
    revisions: RevisionResolver
    world: Clock
    by: Principal

    async def create(
        self,
        label: str,
        *,
        origin: Origin | None = None,
        spawn: Spawn | None = None,
        key: str | None = None,
        source: TurnId | None = None,
        visibility: Visibility | None = None,
    ) -> Session:
        """Create an empty session; one that is made from a private turn is private too.

        So is one in the namespace of a private program. ``visibility`` overrides this.

        Raises:
            Conflict: The name is taken.
        """
        return await self._begin(
            label, None, origin=origin, spawn=spawn, key=key, source=source, visibility=visibility
        )

    async def fork(
        self,
        revision: str | TurnId,
        label: str,
        *,
        spawn: Spawn | None = None,
        key: str | None = None,
        source: TurnId | None = None,
        visibility: Visibility | None = None,
    ) -> Session:
        """Create a session at any turn; nothing is copied, whatever the depth.

        A fork of something private is private: it has the same owner, and ``by`` may continue it.
        ``visibility`` overrides this, and ``source`` names another turn that it is made from.

        Raises:
            Conflict: The name is taken.
            NotFound: No such turn.
            PermissionDenied: It is to be public, and another principal owns what it is made from.
        """
        # A whole id needs no look-up: the ledger refuses to create a session at a turn that does
        # not exist or is hidden. With the session returned by the same statement, a fork is one
        # round trip instead of three, which took twice as long.
        if "-" in revision and find_long_id(revision) == revision:
            head, named = TurnId(revision), None
        else:
            resolved = await self.revisions.resolve(revision)
            head, named = resolved.turn, None if resolved.session is None else resolved.session.id
        return await self._begin(
            label, head, spawn=spawn, key=key, source=source or named, visibility=visibility
        )

    async def rewind(
        self,
        session: str,
        revision: str | TurnId,
        *,
        before: bool = False,
        expected_head: TurnId | None = None,
    ) -> MoveResult:
        """Move a session back to an ancestor of its head. Nothing is deleted.

        With ``before``, the session moves to the parent of that turn, so that even its first turn
        can be taken back.

        Raises:
            InvalidOperation: The turn is not an ancestor.
            Conflict: ``expected_head`` was given and the session has another head; or, with
                ``before``, the session moved meanwhile.
        """
        turn = (await self.revisions.resolve(revision)).turn
        if not before:
            return await self._move(session, "rewind", turn, expected_head)
        threads, head = self.revisions.threads, expected_head or (await self.get(session)).head
        # The parent of a first turn is no turn, whichever thread it is from, so the ledger could
        # not check this.
        if head is None or not await threads.is_ancestor(turn, head):
            raise InvalidOperation(
                f"a session rewinds to an ancestor of its head, and {turn} is none"
            )
        return await self._move(session, "rewind", (await threads.get_turn(turn)).parent, head)

    async def replay(
        self, session: str, revision: str | TurnId, *, expected_head: TurnId | None = None
    ) -> MoveResult:
        """Move a session to any turn.

        Raises:
            Conflict: ``expected_head`` was given and the session has another head.
        """
        target = (await self.revisions.resolve(revision)).turn
        return await self._move(session, "reset", target, expected_head)

    async def undo(self, session: str, *, expected_head: TurnId | None = None) -> MoveResult:
        """Revert the newest move that is not reverted yet.

        Raises:
            InvalidOperation: There is nothing to undo.
        """
        return await self._move(session, "undo", None, expected_head)

    async def find_free_label(self, label: str) -> str:
        """Return a label that no session has: the given one, else with the first free number.

        Raises:
            InvalidOperation: Too many sessions have that name.
        """
        return await first_free_label(label, self.ledger.find)

    async def get(self, name: str) -> Session:
        """Return a session by label, alias or ``HEAD``.

        Raises:
            NotFound: No such session.
        """
        return await self.revisions.get_session(name)

    async def get_or_create(self, label: str) -> Session:
        """Return the session of a label or an alias; create it if there is none."""
        existing = await self.ledger.find(label)
        if existing is not None:
            return existing
        try:
            return await self.create(label)
        except Conflict:
            # Another process created it since we looked.
            return await self.get(label)

    async def list_all(
        self, *, status: SessionStatus | None = "active", head: TurnId | None = None
    ) -> AsyncIterator[Session]:
        """Yield sessions ordered by label."""
        after = ""
        while page := await self.ledger.list_page(
            after=after, limit=PAGE, status=status, head=head
        ):
            for session in page:
                yield session
            after = page[-1].label

    async def rename(self, session: str, label: str, *, reason: AliasReason = "manual") -> Session:
        """Give a session another label; the old one stays as an alias."""
        existing = await self.get(session)
        await self.ledger.name(
            existing.id, check_label(label), as_label=True, reason=reason, **self._now()
        )
        return await self.ledger.get(existing.id)

    async def promote(self, session: str, label: str) -> Session:
        """Rename a session after learning to whom it belongs."""
        return await self.rename(session, label, reason="identity_promotion")

    async def alias(self, session: str, alias: str, *, reason: AliasReason = "manual") -> Session:
        """Add an alias to a session."""
        existing = await self.get(session)
        await self.ledger.name(
            existing.id, check_label(alias), as_label=False, reason=reason, **self._now()
        )
        return await self.ledger.get(existing.id)

    async def merge(self, session: str, other: str) -> Session:
        """Merge two sessions that turned out to be one: all names of ``other`` point to
        ``session``.
        """
        into, from_ = await self.get(session), await self.get(other)
        archived_label = check_label(f"{from_.label[:KEPT_CHARS_MAX]}.merged-{from_.id[-8:]}")
        await self.ledger.merge(into.id, from_.id, archived_label, **self._now())
        return await self.ledger.get(into.id)

    async def set_status(self, session: str, status: SessionStatus) -> Session:
        """Archive a session, mark it deleted or make it active again. Its turns stay."""
        existing = await self.get(session)
        await self.ledger.set_status(existing.id, status, **self._now())
        return await self.ledger.get(existing.id)

    async def list_moves(self, session: str, *, limit: int = 100) -> list[SessionMove]:
        """Return the newest moves of a session, newest first."""
        return await self.reflog.list_moves((await self.get(session)).id, limit=limit)

    async def _begin(
        self,
        label: str,
        head: TurnId | None,
        *,
        origin: Origin | None = None,
        spawn: Spawn | None = None,
        key: str | None = None,
        source: SessionId | TurnId | None = None,
        visibility: Visibility | None = None,
    ) -> Session:
        id, checked = SessionId(self.world.new_id()), check_label(label)
        if key is None and spawn is None:
            return await self.ledger.begin(
                id,
                checked,
                head=head,
                origin=origin,
                source=source,
                visibility=visibility,
                **self._now(),
            )
        moved = await self.ledger.create(
            id,
            checked,
            head=head,
            key=key,
            origin=origin,
            spawn=spawn,
            source=source,
            visibility=visibility,
            **self._now(),
        )
        return await self.ledger.get(moved.session)

    async def _move(
        self,
        session: str,
        kind: MoveKind,
        target: TurnId | None,
        expected_head: TurnId | None,
    ) -> MoveResult:
        existing = await self.get(session)
        return await self.ledger.move(
            existing.id,
            kind,
            target,
            expected_head=expected_head,
            check_head=expected_head is not None,
            **self._now(),
        )

    def _now(self) -> Signature:
        return {"by": str(self.by), "at": self.world.now()}


async def first_free_label(label: str, find: Callable[[str], Awaitable[Session | None]]) -> str:
    """Return the first of ``label``, ``label-2``… that ``find`` does not know.

    Another process may take it before it is used. A caller that creates the session anyway should
    go through ``numbered_labels`` itself and catch ``Conflict``.

    Raises:
        InvalidOperation: Too many sessions have that name.
    """
    for candidate in numbered_labels(label):
        if await find(candidate) is None:
            return candidate
    raise InvalidOperation(f"too many sessions are named {label!r}")
