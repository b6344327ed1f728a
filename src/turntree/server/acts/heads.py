"""Refuse an act on a session that moved since the client saw it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from turntree.core.errors import Conflict
from turntree.core.ids import TurnId
from turntree.core.session import Session
from turntree.ledger.revisions import ResolvedRevision
from turntree.server.context import ServerContext
from turntree.server.problems import HeadMoved


def check_head(session: Session, expected: str | None) -> None:
    """Refuse if a session has another head than the client saw.

    Raises:
        HeadMoved: It has.
    """
    if session.head != expected:
        raise HeadMoved(session)


async def check_named(context: ServerContext, name: str, expected: str | None) -> Session:
    """Return a session; a client that names no head does not mind where it is.

    Raises:
        NotFound: No such session.
        HeadMoved: It has another head than the client saw.
    """
    session = await context.tree.sessions.get(name)
    if expected is not None:
        check_head(session, expected)
    return session


async def check_revision(
    context: ServerContext, revision: str, expected: str | None
) -> ResolvedRevision:
    """Return what a revision names; it may follow a session that moves.

    Raises:
        NotFound: It names nothing.
        HeadMoved: It names a session, which has another head than the client saw.
    """
    found = await context.tree.resolve(revision)
    if expected is not None and found.session is not None:
        check_head(found.session, expected)
    return found


@asynccontextmanager
async def moving(
    context: ServerContext, session: Session, expected: str | None
) -> AsyncGenerator[TurnId | None, None]:
    """Give the head that the ledger has to find, and say so if another writer was faster.

    Raises:
        HeadMoved: The session has another head than the client saw, now or in the end.
    """
    check_head(session, expected)
    try:
        yield session.head
    except Conflict:
        check_head(await context.tree.sessions.ledger.get(session.id), expected)
        raise
