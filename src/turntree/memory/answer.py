"""Bound an answer: a model pays for every word of it in each later request.

Pure. An answer is made of blocks, each of which cites its turn. Blocks that do not fit are left for
the next page; a single block that is too long is cut.
"""

from collections.abc import Sequence
from typing import Final

from turntree.core.ids import Digest, Timestamp
from turntree.core.thread import ThreadTurn
from turntree.models.token_estimate import estimate_text

TOKENS_MAX: Final = 800
"""What an answer costs at most."""
# Estimates of scripts other than Latin are a third too low at worst.
_ESTIMATE_MAX: Final = 580
_CHARS_MAX: Final = 4_000
_STEP_CHARS: Final = 40
DIGITS: Final = 12
TITLE_CHARS_MAX: Final = 80


def short(digest: Digest) -> str:
    """Return the beginning of a digest that names a turn."""
    return digest.removeprefix("sha256:")[:DIGITS]


def cite(placed: ThreadTurn, sessions: Sequence[str] = ()) -> str:
    """Return the line that names a turn: its digest, when it was, who took it, and its title."""
    header = placed.turn.header
    facts = [minute(header.started_at), str(header.by.id), header.model, *sessions[:1]]
    return f"[{short(placed.turn.digest)}] {title(placed)} ({', '.join(filter(None, facts))})"


def title(placed: ThreadTurn) -> str:
    """Return the title of a turn on one line."""
    words = " ".join(placed.turn.title.split())
    return words if len(words) <= TITLE_CHARS_MAX else f"{words[: TITLE_CHARS_MAX - 1]}…"


def minute(at: Timestamp) -> str:
    """Return a time to the minute, in UTC."""
    return at[:16].replace("T", " ")


def fit(text: str, tokens: int = _ESTIMATE_MAX) -> int:
    """Return how many characters of a text fit into an answer."""
    end = min(len(text), _CHARS_MAX)
    while end > 0 and estimate_text(text[:end]) > tokens:
        end -= max(_STEP_CHARS, end // 20)
    return max(end, 0)


def join_blocks(blocks: Sequence[str], *, skip: int, more: bool = False) -> str:
    """Return as many blocks as fit, and how to get those after them.

    ``skip`` is the number of blocks before the first; ``more`` says that others follow the last.
    """
    shown: list[str] = []
    for block in blocks:
        if shown and fit("\n".join([*shown, block])) < len("\n".join([*shown, block])):
            break
        shown.append(block[: fit(block)])
    if len(shown) < len(blocks) or more:
        shown.append(f"more: skip={skip + len(shown)}")
    return "\n".join(shown)


def page(text: str, *, start: int, head: str) -> str:
    """Return the part of a text from a character on that fits below a line, and how to go on."""
    rest = text[start:]
    end = fit(rest, _ESTIMATE_MAX - estimate_text(head))
    if end < len(rest) and (line := rest.rfind("\n", end // 2, end)) > 0:
        end = line + 1
    shown = f"{head}\n{rest[:end].rstrip()}"
    return shown if end >= len(rest) else f"{shown}\nmore: start={start + end} of {len(text)}"
