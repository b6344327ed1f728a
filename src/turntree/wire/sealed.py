"""Turns as they were sealed: the bytes that a digest proves, and what a list shows beside them."""

from typing import Any

from turntree.core.value import value
from turntree.wire.threads import TokenUse


@value
class SealedTurnDocument:
    """A turn as its bytes, and what is known about it."""

    id: str
    digest: str
    parent: str | None
    depth: int
    body: str
    """Lines of canonical JSON: the header, whose sha256 is the digest, and the messages."""
    whole: str | None
    """The lines of the messages with large parts read back into them; null if no part is large."""
    digits: int
    """How many characters of the digest name the turn in its workspace."""
    asker: str | None
    """The person whose tool recorded it, which its header does not name."""
    reason: str | None
    """Why it failed, where that is recorded."""
    usage: TokenUse | None
    sessions: tuple[str, ...]
    """Labels of the sessions whose head it is."""
    tags: tuple[str, ...]


@value
class SealedThread:
    """Some turns of a thread, and those that failed beside it, the newest first."""

    head: str | None
    session: str | None
    """The label of the session, if it was named by one."""
    turns: tuple[SealedTurnDocument, ...]
    older: int | None
    """The depth to ask for as ``before`` to get older turns; null at the root."""


@value
class SealedList:
    """Turns in the order in which they were asked for."""

    turns: tuple[SealedTurnDocument, ...]


@value
class SealedView:
    """A turn with its neighbours in the tree."""

    turn: SealedTurnDocument
    parent: SealedTurnDocument | None
    children: tuple[SealedTurnDocument, ...]
    children_total: int
    held_by: tuple[str, ...]
    """Labels of sessions whose threads ever held it."""
    held_by_total: int
    thread_tokens: int
    """The tokens of its thread."""
    calls: tuple[dict[str, Any], ...]
    """Its model calls, as the ledger records them."""
    spawned: tuple[str, ...]
    """Labels of the sessions that it spawned."""
