"""Who wrote each line: the versions of a text, from the oldest to the newest.

A line belongs to the first version from which on it has stayed. Pure: a version is its lines, and
whoever asks knows who left it. It must never know turns, files or places.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from turntree.resources.line_diff import match_lines

ALIKE_SHARE_MIN: Final = 0.5
"""How much of two texts must be the same for one to pass for the other, moved and edited."""


def trace_lines(versions: Iterable[Sequence[bytes]], *, returns: Collection[int] = ()) -> list[int]:
    """Return for each line of the last version which version wrote it, from 0.

    A version without lines is one in which there was no text: what stands there afterwards is
    written anew. One of ``returns`` that equals an earlier version is that one again, brought back
    by somebody who wrote nothing.
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
            writers = _written(number, before, writers, lines)
        before = lines
        known[lines] = writers
    return writers


def _written(
    number: int, before: Sequence[bytes], writers: Sequence[int], lines: Sequence[bytes]
) -> list[int]:
    now = [number] * len(lines)
    for same in match_lines(before, lines):
        now[same.new : same.new + same.length] = writers[same.old : same.old + same.length]
    return now


def find_likeness(text: Sequence[bytes], others: Sequence[Sequence[bytes]]) -> int | None:
    """Return which of several texts one was made from, or None if none is like it.

    Lines count by their length: that two texts share their brackets says little.
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
