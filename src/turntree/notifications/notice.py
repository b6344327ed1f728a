"""Notices: what a person is told, until and after they read it."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from turntree.core.canonical import Json
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.ids import Timestamp
from turntree.core.value import value

NoticeKind = Literal["message", "question", "mention", "invitation", "failure", "approval"]
TEXT_CHARS_MAX: Final = 10_000
UNREAD_MAX: Final = 50
"""Unread notices of one sender with one person; the next one displaces the oldest of them. The
number is in ``add_notice`` too (``db/functions/38_notices.sql``)."""


@value
class Notice:
    """A notice in a person's inbox."""

    id: str
    kind: NoticeKind
    by: str
    """The principal that caused it: ``human:ana``, ``agent:atlas``, ``system:runtime``."""
    text: str
    refs: Mapping[str, Json]
    """What it is about: ``run``, ``session``, ``task``, ``request`` and others."""
    at: Timestamp
    read_at: Timestamp | None = None
    is_displaced: bool = False
    """Whether later notices of its sender took its place before it was read."""


def find_ids(given: Sequence[str], notices: Sequence[Notice]) -> list[str]:
    """Return the ids of notices that are named by the beginnings of their ids.

    Raises:
        NotFound: No notice has such an id.
        InvalidOperation: Several begin like this.
    """
    found: list[str] = []
    for start in given:
        match [one.id for one in notices if start and one.id.startswith(start)]:
            case [only]:
                found.append(only)
            case []:
                raise NotFound(f"there is no unread notice {start[:80]!r}")
            case several:
                raise InvalidOperation(f"{start[:80]!r} could be {' or '.join(several[:2])}")
    return found
