"""Sessions and moves as documents and sentences. Pure, as ``cli.render``."""

from typing import Any

from turntree.adapters.exporters.jsonl import session_document
from turntree.cli.render import digits
from turntree.domain.session import Session, SessionMove


def session_row_document(session: Session, *, current: Session | None = None) -> dict[str, Any]:
    """Return a session as it is listed in JSON."""
    is_current = current is not None and current.id == session.id
    worked = {"worked_at": session.worked_at}
    return {**session_document(session), **worked, "current": is_current}


def move_document(session: Session, move: SessionMove) -> dict[str, Any]:
    """Return one entry of a reflog in JSON."""
    return {
        "session": session.label,
        "version": move.version,
        "kind": move.kind,
        "before": move.before,
        "before_digest": move.before_digest,
        "after": move.after,
        "after_digest": move.after_digest,
        "at": move.at,
        "by": move.by,
    }


def stand(session: Session) -> str:
    """Return where a session stands, as the end of a sentence."""
    if session.head is None:
        return "with no turns yet"
    return f"at {digits(session.head_digest)} (depth {session.depth})"
