"""Create sessions and move them, without files: what a caller over the network can do.

``moves`` and ``forks`` do the same with the files of this machine, and show plans first.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from turntree.core.errors import Conflict, InvalidOperation
from turntree.core.ids import find_long_id
from turntree.core.session import Session
from turntree.core.value import value
from turntree.server.access.rights import CREATE, INVOKE
from turntree.server.acts.heads import check_head, check_named
from turntree.server.context import ServerContext
from turntree.server.reads.sessions import session_document
from turntree.server.route import ApiRoute
from turntree.wire.sessions import SessionDocument


@value
class SessionAct:
    """A session to create."""

    label: str
    at: str | None = None
    """The turn to begin at, which makes it a fork; null begins without one."""


@value
class SessionRewind:
    """A move of a session back to an earlier turn."""

    session: str
    to: str
    before: bool = False
    """Whether it goes back to the state before that turn."""
    expected_head: str | None = None
    """The turn at which the client saw the session."""
    if_match: str | None = None
    """The same, as a header."""


@value
class SessionUndo:
    """The last move of a session, to be taken back."""

    session: str
    expected_head: str | None = None
    if_match: str | None = None


async def create_session(context: ServerContext, act: SessionAct) -> SessionDocument:
    """Create a session, at a turn or without one; nothing is copied.

    Raises:
        Conflict: The name is taken.
        NotFound: There is no such turn.
    """
    sessions = context.tree.sessions
    if act.at is None:
        return session_document(await sessions.create(act.label))
    return session_document(await sessions.fork(act.at, act.label))


async def rewind_session(context: ServerContext, act: SessionRewind) -> SessionDocument:
    """Move a session back to an earlier turn; nothing is deleted.

    Raises:
        HeadMoved: It has another head than the client saw.
        InvalidOperation: The turn is not an ancestor of its head.
    """
    expected = read_expected(act.expected_head, act.if_match)
    async with _moving(context, act.session, expected) as session:
        await context.tree.sessions.rewind(
            session.label, act.to, before=act.before, expected_head=session.head
        )
    return session_document(await context.tree.sessions.ledger.get(session.id))


async def undo_session(context: ServerContext, act: SessionUndo) -> SessionDocument:
    """Take back the last move of a session.

    Raises:
        HeadMoved: It has another head than the client saw.
        InvalidOperation: There is nothing to undo.
    """
    expected = read_expected(act.expected_head, act.if_match)
    async with _moving(context, act.session, expected) as session:
        await context.tree.sessions.undo(session.label, expected_head=session.head)
    return session_document(await context.tree.sessions.ledger.get(session.id))


def read_expected(in_body: str | None, in_header: str | None) -> str | None:
    """Return the head that a client expects; None if it does not mind.

    Raises:
        InvalidOperation: The body and the header differ, or it is not the address of a turn.
    """
    said = None if in_header is None else in_header.strip().removeprefix("W/").strip('"')
    if in_body is not None and said is not None and in_body != said:
        raise InvalidOperation("expected_head and If-Match name different turns")
    expected = in_body if said is None else said
    if expected is None:
        return None
    if (turn := find_long_id(expected)) is None:
        raise InvalidOperation(f"{expected[:80]!r} is not the address of a turn")
    return turn


@asynccontextmanager
async def _moving(
    context: ServerContext, name: str, expected: str | None
) -> AsyncGenerator[Session, None]:
    """Give the session that moves, and say so if another writer was faster."""
    session = await check_named(context, name, expected)
    try:
        yield session
    except Conflict:
        check_head(await context.tree.sessions.ledger.get(session.id), session.head)
        raise


ROUTES: Final[tuple[ApiRoute, ...]] = (
    ApiRoute(
        "POST", "/sessions", CREATE, create_session, "Create a session, at any turn.",
        SessionAct, SessionDocument, "write",
    ),
    ApiRoute(
        "POST", "/sessions/{session}/rewind", INVOKE, rewind_session,
        "Move a session back to an earlier turn.",
        SessionRewind, SessionDocument, "write", headers=("if_match",),
    ),
    ApiRoute(
        "POST", "/sessions/{session}/undo", INVOKE, undo_session,
        "Undo the last move of a session.",
        SessionUndo, SessionDocument, "write", headers=("if_match",),
    ),
)  # fmt: skip
