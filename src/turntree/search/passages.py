"""Find the passage of a long text that contains most of some words. Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

PASSAGE_CHARS: Final = 400


def find_window(lowered: str, weights: Mapping[str, float]) -> tuple[float, int]:
    """Return the best passage of a text in lower case: the sum of the weights of the words that
    begin in it, and where it starts. Of equal ones it is the first; 0 means that it has none.
    """
    present = {begun: weight for begun, weight in weights.items() if begun in lowered}
    if not present:
        return 0.0, 0
    score, place = max(
        (sum(present[begun] for begun in present if begun in lowered[start:end]), -start)
        for start, end in _windows(lowered)
    )
    return score, -place


def _windows(text: str) -> Iterator[tuple[int, int]]:
    # They overlap by half, so that no sentence is cut in all of them.
    for start in range(0, max(1, len(text)), PASSAGE_CHARS // 2):
        yield start, start + PASSAGE_CHARS
