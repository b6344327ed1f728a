"""Approvals: what waits to be decided by a person, and what they decided."""

from typing import Any

from turntree.core.value import value


@value
class ApprovalDocument:
    """A request to a person, and their answer."""

    id: str
    kind: str
    """``call``, ``question`` (of a tool, in the middle of a call) or ``foreign_call`` (of another
    coding agent)."""
    state: str
    """``pending``, ``approved``, ``edited``, ``rejected``, ``answered``, ``expired``, ``canceled``
    or ``used``."""
    tool: str
    origin: str
    """``turntree``, ``claude-code`` or ``codex``."""
    args: dict[str, Any] | None
    """The arguments; null once the call is part of a turn, or was erased."""
    args_digest: str
    reason: str
    requested_by: str
    answerers: tuple[str, ...]
    may_answer: bool
    """Whether the caller may answer it now."""
    created_at: str
    expires_at: str
    run: str | None
    session: str | None
    label: str | None
    call_id: str | None
    folder: str | None
    policy: str | None
    line: int | None
    question: dict[str, Any] | None
    decided_by: str | None
    decided_at: str | None
    note: str | None
    answer: Any
    """The edited arguments, or the answer to a question."""
    allowed_digest: str | None
    used_at: str | None


@value
class ApprovalPage:
    """A page of requests: those that wait oldest first, all of them newest first."""

    approvals: tuple[ApprovalDocument, ...]
    waiting: int
    """How many wait for the caller."""
    next: str | None
    """What a next page comes after."""


@value
class RejectedRequests:
    """How many requests were rejected, so that another message is answered."""

    rejected: int
