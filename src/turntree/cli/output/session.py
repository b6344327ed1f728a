"""Print sessions and moves, as text and JSON. Pure, like ``cli.output.text``."""

from typing import Any

from turntree.cli.output.text import clean, digits
from turntree.core.program import Program, Visibility
from turntree.core.session import Session, SessionMove
from turntree.transcripts.exporters.jsonl import session_document


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


def visibility_of(program: Program | None) -> Visibility:
    """Return the visibility of a session, from its program if it has one."""
    return "public" if program is None else program.visibility


def privacy_hints(
    session: Session, program: Program | None, by: str, *, opened: bool
) -> tuple[str, ...]:
    """Return what to print about a new private session: who can read it, and how to open it.

    Also for one that was made public on purpose.
    """
    if program is None or program.visibility == "public":
        return ("the whole workspace can read it",) if opened else ()
    if program.owner != by:
        return (f"it is private: only {clean(program.owner)} opens it",)
    return (f"it is private; open it with: turntree program visibility {session.label} public",)


def stand(session: Session) -> str:
    """Return where a session's head is, as the end of a sentence."""
    if session.head is None:
        return "with no turns yet"
    return f"at {digits(session.head_digest)} (depth {session.depth})"
