"""Export turns and sessions as JSON lines: one document per line, parents before children.

A turn's ``header`` is the document that its digest was computed from, so an export can be verified
with sha256 and RFC 8785, without Turntree: the digest of a message is the sha256 of its canonical
bytes, ``header.messages.digest`` that of the canonical array of those, the turn's that of the
canonical header. An erased message is a stub with its digest.

Pure: the caller reads the values and writes the lines.
"""

from dataclasses import asdict
from typing import Any, cast

from turntree.core.canonical import Json, canonical, digest_bytes
from turntree.core.message import ErasedMessage, Message, line_of, to_json
from turntree.core.session import Session
from turntree.core.thread import ThreadTurn
from turntree.core.turn import RECIPE, Turn


def turn_line(placed: ThreadTurn) -> str:
    """Return the line of a turn."""
    turn = placed.turn
    return _line(
        {
            "kind": "turn",
            "id": turn.id,
            "digest": turn.digest,
            "parent": placed.parent,
            "depth": placed.depth,
            "header": header_document(turn),
            "messages": [message_document(said) for said in turn.messages],
        }
    )


def session_line(session: Session) -> str:
    """Return the line of a session."""
    return _line({"kind": "session", **session_document(session)})


def session_document(session: Session) -> dict[str, Any]:
    """Return a session's document."""
    return {
        "id": session.id,
        "label": session.label,
        "head": session.head,
        "head_digest": session.head_digest,
        "depth": session.depth,
        "status": session.status,
        "version": session.version,
        "created_at": session.created_at,
        "updated_at": session.updated_at,
        "aliases": list(session.aliases),
        "origin": None if session.origin is None else asdict(session.origin),
        "spawned_by": None if session.spawn is None else asdict(session.spawn),
    }


def header_document(turn: Turn) -> dict[str, Any]:
    """Return the document whose canonical bytes have the turn's digest."""
    header = turn.header
    digests = [_digest(said) for said in turn.messages]
    document: dict[str, Any] = {
        **asdict(header),
        "turntree": RECIPE,
        "by": header.by.to_json(),
        "derived_from": list(header.derived_from) or None,
        "compaction": header.compaction and header.compaction.to_json(),
        "messages": {
            "count": len(digests),
            "digest": digest_bytes(canonical(cast("list[Json]", digests))),
            "query": turn.query_count,
        },
    }
    # Absent is absent: a null member would be another document with another digest.
    return {name: value for name, value in document.items() if value is not None}


def message_document(said: Message | ErasedMessage) -> dict[str, Any]:
    """Return a message's document, or the stub of an erased one."""
    return {"erased": said.digest} if isinstance(said, ErasedMessage) else to_json(said)


def _digest(said: Message | ErasedMessage) -> str:
    return said.digest if isinstance(said, ErasedMessage) else digest_bytes(line_of(said))


def _line(document: dict[str, Any]) -> str:
    return canonical(cast("Json", document)).decode()
