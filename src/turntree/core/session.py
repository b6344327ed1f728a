"""Sessions: labels that point at moving heads, and the log of every move."""

from collections.abc import Iterator
from typing import Final, Literal

from turntree.core.canonical import Json
from turntree.core.event import Event, SealedEvent, record
from turntree.core.ids import Digest, Label, SessionId, Timestamp, TurnId
from turntree.core.value import value

MoveKind = Literal["create", "advance", "fork", "rewind", "reset", "undo", "import", "handoff"]
"""How a head may move.

create  a session is created without a head
fork    a session is created at an existing turn
advance a turn whose parent is the head becomes the head
rewind  an ancestor of the head becomes the head, or no turn
reset   any other turn becomes the head
undo    the head returns to the turn before an earlier move
import  the head follows the tool that the session came from
handoff the head follows a tool that the session was handed off to

``redo`` is reserved for a later release.
"""

SessionStatus = Literal["active", "archived", "deleted"]
AliasReason = Literal["identity_promotion", "identity_merge", "manual"]
SpawnMode = Literal["fresh", "fork"]
LABELS_TRIED_MAX: Final = 1000


@value
class Origin:
    """The tool that a history came from, and its name there."""

    tool: str
    session_id: str


@value
class Spawn:
    """The tool call that spawned a subagent's session."""

    parent_session: SessionId
    parent_turn: TurnId
    call_id: str
    mode: SpawnMode = "fresh"
    task: str | None = None


@value
class Session:
    """A pointer; it contains no turns."""

    id: SessionId
    label: Label
    head: TurnId | None
    head_digest: Digest | None
    version: int
    status: SessionStatus
    created_at: Timestamp
    updated_at: Timestamp
    depth: int = 0
    """Number of turns in its thread."""
    origin: Origin | None = None
    spawn: Spawn | None = None
    aliases: tuple[Label, ...] = ()
    head_sealed_at: Timestamp | None = None
    """When its last turn was sealed; for an imported one this may be long before the import."""

    @property
    def worked_at(self) -> Timestamp:
        """When its last turn was sealed or, if it is empty, when it was last changed."""
        return self.head_sealed_at or self.updated_at


@value
class SessionMove:
    """One entry of a session's reflog."""

    session: SessionId
    version: int
    kind: MoveKind
    before: TurnId | None
    after: TurnId | None
    at: Timestamp
    by: str
    before_digest: Digest | None = None
    after_digest: Digest | None = None


def numbered_labels(label: str) -> Iterator[str]:
    """Yield a label, then ``label-2``, ``label-3``: the names to try until one is free."""
    yield label
    for number in range(2, LABELS_TRIED_MAX + 1):
        yield f"{label}-{number}"


def begun(
    session: SessionId,
    label: Label,
    head: TurnId | None,
    *,
    by: str,
    at: Timestamp,
    origin: Origin | None = None,
    spawn: Spawn | None = None,
) -> SealedEvent:
    """Return the event that creates a session: without a head, or as a fork of an existing turn."""
    data: dict[str, Json] = {
        "label": label,
        "after": head,
        "before": None,
        "by": by,
        "move": "create" if head is None else "fork",
        "version": 1,
    }
    if origin is not None:
        data["origin"] = {"tool": origin.tool, "session": origin.session_id}
    if spawn is not None:
        data |= {"call_id": spawn.call_id, "mode": spawn.mode}
        data |= {} if spawn.task is None else {"task": spawn.task}
    return record(Event(session, 0, "session.created", at, data))


def undo_target(moves: "list[SessionMove] | tuple[SessionMove, ...]") -> SessionMove | None:
    """Return the move that the next undo reverts, given the whole reflog, oldest first.

    An undo reverts the newest move that is not reverted yet, so undoing twice reverts two moves.
    The creation of a session cannot be undone.
    """
    undoable: list[SessionMove] = []
    for move in moves:
        if move.kind == "undo":
            undoable.pop()
        elif move.kind not in ("create", "fork"):
            undoable.append(move)
    return undoable[-1] if undoable else None
