"""Reads a session and everything it ever stood at, and lets ``history`` judge it."""

from proofs.drills.history import judge_reflog, judge_thread
from turntree.core.ids import SessionId, TurnId
from turntree.core.thread import ThreadTurn
from turntree.db.database import Database
from turntree.ledger.session_store import VERSION_MAX, ReflogStore, SessionStore
from turntree.ledger.thread_store import ThreadStore


async def read_thread(database: Database, session: SessionId) -> tuple[ThreadTurn, ...]:
    """Return the turns of a session, root first."""
    head = (await SessionStore(database).get(session)).head
    return () if head is None else await ThreadStore(database).list_range(head)


async def audit_session(database: Database, session: SessionId) -> list[str]:
    """Return what is wrong with a session's thread and reflog."""
    found = await SessionStore(database).get(session)
    moves = (await ReflogStore(database).list_moves(session, limit=VERSION_MAX))[::-1]
    parents: dict[TurnId, TurnId | None] = {}
    problems: list[str] = []
    # The newest first: its thread usually holds all the others.
    for turn in (found.head, *(move.after for move in reversed(moves))):
        if turn is not None and turn not in parents:
            thread = await ThreadStore(database).list_range(turn)
            problems += judge_thread(thread)
            parents.update({placed.turn.id: placed.parent for placed in thread})
    if len(moves) != found.version:
        problems.append(f"{len(moves)} moves, but version {found.version}")
    return problems + judge_reflog(moves, found.head, parents)
