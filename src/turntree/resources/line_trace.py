"""Trace each line of a text to the version that wrote it.

A line belongs to the first version since which it has stayed. Pure: a version is its lines, and the
caller knows who wrote which version.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from turntree.resources.line_diff import match_lines

ALIKE_SHARE_MIN: Final = 0.5
"""Share of two texts that must match for one to count as the other, moved and edited."""


def trace_lines(versions: Iterable[Sequence[bytes]], *, returns: Collection[int] = ()) -> list[int]:
    """Return, for each line of the last version, the index of the version that wrote it.

    A version without lines means that the text did not exist: what follows is written anew. A
    version in ``returns`` that equals an earlier one restores it, and its author wrote nothing.
    """
    writers: list[int] = []
    before: tuple[bytes, ...] = ()
    known: dict[tuple[bytes, ...], list[int]] = {(): []}
    for number, version in enumerate(versions):
        lines = tuple(version)
        if lines == before:
            continue
        if number in returns and lines in known:
            writers = known[lines]
        else:
            now = [number] * len(lines)
            for same in match_lines(before, lines):
                now[same.new : same.new + same.length] = writers[same.old : same.old + same.length]
            writers = now
        before = lines
        known[lines] = writers
    return writers


def find_likeness(text: Sequence[bytes], others: Sequence[Sequence[bytes]]) -> int | None:
    """Return which of several texts one was made from, or None if none is similar.

    Lines count by their length: sharing brackets says little.
    """
    best: tuple[float, int] | None = None
    for number, other in enumerate(others):
        share = _share(text, other)
        if share >= ALIKE_SHARE_MIN and (best is None or share > best[0]):
            best = share, number
    return None if best is None else best[1]


def _share(text: Sequence[bytes], other: Sequence[bytes]) -> float:
    longer = max(sum(map(len, text)), sum(map(len, other)))
    if not longer:
        return 0.0
    stayed = sum(
        sum(map(len, text[same.new : same.new + same.length])) for same in match_lines(other, text)
    )
    return stayed / longer
