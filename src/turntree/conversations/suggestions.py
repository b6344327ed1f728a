"""Whom to suggest while ``@…`` is typed: members and usable agents, the likeliest first. Pure.

How well a name fits comes first: what is typed begins a word of the name or the id, or it is just
somewhere in them. Zulip's composer sorts so too; who is here and was spoken to lately decides only
among names that fit alike. With nothing typed yet all fit alike.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from turntree.conversations.mentions import MentionKind
from turntree.core.ids import Timestamp
from turntree.core.value import value

SUGGESTIONS_MAX: Final = 8
"""As many as a person reads before typing on."""
TYPED_CHARS_MAX: Final = 200
UNUSABLE_STATES: Final = frozenset({"paused", "error", "deleted"})
"""States in which an agent answers no mention."""

_WORD: Final = re.compile(r"[^\W_]+")


@value
class MentionCandidate:
    """A person or an agent that could be mentioned."""

    kind: MentionKind
    id: str
    """What a mention would name: a program's name or id."""
    name: str
    """What people call it."""
    state: str
    may_invoke: bool
    """Whether the author may: of a person, whether they are a member."""
    is_present: bool = False
    """Whether it takes part in the conversation."""
    used_at: Timestamp | None = None
    """When it last posted in the conversation."""


def suggest(
    typed: str, candidates: Iterable[MentionCandidate], *, limit: int = SUGGESTIONS_MAX
) -> tuple[MentionCandidate, ...]:
    """Return the candidates that fit what is typed after the ``@``, best first.

    Case and accents do not count. Equals are in the order of their names and ids, so that the same
    candidates in another order give the same list.
    """
    wanted = _fold(typed.strip())
    if len(wanted) > TYPED_CHARS_MAX:
        return ()
    fitting = [
        (fit, candidate)
        for candidate in candidates
        if _is_usable(candidate) and (fit := _fit(wanted, candidate)) is not None
    ]
    # Sorts are stable: the last one decides first.
    fitting.sort(key=lambda pair: (_fold(pair[1].name), pair[1].name, pair[1].kind, pair[1].id))
    fitting.sort(key=lambda pair: pair[1].used_at or "", reverse=True)
    fitting.sort(key=lambda pair: (pair[0], not pair[1].is_present))
    return tuple(candidate for _, candidate in fitting[:limit])


def _is_usable(candidate: MentionCandidate) -> bool:
    return candidate.may_invoke and candidate.state not in UNUSABLE_STATES


def _fit(wanted: str, candidate: MentionCandidate) -> int | None:
    """Return 0 if a word begins so, 1 if it is elsewhere in name or id, and None if it is not."""
    texts = (_fold(candidate.name), _fold(candidate.id))
    if any(
        text.startswith(wanted, word.start()) for text in texts for word in _WORD.finditer(text)
    ):
        return 0
    return 1 if any(wanted in text for text in texts) else None


def _fold(text: str) -> str:
    """Return a text without case and accents: ``Änne`` and ``anne`` are one."""
    apart = unicodedata.normalize("NFKD", text)
    return "".join(char for char in apart if not unicodedata.combining(char)).casefold()
