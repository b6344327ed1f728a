"""What secret keys look like, for those that can be told from words.

A format is listed if its beginning and its length leave little doubt. Whoever finds one still has
to look: nothing here proves that a key was ever valid.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

_RARE: Final = ((b"K", b"AKIA"), (b"V", b"PRIVATE KEY-----"))
"""A letter that few texts hold, and a mark it stands in."""

_MARKS: Final = (re.compile(rb"-(?:(?<=sk-)|(?<=xox[bp]-))"), re.compile(rb"g(?=hp_)"))
"""What stands in every other key. To look for one letter first takes half the time."""

_KEY: Final = re.compile(
    # A line break is written \n in JSON: its n is no letter of a word.
    rb"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))(?:"
    # OpenAI and others (sk-…, sk-proj-…), Anthropic (sk-ant-…).
    rb"sk-(?:proj-|ant-|svcacct-|or-v1-)?(?=[A-Za-z_-]*\d)[A-Za-z0-9_-]{32,}"
    rb"|ghp_[A-Za-z0-9]{36}"
    rb"|AKIA[0-9A-Z]{16}"
    rb"|xox[bp]-\d{8,}-[A-Za-z0-9-]{16,}"
    rb")(?![A-Za-z0-9])"
    rb"|-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----(?:\\r|\\n|\s){1,4}[A-Za-z0-9+/]{32,}"
)


def find_keys(texts: Sequence[bytes]) -> Iterator[int]:
    """Yield the places of the texts in which something stands that looks like a secret key.

    Every word of the ledger passes through here. Many texts are searched as one, for marks only;
    where one stands, the text is looked at closely.
    """
    whole = b"\n".join(texts)
    hits = {found.start() for mark in _MARKS for found in mark.finditer(whole)}
    hits.update(at for letter, mark in _RARE for at in _find_mark(whole, letter, mark))
    if not hits:
        return
    begins = [0, *accumulate(len(text) + 1 for text in texts)]
    for place in sorted({bisect_right(begins, at) - 1 for at in hits}):
        if _KEY.search(texts[place]) is not None:
            yield place


def _find_mark(text: bytes, letter: bytes, mark: bytes) -> Iterator[int]:
    """Yield where a mark stands, by its rare letter: one byte alone is found much sooner."""
    place = mark.index(letter)
    at = text.find(letter, place)
    while at >= 0:
        if text.startswith(mark, at - place):
            yield at
        at = text.find(letter, at + 1)
