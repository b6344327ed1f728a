"""Find the passage of a long text that contains most of some words. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

PASSAGE_CHARS: Final = 400
LEAD_CHARS: Final = 80
"""How much of the text before its first word a passage shows."""


def find_window(text: str, weights: Mapping[str, float]) -> tuple[float, int]:
    """Return the best passage of a text: the sum of the weights of the words in it, and its start.

    ``weights`` has the letters that words begin with, in lower case. Of equal passages it is the
    first; 0 means that there is none.
    """
    hits = sorted(hit for begun in weights for hit in _places(text, text.lower(), begun))
    inside = Counter[str]()
    best, start, first = 0.0, 0, 0
    for index, (place, begun) in enumerate(hits):
        inside[begun] += 1
        # A word that comes again is left behind: the rest stands closer together.
        end = place + len(begun)
        while first < index and (
            inside[hits[first][1]] > 1 or end - hits[first][0] > PASSAGE_CHARS - LEAD_CHARS
        ):
            inside[hits[first][1]] -= 1
            first += 1
        # In the order of the weights: the same sum, however the words are arranged.
        score = sum(weight for each, weight in weights.items() if inside[each])
        if score > best:
            best, start = score, hits[first][0]
    return best, max(0, start - LEAD_CHARS)


def _places(text: str, lowered: str, begun: str) -> Iterator[tuple[int, str]]:
    """Yield where words begin with some letters: ``port`` in ``my_port``, not in ``import``."""
    place = lowered.find(begun) if begun else -1
    while place >= 0:
        before = text[max(0, place - 1) : place]
        if not before.isalpha() or (before.islower() and text[place : place + 1].isupper()):
            yield place, begun
        place = lowered.find(begun, place + 1)
