"""What secret keys look like, for those that can be told from words.

A format is listed if its beginning and its length leave little doubt. Whoever finds one still has
to look: nothing here proves that a key was ever valid.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from hashlib import sha256
from itertools import accumulate
from typing import Final

RULES_VERSION: Final = 1
"""Of the formats below: equal versions take out equal words, so that digests are equal too."""

_RARE: Final = ((b"K", b"AKIA"), (b"V", b"PRIVATE KEY-----"), (b"z", b"AIza"))
"""A letter that few texts hold, and a mark it stands in."""

_MARKS: Final = (
    # Most hyphens follow another letter, and are done with.
    re.compile(rb"-(?<=[kbpti]-)(?:(?<=sk-)|(?<=xox[bp]-)|(?<=glpat-)|(?<=xai-))"),
    re.compile(rb"g(?=h[posu]_|ithub_pat_)"),
)
"""What stands in every other key. To look for one letter first takes half the time."""

_KEY: Final = re.compile(
    # A line break is written \n in JSON: its n is no letter of a word.
    rb"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))(?:"
    # OpenAI and others (sk-…, sk-proj-…), Anthropic (sk-ant-…).
    rb"sk-(?:proj-|ant-|svcacct-|or-v1-)?(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{32,}"
    rb"|gh[posu]_[A-Za-z0-9]{36}"
    rb"|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"
    rb"|glpat-[A-Za-z0-9_-]{20}"
    rb"|xai-[A-Za-z0-9]{60,}"
    rb"|AIza[0-9A-Za-z_-]{35}"
    rb"|AKIA[0-9A-Z]{16}"
    rb"|xox[bp]-\d{8,}-[A-Za-z0-9-]{16,}"
    rb")(?![A-Za-z0-9])"
    rb"|-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----(?:\\r|\\n|\s){1,4}[A-Za-z0-9+/]{32,}"
    rb"(?:[A-Za-z0-9+/=]|\\r|\\n|\s)*(?:-----END (?:[A-Z]+ )*PRIVATE KEY-----)?"
)


def find_keys(texts: Sequence[bytes]) -> Iterator[int]:
    """Yield the places of the texts in which something stands that looks like a secret key.

    Every word of the ledger passes through here. Many texts are searched as one, for marks only;
    where one stands, the text is looked at closely.
    """
    whole = b"\n".join(texts)
    hits = set(_find_marks(whole))
    if not hits:
        return
    begins = [0, *accumulate(len(text) + 1 for text in texts)]
    for place in sorted({bisect_right(begins, at) - 1 for at in hits}):
        if _KEY.search(texts[place]) is not None:
            yield place


def redact(data: bytes) -> tuple[bytes, int]:
    """Return the text with a placeholder for each secret key, and how many there were.

    A placeholder holds the beginning of the key's sha256: the same key can still be recognised,
    and nobody can go back from it.
    """
    if next(_find_marks(data), None) is None:
        return data, 0
    return _KEY.subn(_placeholder, data)


def redact_all(texts: Sequence[bytes]) -> dict[int, tuple[bytes, int]]:
    """Return what ``redact`` makes of the texts that hold a secret key, by their places.

    Few do, and to look at many at once takes half the time.
    """
    return {place: redact(texts[place]) for place in find_keys(texts)}


def _placeholder(found: re.Match[bytes]) -> bytes:
    return b"[redacted:" + sha256(found[0]).hexdigest()[:8].encode() + b"]"


def _find_marks(text: bytes) -> Iterator[int]:
    for mark in _MARKS:
        yield from (found.start() for found in mark.finditer(text))
    for letter, rare in _RARE:
        yield from _find_mark(text, letter, rare)


def _find_mark(text: bytes, letter: bytes, mark: bytes) -> Iterator[int]:
    """Yield where a mark stands, by its rare letter: one byte alone is found much sooner."""
    place = mark.index(letter)
    at = text.find(letter, place)
    while at >= 0:
        if text.startswith(mark, at - place):
            yield at
        at = text.find(letter, at + 1)
