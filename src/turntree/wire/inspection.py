"""What is known about one turn besides its messages: context, permissions, causes, raw bytes."""

from typing import Literal

from turntree.core.value import value
from turntree.wire.threads import CompactionDocument


@value
class ContextMessage:
    """A message that a model was given, in short."""

    role: str
    text: str
    is_own: bool
    """Whether it belongs to the turn itself, and not to the thread before it."""


@value
class ContextTool:
    """A tool that a model was offered."""

    name: str
    description: str
    effects: tuple[str, ...] | None = None
    """What its calls may do; null if it declares nothing, and so counts as doing everything."""


@value
class ContextCall:
    """One call of a model and what it was given."""

    number: int
    system: tuple[str, ...]
    tools: tuple[ContextTool, ...]
    thread_turns: int
    turns_left_out: int
    messages: tuple[ContextMessage, ...]
    estimated_tokens: int
    reported_tokens: int | None
    cached_tokens: int | None
    digest: str | None
    """The digest of the request as it was sent."""
    is_same: bool | None
    """Whether the request, assembled again, has that digest; null if none was recorded."""


@value
class ContextTurn:
    """A turn that is part of a context."""

    turn: str
    depth: int
    title: str
    kind: str
    tokens: int | None


@value
class ContextDocument:
    """What a model saw for a turn."""

    turn: str
    model: str | None
    absence: str | None
    """Why no request is shown, if none is."""
    is_erased: bool
    calls: tuple[ContextCall, ...]
    thread: tuple[ContextTurn, ...]
    """The newest turns of the thread that a context includes, from the last compaction on."""
    thread_total: int
    compaction: CompactionDocument | None
    """The compaction that the context starts with."""
    manifest: str | None


@value
class PermissionUse:
    """A permission that was used or denied in a turn."""

    at: str
    action: str
    principal: str
    decision: Literal["used", "denied"]
    why: str


@value
class PermissionList:
    """The permissions of a turn; empty where none were recorded."""

    principal: str | None
    """Who acted, and on whose behalf; null where nothing was granted."""
    allowed: tuple[str, ...]
    """The patterns that the turn was granted."""
    withheld: tuple[str, ...]
    """The patterns that were denied to it, also where another one allows them."""
    records: tuple[PermissionUse, ...]


@value
class CauseStep:
    """One step back from a turn."""

    kind: str
    depth: int
    """How many steps back it is; the direct causes have 1."""
    turn: str | None
    session: str | None
    text: str
    at: str | None


@value
class CauseList:
    """The steps that led to a turn, nearest first."""

    principal: str
    """Who asked for it, and on whose behalf."""
    steps: tuple[CauseStep, ...]
    is_cut: bool


@value
class RawRecordText:
    """A record of the tool that a turn was imported from, as it was stored."""

    source: str
    text: str
    bytes: int


@value
class RawTurn:
    """The bytes of a turn and their proof."""

    turn: str
    digest: str
    parent_digest: str | None
    canonical: str
    bytes: int
    is_cut: bool
    verified: bool
    """Whether the bytes, hashed again, give the digest."""
    findings: tuple[str, ...]
    """What a reader should know about the bytes; empty if all of them are as they were sealed."""
    records: tuple[RawRecordText, ...]
