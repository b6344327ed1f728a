"""Estimates the number of tokens of a text.

The provider's own count is exact but comes too late, after the call. Until then a count of words,
digits and other characters is within a tenth of what today's tokenizers give for prose, code and
JSON in Latin letters, and within a third in other scripts. The remaining error depends on the model
and the thread, so it is learned from pairs of estimated and reported counts.

Where a thread is cut depends on these numbers. Changing them moves the cuts of every thread, and
with them the prefix that providers have cached. This module must never know a vendor's tokenizer.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from turntree.core.canonical import Json, as_text, canonical
from turntree.core.message import (
    Media,
    Message,
    ObjectRef,
    OpaquePart,
    Part,
    Reasoning,
    Text,
    ToolResult,
    ToolUse,
)

MESSAGE_TOKENS: Final = 4
"""Overhead of a message."""
PART_TOKENS: Final = 8
"""Overhead of a call, a result or a tool."""
MEDIA_TOKENS: Final = 1500
"""Cost of an image of usual size; its real size is not known here."""
BYTES_PER_TOKEN: Final = 4
"""Cost of parts that are not read: those stored as objects, and opaque ones."""

# A wrong count of one reply must not shift the estimate without bound: below, the context would
# overflow; above, turns would be cut that fit.
FACTOR_MIN: Final = 0.8
FACTOR_MAX: Final = 2.0
FACTOR_STEP: Final = 0.1
"""A smaller deviation leaves the factor unchanged: each change moves the cut of a thread."""

REMEMBERED_TEXTS: Final = 2048
REMEMBERED_CHARS_MAX: Final = 16_384
"""Limits of the texts whose estimates are remembered: 32 MB."""
_PIECES: Final = re.compile(r"[^\W\d_]+|\d{1,3}|[^\w\s]+|_+|\s*\n\s*|[^\S\n]{2,}")
_WORD_CHARS: Final = 7
"""An English word up to this length is mostly one token."""
_MORE_CHARS: Final = 5
_SIGNS: Final = 3
_FIRST_GREEK: Final = "\u0370"
_FIRST_IDEOGRAPH: Final = "\u2e80"


def estimate_text(text: str) -> int:
    """Return the estimated tokens of a text."""
    if len(text) > REMEMBERED_CHARS_MAX:
        return round(sum(map(_piece, _PIECES.findall(text))))
    return _estimate(text)


# Every call of a turn estimates all results before it again.
@lru_cache(REMEMBERED_TEXTS)
def _estimate(text: str) -> int:
    return round(sum(map(_piece, _PIECES.findall(text))))


def _piece(piece: str) -> float:
    if piece.isspace() or piece.isdigit():
        return 1
    length = len(piece)
    if piece[0] == "_":
        # Inside a name it mostly forms one token with the word after it.
        return length * 0.5
    if not piece.isalpha():
        return max(1, (length + 1) // _SIGNS)
    if piece.isascii():
        return 1 if length <= _WORD_CHARS else 1 + (length - _WORD_CHARS) / _MORE_CHARS
    highest = max(piece)
    if highest >= _FIRST_IDEOGRAPH:
        return length * 0.74
    return max(1, length / 3.5) if highest < _FIRST_GREEK else 1 + max(0, length - 4) / 4


def estimate_value(value: Json) -> int:
    """Return the estimated tokens of a value written as JSON."""
    return estimate_text(as_text(value))


def estimate_part(part: Part) -> int:
    """Return the estimated tokens of a part."""
    match part:
        case Text(text):
            return estimate_text(text)
        case Reasoning(text, signature):
            return estimate_text(text) + len(signature or "") // BYTES_PER_TOKEN
        case ToolUse(_, tool, args):
            return PART_TOKENS + estimate_text(tool) + estimate_value(args)
        case ToolResult(_, _, output):
            return PART_TOKENS + estimate_value(output)
        case Media():
            return MEDIA_TOKENS
        case ObjectRef(size=size):
            return PART_TOKENS + size // BYTES_PER_TOKEN
        case OpaquePart(document):
            return PART_TOKENS + len(canonical(dict(document))) // BYTES_PER_TOKEN


def estimate_messages(messages: Iterable[Message]) -> int:
    """Return the estimated tokens of messages."""
    return sum(MESSAGE_TOKENS + sum(map(estimate_part, said.parts)) for said in messages)


def estimate_tool(name: str, description: str, parameters: Mapping[str, Json]) -> int:
    """Return the estimated tokens of a tool's description."""
    words = estimate_text(name) + estimate_text(description)
    return PART_TOKENS + words + estimate_value(dict(parameters))


def learn_factor(before: float, pairs: Iterable[tuple[int, int]]) -> float:
    """Return the ratio of reported to estimated tokens, given pairs of (estimated, reported).

    The previous factor is kept unless it is clearly wrong; otherwise the median of the pairs
    replaces it, within bounds: a provider that reports nonsense must not empty a context.
    """
    seen = sorted(reported / estimated for estimated, reported in pairs if estimated and reported)
    if not seen:
        return before
    middle = seen[len(seen) // 2]
    if abs(middle / before - 1) <= FACTOR_STEP:
        return before
    return round(min(FACTOR_MAX, max(FACTOR_MIN, middle)), 2)
