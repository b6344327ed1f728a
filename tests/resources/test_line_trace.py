"""Lines: what stayed between two texts, and which version of many wrote each."""

from collections.abc import Sequence
from difflib import unified_diff

from hypothesis import given
from hypothesis import strategies as st

from turntree.resources.line_diff import (
    EDITS_MAX,
    Same,
    hunks_of,
    is_binary,
    match_lines,
    split_lines,
)
from turntree.resources.line_trace import find_likeness, trace_lines

# Few different lines, so that most of them stand several times.
LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"}\n", b"\n", b"c\n", b"dd\n"]), max_size=30)
TEXTS = st.lists(LINES, min_size=1, max_size=6)


def count_lines(old: Sequence[bytes], new: Sequence[bytes]) -> tuple[int, int]:
    stayed = sum(same.length for same in match_lines(old, new))
    return len(new) - stayed, len(old) - stayed


@given(LINES, LINES)
def test_what_stayed_stands_in_both_in_the_same_order(old: list[bytes], new: list[bytes]) -> None:
    at_old = at_new = 0
    for same in match_lines(old, new):
        assert same.length > 0
        assert same.old >= at_old
        assert same.new >= at_new
        assert old[same.old : same.old + same.length] == new[same.new : same.new + same.length]
        at_old, at_new = same.old + same.length, same.new + same.length


@given(LINES, LINES)
def test_hunks_lead_from_the_old_text_to_the_new(old: list[bytes], new: list[bytes]) -> None:
    built, at = list[bytes](), 0
    for hunk in hunks_of(old, new):
        start = hunk.old_start - 1 if hunk.old_count else hunk.old_start
        built += old[at:start]
        taken = [line for sign, line in hunk.lines if sign != "+"]
        put = [line for sign, line in hunk.lines if sign != "-"]
        assert taken == old[start : start + hunk.old_count]
        assert len(put) == hunk.new_count
        assert len(built) == (hunk.new_start - 1 if hunk.new_count else hunk.new_start)
        built += put
        at = start + hunk.old_count
    assert built + old[at:] == new


@given(LINES, st.data())
def test_without_pillars_the_fewest_edits_are_found(old: list[bytes], data: st.DataObject) -> None:
    # Every line twice in a row: none of them can be a pillar.
    old = [line for line in old for _ in range(2)]
    new = list(old)
    for _ in range(data.draw(st.integers(0, 3))):
        if new:
            new.pop(data.draw(st.integers(0, len(new) - 1)))
    added, removed = count_lines(old, new)
    assert removed - added == len(old) - len(new)
    assert added + removed <= longest_common(old, new)[1]


@given(LINES)
def test_equal_texts_do_not_differ(lines: list[bytes]) -> None:
    assert hunks_of(lines, lines) == []
    assert match_lines(lines, lines) == ([Same(0, 0, len(lines))] if lines else [])


@given(LINES, LINES)
def test_counting_agrees_with_the_hunks(old: list[bytes], new: list[bytes]) -> None:
    signs = [sign for hunk in hunks_of(old, new) for sign, _ in hunk.lines]
    assert count_lines(old, new) == (signs.count("+"), signs.count("-"))


def test_hunks_look_as_everybody_knows_them() -> None:
    old = [b"%d\n" % n for n in range(40)]
    new = [*old[:5], b"five\n", *old[6:20], *old[21:], b"forty\n"]
    told = [
        f"@@ -{h.old_start},{h.old_count} +{h.new_start},{h.new_count} @@"
        for h in hunks_of(old, new)
    ]
    texts = [[line.decode() for line in side] for side in (old, new)]
    assert told == [
        line.strip() for line in unified_diff(texts[0], texts[1]) if line.startswith("@@")
    ]


def test_a_rewritten_stretch_is_not_searched_for_ever() -> None:
    old = [b"x%d\n" % (n % 7) for n in range(20 * EDITS_MAX)]
    new = [b"x%d\n" % (n * n % 5) for n in range(20 * EDITS_MAX)]
    added, removed = count_lines(old, new)
    assert added - removed == len(new) - len(old)


def test_a_last_line_without_its_end_is_another_line() -> None:
    assert split_lines(b"a\r\nb\rc\n\nd") == [b"a\r\n", b"b\rc\n", b"\n", b"d"]
    assert split_lines(b"") == []
    assert count_lines(split_lines(b"a\n"), split_lines(b"a")) == (1, 1)


def test_bytes_with_a_zero_are_no_text() -> None:
    assert is_binary(b"\x89PNG\0")
    assert not is_binary("grün\n".encode())


@given(TEXTS)
def test_a_line_has_stayed_since_the_version_that_wrote_it(versions: list[list[bytes]]) -> None:
    writers = trace_lines(versions)
    assert len(writers) == len(versions[-1])
    for line, writer in zip(versions[-1], writers, strict=True):
        assert all(line in version for version in versions[writer:])


@given(TEXTS)
def test_what_stood_nowhere_before_belongs_to_the_newest(versions: list[list[bytes]]) -> None:
    marked = [*versions[:-1], [b"new " + line for line in versions[-1]]]
    assert set(trace_lines(marked)) <= {len(marked) - 1}


@given(TEXTS, st.integers(0, 5))
def test_a_version_that_changes_nothing_writes_nothing(
    versions: list[list[bytes]], place: int
) -> None:
    place = min(place, len(versions) - 1)
    doubled = [*versions[: place + 1], *versions[place:]]
    writers = [writer - (writer > place) for writer in trace_lines(doubled)]
    assert writers == trace_lines(versions)
    assert place + 1 not in trace_lines(doubled)


@given(LINES, LINES)
def test_lines_before_and_behind_keep_their_writer(old: list[bytes], new: list[bytes]) -> None:
    framed = [[b"first\n", *old, b"last\n"], [b"first\n", *new, b"last\n"]]
    writers = trace_lines(framed)
    assert (writers[0], writers[-1]) == (0, 0)


def test_a_text_that_was_away_is_written_anew() -> None:
    assert trace_lines([[b"a\n"], [], [b"a\n"]]) == [2]
    assert trace_lines([]) == []


def test_what_somebody_brought_back_keeps_its_writers() -> None:
    versions = [[b"a\n"], [b"a\n", b"b\n"], [b"z\n"], [b"a\n", b"b\n"]]
    assert trace_lines(versions) == [3, 3]
    assert trace_lines(versions, returns={3}) == [0, 1]
    assert trace_lines([*versions, [b"a\n", b"b\n", b"c\n"]], returns={3}) == [0, 1, 4]


def test_a_moved_text_is_known_by_what_it_says() -> None:
    text = [b"def add(a, b):\n", b"    return a + b\n", b"\n", b"# new\n"]
    others = [[b"\n", b"}\n"], text[:3], [b"def add(a, b):\n", b"    return 0\n"]]
    assert find_likeness(text, others) == 1
    assert find_likeness(text, others[:1]) is None
    assert find_likeness([], [[]]) is None


def longest_common(old: list[bytes], new: list[bytes]) -> tuple[int, int]:
    """Return the longest common subsequence's length, and the fewest edits."""
    row = [0] * (len(new) + 1)
    for line in old:
        last = 0
        for place, other in enumerate(new, start=1):
            last, row[place] = (
                row[place],
                last + 1 if line == other else max(row[place], row[place - 1]),
            )
    return row[-1], len(old) + len(new) - 2 * row[-1]
