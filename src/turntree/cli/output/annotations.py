"""Annotations of turns: labels, tags, tokens, and how short their digests can be written.

Reads them from the ledger in few queries. Must never know how they are printed.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from turntree.boot.open import imports_on
from turntree.cli.context import CliContext
from turntree.cli.output.text import asker, tool_of
from turntree.core.ids import Digest, SessionId, Timestamp, TurnId
from turntree.core.session import Session, SessionStatus
from turntree.core.thread import ThreadTurn
from turntree.core.usage import Usage
from turntree.core.usage import to_json as call_to_json
from turntree.core.value import value


@value
class Annotations:
    """What is known about some turns besides themselves."""

    now: Timestamp
    current: Session | None
    sessions: tuple[Session, ...]
    labels: dict[TurnId, list[str]]
    """Labels of the sessions whose head is the turn."""
    tags: dict[TurnId, list[str]]
    used: dict[TurnId, Usage]
    unique: dict[Digest, int]
    reasons: dict[TurnId, str]
    """Why turns failed, from their recorded events."""
    askers: dict[TurnId, str]
    """The people whose tools recorded turns, which their headers do not name."""

    def document(self, placed: ThreadTurn) -> dict[str, Any]:
        """Return what a JSON line says about a turn."""
        header = placed.turn.header
        used = self.used.get(placed.turn.id, Usage())
        return {
            "id": placed.turn.id,
            "digest": placed.turn.digest,
            "parent": placed.parent,
            "depth": placed.depth,
            "kind": header.kind,
            "outcome": header.outcome,
            "reason": self.reasons.get(placed.turn.id),
            "by": header.by.to_json(),
            "asker": asker(placed.turn, self.askers) or None,
            "model": header.model,
            "provider": header.provider,
            "started_at": header.started_at,
            "sealed_at": header.sealed_at,
            "tokens": used.total,
            "title": placed.turn.title,
            "sessions": self.labels.get(placed.turn.id, []),
            "tags": self.tags.get(placed.turn.id, []),
        }


async def read_legend(
    opened: CliContext, turns: Sequence[ThreadTurn], *, with_archived: bool = False
) -> Annotations:
    """Return the annotations of some turns."""
    tree = opened.tree
    ids = [placed.turn.id for placed in turns]
    failed = [one.turn.id for one in turns if one.turn.header.outcome == "failed"]
    sessions = await list_sessions(opened, with_archived=with_archived)
    calls = await tree.turns.list_calls(ids)
    tags: dict[TurnId, list[str]] = {}
    for turn, tag in await tree.turns.marks.list_tags():
        tags.setdefault(turn, []).append(tag)
    return Annotations(
        now=opened.now,
        current=await opened.find_current(),
        sessions=sessions,
        labels=_labels(sessions),
        tags=tags,
        used={turn: sum((c.usage for c in made), Usage()) for turn, made in calls.items()},
        unique=await tree.turns.list_unique_lengths([placed.turn.digest for placed in turns]),
        reasons=await tree.runs.list_reasons(failed),
        askers=await list_askers(opened, turns),
    )


async def list_askers(opened: CliContext, turns: Sequence[ThreadTurn]) -> dict[TurnId, str]:
    """Return who asked for the turns that were imported from a tool."""
    ids = [placed.turn.id for placed in turns if tool_of(placed.turn.header.by)]
    return await imports_on(opened.database).list_importers(ids) if ids else {}


async def list_sessions(opened: CliContext, *, with_archived: bool) -> tuple[Session, ...]:
    """Return the active sessions, or all that were not deleted."""
    status: SessionStatus | None = None if with_archived else "active"
    found = [session async for session in opened.tree.sessions.list_all(status=status)]
    return tuple(session for session in found if session.status != "deleted")


async def name_sessions(opened: CliContext, ids: Iterable[SessionId]) -> list[Session]:
    """Return the given sessions by their ids."""
    return [await opened.tree.sessions.ledger.get(id) for id in ids]


async def list_call_documents(opened: CliContext, turn: TurnId) -> list[dict[str, Any]]:
    """Return the model calls of a turn as documents."""
    calls = (await opened.tree.turns.list_calls([turn])).get(turn, [])
    return [call_to_json(call) for call in calls]


def _labels(sessions: Sequence[Session]) -> dict[TurnId, list[str]]:
    labels: dict[TurnId, list[str]] = {}
    for session in sessions:
        if session.head is not None:
            labels.setdefault(session.head, []).append(session.label)
    return labels
