"""The inbox of the caller: what a person was told."""

from typing import Any

from turntree.core.value import value


@value
class NoticeDocument:
    """A notice."""

    id: str
    kind: str
    """``message``, ``question``, ``mention``, ``invitation``, ``failure`` or ``approval``."""
    by: str
    """The principal that caused it."""
    text: str
    refs: dict[str, Any]
    """What it is about: ``run``, ``session``, ``task``, ``request`` and others."""
    at: str
    read_at: str | None
    displaced: bool
    """Whether later notices of its sender took its place before it was read."""


@value
class FailingChannel:
    """A channel whose last message to the caller was given up."""

    channel: str
    address: str
    error: str
    at: str


@value
class InboxPage:
    """A page of notices, newest first."""

    notices: tuple[NoticeDocument, ...]
    unread: int
    """How many of all are unread."""
    failing: tuple[FailingChannel, ...]
    next: str | None
    """The cursor of the next page."""


@value
class ReadNotices:
    """The notices that were marked as read, oldest first."""

    notices: tuple[NoticeDocument, ...]
