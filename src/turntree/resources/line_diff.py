"""Compare two texts line by line: which lines stayed, which were added or removed.

Lines that occur once in both texts are anchors (patience diff); what is between two anchors is
compared with Myers' algorithm, bounded by ``EDITS_MAX``. So a repeated bracket does not make a
rewritten text look like an edited one, and the cost grows with the texts, not with their product.

Pure: it does not know where a text came from or how a difference is displayed.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

from turntree.core.value import value

EDITS_MAX: Final = 400
"""Edits searched for between two anchors before the stretch counts as rewritten."""
CONTEXT_LINES: Final = 3
# As git does: a NUL in the first 8000 bytes means binary.
BINARY_BYTES_LOOKED_AT: Final = 8_000
Sign = Literal[" ", "-", "+"]


class Same(NamedTuple):
    """A stretch of lines that both texts have."""

    old: int
    """Its first line in the old text, from 0."""
    new: int
    length: int


@value
class Hunk:
    """A stretch that differs, with a few lines of context."""

    old_start: int
    """The number of its first line in the old text, from 1; 0 if that has no lines here."""
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[tuple[Sign, bytes], ...]


def split_lines(text: bytes) -> list[bytes]:
    """Return the lines with their line ends, so that a missing last one is a difference."""
    *whole, rest = text.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


def is_binary(content: bytes) -> bool:
    """Return whether bytes are binary, by git's rule."""
    return b"\0" in content[:BINARY_BYTES_LOOKED_AT]


def match_lines(old: Sequence[bytes], new: Sequence[bytes]) -> list[Same]:
    """Return the lines that stayed, in order; lines between them were removed or added."""
    found: list[Same] = []
    open_ranges = [(0, len(old), 0, len(new))]
    while open_ranges:
        here = _trim(old, new, open_ranges.pop(), found)
        if here is None:
            continue
        pillars = _pillars(old, new, here)
        if pillars:
            open_ranges += _between(pillars, here)
        else:
            found += _walk(old, new, here)
    return _joined(sorted(found))


def hunks_of(
    old: Sequence[bytes], new: Sequence[bytes], *, context: int = CONTEXT_LINES
) -> list[Hunk]:
    """Return the hunks, with ``context`` lines around each; close ones are merged."""
    groups: list[list[tuple[int, int, int, int]]] = []
    for gap in _gaps(match_lines(old, new), len(old), len(new)):
        if groups and gap[0] - groups[-1][-1][1] <= 2 * context:
            groups[-1].append(gap)
        else:
            groups.append([gap])
    return [_hunk(old, new, group, context) for group in groups]


def apply_hunks(old: Sequence[bytes], hunks: Sequence[Hunk]) -> list[bytes]:
    """Return the old text with some of its hunks applied."""
    lines: list[bytes] = []
    at = 0
    for hunk in hunks:
        start = hunk.old_start - 1 if hunk.old_count else hunk.old_start
        lines += old[at:start]
        lines += [line for sign, line in hunk.lines if sign != "-"]
        at = start + hunk.old_count
    return [*lines, *old[at:]]


_Range = tuple[int, int, int, int]


def _trim(
    old: Sequence[bytes], new: Sequence[bytes], here: _Range, found: list[Same]
) -> _Range | None:
    """Record the common start and end; return what remains, or None if one side is empty."""
    low, high, start, end = here
    first = low
    while low < high and start < end and old[low] == new[start]:
        low, start = low + 1, start + 1
    if low > first:
        found.append(Same(first, start - (low - first), low - first))
    last = high
    while low < high and start < end and old[high - 1] == new[end - 1]:
        high, end = high - 1, end - 1
    if high < last:
        found.append(Same(high, end, last - high))
    return (low, high, start, end) if low < high and start < end else None


def _pillars(old: Sequence[bytes], new: Sequence[bytes], here: _Range) -> list[tuple[int, int]]:
    """Return the lines that occur once in both, as the longest list in the same order in both."""
    low, high, start, end = here
    times_old = Counter(old[low:high])
    times_new = Counter(new[start:end])
    at_new = {new[n]: n for n in range(start, end)}
    pairs = [
        (o, at_new[old[o]])
        for o in range(low, high)
        if times_old[old[o]] == 1 and times_new[old[o]] == 1
    ]
    return _longest_rising(pairs)


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of pairs whose second numbers rise with the first."""
    ends: list[int] = []
    at: list[int] = []
    before: list[int] = []
    for place, (_, number) in enumerate(pairs):
        length = bisect_left(ends, number)
        before.append(at[length - 1] if length else -1)
        ends[length : length + 1] = [number]
        at[length : length + 1] = [place]
    chosen: list[tuple[int, int]] = []
    place = at[-1] if at else -1
    while place >= 0:
        chosen.append(pairs[place])
        place = before[place]
    return chosen[::-1]


def _between(pillars: Sequence[tuple[int, int]], here: _Range) -> Iterator[_Range]:
    """Yield the ranges between anchors; each begins with its anchor."""
    low, high, start, end = here
    for old, new in pillars:
        yield low, old, start, new
        low, start = old, new
    yield low, high, start, end


def _walk(old: Sequence[bytes], new: Sequence[bytes], here: _Range) -> list[Same]:
    """Return what stayed in a range by the fewest edits, or nothing if there are too many."""
    low, high, start, end = here
    height, width = high - low, end - start
    reach = {1: 0}
    trail: list[dict[int, int]] = []
    for edits in range(min(height + width, EDITS_MAX) + 1):
        trail.append(dict(reach))
        for k in range(-edits, edits + 1, 2):
            goes_down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
            x = reach[k + 1] if goes_down else reach[k - 1] + 1
            y = x - k
            while x < height and y < width and old[low + x] == new[start + y]:
                x, y = x + 1, y + 1
            reach[k] = x
            if x >= height and y >= width:
                return _retrace(trail, height, width, low, start)
    return []


def _retrace(trail: Sequence[dict[int, int]], x: int, y: int, low: int, start: int) -> list[Same]:
    """Return the matching stretches along the path that Myers' search found."""
    found: list[Same] = []
    for edits in range(len(trail) - 1, -1, -1):
        reach, k = trail[edits], x - y
        goes_down = k == -edits or (k != edits and reach[k - 1] < reach[k + 1])
        from_k = k + 1 if goes_down else k - 1
        from_x = reach[from_k]
        # The matching lines that follow an edit cost nothing in Myers' search.
        after_x = 0 if edits == 0 else from_x + (0 if goes_down else 1)
        if x > after_x:
            found.append(Same(low + after_x, start + after_x - k, x - after_x))
        x, y = from_x, from_x - from_k
    return found


def _joined(found: Sequence[Same]) -> list[Same]:
    joined: list[Same] = []
    for same in found:
        last = joined[-1] if joined else None
        if last and (last.old + last.length, last.new + last.length) == (same.old, same.new):
            joined[-1] = Same(last.old, last.new, last.length + same.length)
        else:
            joined.append(same)
    return joined


def _gaps(stayed: Sequence[Same], old_count: int, new_count: int) -> Iterator[_Range]:
    old = new = 0
    for same in [*stayed, Same(old_count, new_count, 0)]:
        if same.old > old or same.new > new:
            yield old, same.old, new, same.new
        old, new = same.old + same.length, same.new + same.length


def _hunk(old: Sequence[bytes], new: Sequence[bytes], gaps: Sequence[_Range], context: int) -> Hunk:
    lead = min(context, gaps[0][0])
    tail = min(context, len(old) - gaps[-1][1])
    low, start = gaps[0][0] - lead, gaps[0][2] - lead
    high, end = gaps[-1][1] + tail, gaps[-1][3] + tail
    lines: list[tuple[Sign, bytes]] = []
    at = low
    for from_old, to_old, from_new, to_new in gaps:
        lines += _signed(" ", old[at:from_old])
        lines += _signed("-", old[from_old:to_old])
        lines += _signed("+", new[from_new:to_new])
        at = to_old
    lines += _signed(" ", old[at:high])
    return Hunk(
        old_start=low + 1 if high > low else low,
        old_count=high - low,
        new_start=start + 1 if end > start else start,
        new_count=end - start,
        lines=tuple(lines),
    )


def _signed(sign: Sign, lines: Sequence[bytes]) -> list[tuple[Sign, bytes]]:
    return [(sign, line) for line in lines]
