"""Turns and threads, with their messages."""

from typing import Any, Literal

from turntree.core.message import Role, Source, ToolStatus
from turntree.core.turn import Outcome, TurnKind
from turntree.core.value import value

PartKind = Literal["text", "reasoning", "tool_use", "tool_result", "image", "other"]
UseOfFile = Literal["read", "written", "created", "deleted"]


@value
class PartDocument:
    """One part of a message. Members that do not apply to its kind are null."""

    kind: PartKind
    number: int
    """Its number in the message, from 0; the pieces of one text share it."""
    text: str | None = None
    is_cut: bool = False
    """Whether the text, the arguments or the output are only a beginning."""
    is_injected: bool = False
    """Whether a tool put this text into the person's message."""
    call_id: str | None = None
    tool: str | None = None
    args: Any = None
    status: ToolStatus | None = None
    output: str | None = None
    about: str | None = None
    """What a call or a result is about, in one line."""
    spawned: str | None = None
    """The label of the session that the call spawned."""
    media_type: str | None = None
    url: str | None = None


@value
class MessageDocument:
    """A message and its parts; an erased one has no parts."""

    number: int
    """Its number in the turn, from 0."""
    role: Role | Literal["erased"]
    source: Source | None
    at: str | None
    parts: tuple[PartDocument, ...]
    erased: bool


@value
class TokenUse:
    """The tokens of a turn's model calls."""

    input: int
    cached: int
    cache_write: int
    output: int
    reasoning: int
    total: int


@value
class FileUseDocument:
    """A file that a turn used."""

    path: str
    use: UseOfFile


@value
class CompactionDocument:
    """What a compaction summarized, and what that saved."""

    summarized_through: str
    first_kept: str | None
    turns_summarized: int
    trigger: str
    tokens_before: int | None
    tokens_after: int | None


@value
class BranchLink:
    """Another turn that follows the same turn."""

    turn: str
    label: str | None
    title: str


@value
class TurnDocument:
    """A turn with its messages."""

    id: str
    digest: str
    parent: str | None
    depth: int
    """How many turns its thread has; the root's is 1."""
    kind: TurnKind
    outcome: Outcome
    reason: str | None
    """Why it failed, where that is recorded."""
    by: str
    """Who asked for it."""
    agent: str
    """Who answered: an agent, or a tool."""
    model: str | None
    provider: str | None
    started_at: str
    sealed_at: str
    title: str
    query: tuple[MessageDocument, ...]
    reply: tuple[MessageDocument, ...]
    tokens: int | None
    usage: TokenUse | None
    cost: float | None
    """In US dollars; null if it is unknown."""
    files: tuple[FileUseDocument, ...]
    has_snapshot: bool
    compaction: CompactionDocument | None
    sessions: tuple[str, ...]
    """Labels of the sessions whose head it is."""
    tags: tuple[str, ...]
    branches: tuple[BranchLink, ...]
    """Other turns that follow it, besides the one in the thread that was asked for."""
    is_cut: bool
    """Whether one of its parts is only a beginning."""


@value
class ThreadPage:
    """Some turns of a thread, root first."""

    head: str | None
    """Null if the session has no turn yet."""
    session: str | None
    """The label of the session that was named, or else of one with this head."""
    turns_total: int
    turns: tuple[TurnDocument, ...]
    older: int | None
    """The depth to ask for as ``before`` to get older turns; null at the root."""
    newer: int | None
    """The depth to ask for as ``after`` to get newer turns; null at the head."""
