"""Follow every line of a folder through its states, across files, to the state that wrote it.

Git brings lines back: a checkout, a rebase or a merge writes what was written before, and the file
that results may equal none that a turn left. So a line is remembered after it is gone. When it
returns, in its file or in another one, it still belongs to the state that wrote it.

A formatter writes nothing either: a line counts as the same if only its spaces, its quotes or a
last comma differ, or if its words were distributed over other lines.

Pure: a state is the lines of its changed files, and the caller knows who wrote which state.
"""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from turntree.resources.line_diff import Same, match_lines

ALIKE_SHARE_MIN: Final = 0.5
"""Share of two texts that must match for one to count as a version of the other."""
VERSIONS_COMPARED_MAX: Final = 8
"""How many versions of a file are compared closely with the one that is asked about."""
SEED_BYTES_MIN: Final = 8
"""A shorter line is written again and again, so that it does not show where it comes from."""
REFLOW_LINES_MAX: Final = 80
"""How many lines a formatter may make of one, or one of how many."""
BEFORE: Final = -1
"""The state that wrote the lines which were there before the first state that was read."""

WORDS_SHARE_MIN: Final = 0.6
"""Texts of one author share more words than lines, so that more of them have to match."""
WORDS_COMPARED_MAX: Final = 200

_WORD: Final = re.compile(rb"[A-Za-z0-9_\x80-\xff]+")
_QUOTES: Final = bytes.maketrans(b"'`", b'""')
_LAYOUT: Final = re.compile(rb"[\s,;()\\]+")
"""What a formatter adds or removes when it breaks or joins lines."""


class LineOrigin(NamedTuple):
    """The state that wrote a line, and the file that it was in then."""

    state: int
    path: str


class _FileLines:
    """The lines of a file in one state; a line that stays or returns keeps its number."""

    __slots__ = ("counts", "keys", "lines", "path")

    def __init__(self, path: str, keys: Sequence[bytes], lines: Sequence[int]) -> None:
        self.path, self.keys, self.lines = path, keys, lines
        self.counts = Counter(keys)


class LineOrigins:
    """Every line that a folder has had since its first state."""

    def __init__(self) -> None:
        """Begin before the first state."""
        self._now = dict[str, _FileLines]()
        self._versions = dict[str, list[_FileLines]]()
        self._origins = list[LineOrigin]()
        self._last_seen = list[tuple[_FileLines, int]]()
        """For each line, the last version that has it, and where."""
        self._by_key = dict[bytes, list[int]]()
        self._present = set[int]()

    def knows(self, path: str) -> bool:
        """Return whether a file is known in any state."""
        return path in self._versions

    def is_current(self, path: str) -> bool:
        """Return whether the lines of a file are known in the newest state."""
        return path in self._now

    def begin(self, path: str, text: Sequence[bytes]) -> None:
        """Learn of a file that was there before the first state and has not changed since."""
        keys = [_key(line) for line in text]
        self._put(path, keys, [self._new(LineOrigin(BEFORE, path), key) for key in keys])

    def advance(self, state: int, changes: Mapping[str, Sequence[bytes] | None]) -> None:
        """Go on to the next state: the files that changed, None for those that are gone."""
        before = {path: self._now.pop(path) for path in changes if path in self._now}
        for version in before.values():
            self._present.difference_update(version.lines)

        def is_free(line: int) -> bool:
            return line not in self._present

        tracers = list[_Tracer]()
        for path, text in changes.items():
            if text is None:
                continue
            tracer = _Tracer(path, text, self._origins)
            base = self._find_version(tracer, before.get(path)) or self._find_base(tracer, is_free)
            if base is not None:
                tracer.follow(base, self._present)
            self._present.update(tracer.used)
            tracers.append(tracer)
        # Lines that moved from one file to another are free only when all files are compared.
        for tracer in tracers:
            self._claim(tracer, is_free)
            self._present.update(tracer.used)
        for tracer in tracers:
            lines = [
                self._new(origin or LineOrigin(state, tracer.path), key) if line is None else line
                for key, line, origin in zip(tracer.keys, tracer.lines, tracer.origins, strict=True)
            ]
            self._put(tracer.path, tracer.keys, lines)

    def trace(
        self,
        files: Mapping[str, Sequence[bytes]],
        read: Callable[[str], Sequence[bytes]],
    ) -> dict[str, list[LineOrigin | None]]:
        """Return the origin of each line of some files, which need not equal any known state.

        None means that no state has the line. ``read`` returns the lines of another file that
        stands beside them: what is still in its place there did not move.
        """
        used, elsewhere = set[int](), dict[str, Counter[bytes]]()

        def is_free(line: int) -> bool:
            if line in used:
                return False
            version, place = self._last_seen[line]
            if version.path in files:
                return True
            if version.path not in elsewhere:
                elsewhere[version.path] = Counter(map(_key, read(version.path)))
            return not elsewhere[version.path][version.keys[place]]

        tracers = [_Tracer(path, text, self._origins) for path, text in files.items()]
        for tracer in tracers:
            base = self._find_version(tracer) or self._find_base(tracer, is_free)
            if base is not None:
                tracer.follow(base, used)
                used |= tracer.used
        for tracer in tracers:
            self._claim(tracer, is_free)
            used |= tracer.used
        return {
            tracer.path: [
                origin if line is None else self._origins[line]
                for line, origin in zip(tracer.lines, tracer.origins, strict=True)
            ]
            for tracer in tracers
        }

    def _new(self, origin: LineOrigin, key: bytes) -> int:
        line = len(self._origins)
        self._origins.append(origin)
        self._by_key.setdefault(key, []).append(line)
        return line

    def _put(self, path: str, keys: Sequence[bytes], lines: Sequence[int]) -> None:
        version = _FileLines(path, keys, lines)
        self._now[path] = version
        self._versions.setdefault(path, []).append(version)
        self._present.update(lines)
        # New lines come in the order of their numbers, so the list grows by one at a time.
        self._last_seen += [(version, 0)] * (len(self._origins) - len(self._last_seen))
        for place, line in enumerate(lines):
            self._last_seen[line] = version, place

    def _find_version(
        self, tracer: "_Tracer", current: _FileLines | None = None
    ) -> _FileLines | None:
        """Return the version of the same file that a text is most similar to.

        An older one than the current version has to be closer: git put it back.
        """
        counts = Counter(tracer.keys)
        # The lines that two texts share in any order are a bound for those in the same order.
        least = -1 if current is None else _weigh(counts & current.counts)
        bounds = [
            (_weigh(counts & version.counts), place)
            for place, version in enumerate(self._versions.get(tracer.path, ()))
        ]
        ranked = sorted((one for one in bounds if one[0] > least), reverse=True)
        versions = [
            self._versions[tracer.path][place] for _, place in ranked[:VERSIONS_COMPARED_MAX]
        ]
        found = _choose(tracer.keys, [*([] if current is None else [current]), *versions])
        # A formatter may have changed nearly every line and no word.
        return (
            found or current or _choose_by_words(tracer.keys, self._versions.get(tracer.path, ()))
        )

    def _find_base(self, tracer: "_Tracer", is_free: Callable[[int], bool]) -> _FileLines | None:
        """Return a version of any file that a text continues: it was moved, or came back."""
        votes = Counter[int]()
        versions = dict[int, _FileLines]()
        for key, times in Counter(tracer.keys).items():
            if len(key) < SEED_BYTES_MIN:
                continue
            for line in self._by_key.get(key, ()):
                if is_free(line):
                    version = self._last_seen[line][0]
                    versions[id(version)] = version
                    votes[id(version)] += len(key) * times
        near = [versions[one] for one, _ in votes.most_common(VERSIONS_COMPARED_MAX)]
        return _choose(tracer.keys, near)

    def _claim(self, tracer: "_Tracer", is_free: Callable[[int], bool]) -> None:
        """Find lines that are in no version around them: they moved, or came back alone.

        Only a line that was written once shows where a block comes from. The lines around it follow
        if they stood around it there.
        """
        for place, key in enumerate(tracer.keys):
            if tracer.is_known(place) or len(key) < SEED_BYTES_MIN:
                continue
            known = self._by_key.get(key, ())
            if len(known) == 1 and is_free(known[0]):
                self._claim_block(tracer, place, known[0], is_free)

    def _claim_block(
        self, tracer: "_Tracer", place: int, seed: int, is_free: Callable[[int], bool]
    ) -> None:
        version, home = self._last_seen[seed]
        tracer.take(place, seed)
        for way in (1, -1):
            here, there = place + way, home + way
            while 0 <= here < len(tracer.keys) and 0 <= there < len(version.keys):
                line = version.lines[there]
                is_same = tracer.keys[here] == version.keys[there] and not tracer.is_known(here)
                if not is_same or line in tracer.used or not is_free(line):
                    break
                tracer.take(here, line)
                here, there = here + way, there + way


class _Tracer:
    """Finds out, line by line, which known lines a text consists of."""

    def __init__(self, path: str, text: Sequence[bytes], known: Sequence[LineOrigin]) -> None:
        self.path = path
        self.keys = [_key(line) for line in text]
        self.lines: list[int | None] = [None] * len(text)
        self.origins: list[LineOrigin | None] = [None] * len(text)
        """Of lines that a formatter made from others."""
        self.used = set[int]()
        self._known = known

    def is_known(self, place: int) -> bool:
        return self.lines[place] is not None or self.origins[place] is not None

    def take(self, place: int, line: int) -> None:
        self.lines[place] = line
        self.used.add(line)

    def follow(self, base: _FileLines, taken: Collection[int]) -> None:
        """Take the lines of a version that stayed, and those that were only formatted."""
        stayed = match_lines(base.keys, self.keys)
        for same in stayed:
            for step in range(same.length):
                line = base.lines[same.old + step]
                if line not in taken:
                    self.take(same.new + step, line)
        edges = [Same(0, 0, 0), *stayed, Same(len(base.keys), len(self.keys), 0)]
        for above, below in pairwise(edges):
            old = range(above.old + above.length, below.old)
            new = range(above.new + above.length, below.new)
            for olds, news in _list_reflows(base.keys, old, self.keys, new):
                lines = [base.lines[place] for place in olds if base.lines[place] not in taken]
                if not lines:
                    continue
                # Of several lines that were joined, the newest made the line what it is.
                origin = max(self._known[line] for line in lines)
                self.used.update(lines)
                for place in news:
                    self.origins[place] = origin


def _key(line: bytes) -> bytes:
    """Return what of a line counts: a formatter changes the rest and no word."""
    return b"".join(line.translate(_QUOTES).split()).rstrip(b",;\\")


def _list_reflows(
    old: Sequence[bytes], olds: range, new: Sequence[bytes], news: range
) -> Iterator[tuple[range, range]]:
    """Yield the lines that hold the same words as others, distributed differently."""
    start = news.start
    place = olds.start
    while place < olds.stop:
        for at in range(start, news.stop):
            group = _find_reflow(old, place, olds.stop, new, at, news.stop)
            if group is not None:
                yield range(place, group[0]), range(at, group[1])
                place, start = group[0] - 1, group[1]
                break
        place += 1


def _find_reflow(
    old: Sequence[bytes], place: int, old_end: int, new: Sequence[bytes], at: int, new_end: int
) -> tuple[int, int] | None:
    """Return where two groups of lines end that begin here and have the same words."""
    left, right = _words(old[place]), _words(new[at])
    if not left or not right:
        return None
    first, begin = place, at
    place, at = place + 1, at + 1
    while left != right:
        is_longer = len(left) > len(right)
        longer, shorter = (left, right) if is_longer else (right, left)
        if not longer.startswith(shorter) or place - first + at - begin > REFLOW_LINES_MAX:
            return None
        if is_longer and at < new_end:
            right, at = right + _words(new[at]), at + 1
        elif not is_longer and place < old_end:
            left, place = left + _words(old[place]), place + 1
        else:
            return None
    # What is left of a line when all of its words are on others: a bracket alone.
    while at < new_end and new[at] and not _words(new[at]):
        at += 1
    while place < old_end and old[place] and not _words(old[place]):
        place += 1
    # A bracket more or less in one line is a change; in several it is what a break needs.
    return None if (place - first, at - begin) == (1, 1) else (place, at)


def _words(key: bytes) -> bytes:
    return _LAYOUT.sub(b"", key)


def _choose(keys: Sequence[bytes], versions: Sequence[_FileLines]) -> _FileLines | None:
    """Return the version that shares most with a text, or None if none shares enough."""
    total = sum(map(len, keys))
    best: tuple[float, _FileLines] | None = None
    for version in versions:
        longer = max(total, sum(map(len, version.keys)))
        stayed = sum(
            len(keys[place])
            for same in match_lines(version.keys, keys)
            for place in range(same.new, same.new + same.length)
        )
        share = stayed / longer if longer else 0.0
        if share >= ALIKE_SHARE_MIN and (best is None or share > best[0]):
            best = share, version
    return None if best is None else best[1]


def _choose_by_words(keys: Sequence[bytes], versions: Sequence[_FileLines]) -> _FileLines | None:
    """Return the version that shares most words with a text, or None if none shares enough."""
    words = _count_words(keys)
    best: tuple[float, _FileLines] | None = None
    for version in versions[-WORDS_COMPARED_MAX:]:
        others = _count_words(version.keys)
        longer = max(_weigh(words), _weigh(others))
        share = _weigh(words & others) / longer if longer else 0.0
        if share >= WORDS_SHARE_MIN and (best is None or share >= best[0]):
            best = share, version
    return None if best is None else best[1]


def _count_words(keys: Sequence[bytes]) -> Counter[bytes]:
    return Counter(word for key in keys for word in _WORD.findall(key))


def _weigh(keys: Counter[bytes]) -> int:
    return sum(len(key) * times for key, times in keys.items())
