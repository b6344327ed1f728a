"""The picture of the tree: random forests keep the rules, and one picture is pinned."""

import time
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree.core.ids import TurnId
from turntree.ledger.graph.layout import (
    ASCII,
    NO_PARENT,
    UNICODE,
    ElidedRow,
    Glyphs,
    LayoutNode,
    LayoutRow,
    TurnMark,
    condense,
    gutter,
    layout,
)


@st.composite
def forests(draw: st.DrawFn, turns_max: int = 40) -> list[LayoutNode]:
    n = draw(st.integers(1, turns_max))
    # A narrow reach gives long threads, a wide one bushes.
    reach = draw(st.integers(1, turns_max))
    return [
        LayoutNode(
            TurnId(f"t{index}"),
            draw(st.integers(max(NO_PARENT, index - reach), index - 1)),
            draw(st.booleans()),
        )
        for index in range(n)
    ]


@st.composite
def pinned_forests(draw: st.DrawFn) -> tuple[list[LayoutNode], list[int]]:
    forest = draw(forests())
    return forest, draw(st.lists(st.integers(0, len(forest) - 1), max_size=3))


def by_index(rows: Sequence[LayoutRow]) -> dict[int, LayoutRow]:
    return {row.index: row for row in rows}


def path(forest: Sequence[LayoutNode], index: int) -> list[int]:
    """Return the turns from the root to this one."""
    found = [index]
    while forest[found[-1]].parent != NO_PARENT:
        found.append(forest[found[-1]].parent)
    return found[::-1]


@given(pinned_forests())
def test_every_turn_has_one_row_above_its_parent(case: tuple[list[LayoutNode], list[int]]) -> None:
    forest, pinned = case
    rows = layout(forest, pinned)
    place = {row.index: number for number, row in enumerate(rows)}
    assert sorted(place) == list(range(len(forest)))
    for index, node in enumerate(forest):
        assert node.parent == NO_PARENT or place[index] < place[node.parent]
        assert rows[place[index]].spawn == node.spawn
        assert rows[place[index]].parent == node.parent


@given(pinned_forests())
def test_layout_subtree_is_contiguous(
    case: tuple[list[LayoutNode], list[int]],
) -> None:
    forest, pinned = case
    place = {row.index: number for number, row in enumerate(layout(forest, pinned))}
    for turn, number in place.items():
        block = [place[index] for index in place if turn in path(forest, index)]
        assert max(block) == number
        assert max(block) - min(block) == len(block) - 1


@given(pinned_forests())
def test_one_child_keeps_the_lane_and_the_others_open_the_next(
    case: tuple[list[LayoutNode], list[int]],
) -> None:
    forest, pinned = case
    rows = by_index(layout(forest, pinned))
    for index, row in rows.items():
        children = [child for child in rows.values() if child.parent == index]
        assert len(children) == row.children
        steps = sorted(child.lane - row.lane for child in children)
        assert steps == [0, *[1] * (len(children) - 1)][: len(children)]
        assert all(child.starts_branch == (child.lane > row.lane) for child in children)
        if row.parent == NO_PARENT:
            assert (row.lane, row.starts_branch) == (0, False)


@given(pinned_forests())
def test_lanes_are_few_however_many_branches(case: tuple[list[LayoutNode], list[int]]) -> None:
    forest, pinned = case
    bound = (len(forest)).bit_length() - 1 + len(set(pinned))
    for row in layout(forest, pinned):
        spawned = sum(forest[index].spawn for index in path(forest, row.index))
        assert row.lane <= bound + spawned


@given(pinned_forests())
def test_the_thread_of_the_first_pin_is_straight(case: tuple[list[LayoutNode], list[int]]) -> None:
    forest, pinned = case
    rows = by_index(layout(forest, pinned))
    if pinned:
        assert {rows[index].lane for index in path(forest, pinned[0])} == {0}


@given(pinned_forests())
def test_layout_draws_bar_only_where_lane_passes(
    case: tuple[list[LayoutNode], list[int]],
) -> None:
    """In every row and in each lane left of it, some turn above continues one below."""
    forest, pinned = case
    rows = layout(forest, pinned)
    place = {row.index: number for number, row in enumerate(rows)}
    passing: list[set[int]] = [set() for _ in rows]
    for row in rows:
        if row.parent != NO_PARENT and not row.starts_branch:
            for number in range(place[row.index] + 1, place[row.parent]):
                passing[number].add(row.lane)
    assert [sorted(lanes) for lanes in passing] == [list(range(row.lane)) for row in rows]


@given(pinned_forests(), st.integers(0, 40), st.integers(0, 40))
def test_layout_window_equals_part_of_full_layout(
    case: tuple[list[LayoutNode], list[int]], start: int, length: int
) -> None:
    rows = layout(*case)
    window = rows[start : start + length]
    whole = list(gutter(rows, UNICODE))
    first = next((n for n, line in enumerate(whole) if window and line.row is window[0]), 0)
    drawn = list(gutter(window, UNICODE))
    assert drawn == whole[first : first + len(drawn)]


@given(forests())
def test_layout_joins_below_turn_that_opened_lane(forest: list[LayoutNode]) -> None:
    lines = list(gutter(layout(forest), UNICODE))
    for above, below in pairwise(lines):
        if below.row is None:
            assert above.row is not None
            if above.row.starts_branch:
                join = UNICODE.spawn if above.row.spawn else UNICODE.fork
                assert below.gutter == "│ " * (above.row.lane - 1) + join
            else:
                assert above.row.spawn
                assert below.gutter == "│ " * above.row.lane + UNICODE.spawned
    joins = sum(line.row is None for line in lines)
    assert joins == sum(row.starts_branch or row.spawn for row in layout(forest))


@given(forests(), st.sets(st.integers(0, 40)))
def test_condensing_loses_no_turn_and_no_fork(forest: list[LayoutNode], kept: set[int]) -> None:
    rows = layout(forest)
    condensed = list(condense(rows, kept.__contains__))
    assert sum(row.turns if isinstance(row, ElidedRow) else 1 for row in condensed) == len(forest)
    shown = {row.index for row in condensed if isinstance(row, LayoutRow)}
    assert shown >= {
        row.index
        for row in rows
        if row.children != 1 or row.parent == NO_PARENT or row.spawn or row.index in kept
    }
    for row in condensed:
        if isinstance(row, ElidedRow):
            thread = path(forest, row.newest)
            run = thread[thread.index(row.oldest) :]
            assert len(run) == row.turns >= 2
            assert not kept & set(run)
    joins = [row.lane for row in rows if row.starts_branch]
    assert [row.lane for row in condensed if row.starts_branch] == joins


def test_a_complete_binary_tree_is_the_widest() -> None:
    forest = [
        LayoutNode(TurnId(str(n)), (n - 1) // 2 if n else NO_PARENT) for n in range(2**10 - 1)
    ]
    assert max(row.lane for row in layout(forest)) == 9


def test_the_branch_that_was_opened_first_is_nearest_its_fork() -> None:
    forest = [LayoutNode(TurnId("root"), NO_PARENT)]
    forest += [LayoutNode(TurnId(f"t{n}"), 0) for n in range(4)]
    assert [row.index for row in layout(forest, pinned=[2])] == [2, 4, 3, 1, 0]


def test_layout_second_pinned_thread_leaves_first_in_its_lane() -> None:
    forest = [
        LayoutNode(TurnId("root"), NO_PARENT),
        LayoutNode(TurnId("first"), 0),
        LayoutNode(TurnId("second"), 0),
        LayoutNode(TurnId("second's head"), 2),
        LayoutNode(TurnId("other"), 2),
        LayoutNode(TurnId("other's head"), 4),
    ]
    lanes = {row.index: row.lane for row in layout(forest, pinned=[1, 3])}
    assert lanes == {0: 0, 1: 0, 2: 1, 3: 1, 4: 2, 5: 2}


def test_no_turns_make_no_rows() -> None:
    assert layout([]) == []
    assert list(gutter([], UNICODE)) == []


@pytest.mark.slow
def test_a_hundred_thousand_turns_are_laid_out_as_fast_as_they_are_made() -> None:
    began = time.process_time()
    random = Random(7)
    heads = [0]
    forest = [LayoutNode(TurnId("t0"), NO_PARENT)]
    for index in range(1, 100_000):
        head = random.randrange(max(0, len(heads) - 60), len(heads))
        forest.append(LayoutNode(TurnId(f"t{index}"), heads[head]))
        if random.random() < 0.05:
            heads.append(index)
        else:
            heads[head] = index
    started = time.process_time()
    rows = layout(forest, pinned=[len(forest) - 1])
    took_s = time.process_time() - started
    assert max(row.lane for row in rows) <= 17
    # About 2.5 times the loop above on any machine, busy or not: seconds would judge the machine.
    assert took_s < 6 * (started - began)


@pytest.mark.slow
def test_a_thread_deeper_than_any_stack_is_drawn() -> None:
    forest = [LayoutNode(TurnId(str(n)), n - 1) for n in range(50_000)]
    rows = layout(forest)
    assert {row.lane for row in rows} == {0}
    shapes = [type(row) for row in condense(rows, lambda _: False)]
    assert shapes == [LayoutRow, ElidedRow, LayoutRow]


# Id, parent, what the line says. Four turns nobody labelled lead to "Try a middleware".
SAMPLE = {
    "4be2a917": (None, "Why does login drop the query string?"),
    "90aa17f3": ("4be2a917", "Add a failing test for the redirect"),
    "0c1": ("90aa17f3", ""),
    "0c2": ("0c1", ""),
    "0c3": ("0c2", ""),
    "0c4": ("0c3", ""),
    "c41d7b20": ("90aa17f3", "Fix it in the resolver"),
    "1d40c9ee": ("c41d7b20", "(fix-login-opus) Now the same for SSO"),
    "77c1d0e4": ("90aa17f3", "compaction: 38 turns summarised"),
    "aa09be11": ("0c4", "Try a middleware instead"),
    "5f3e0c77": ("77c1d0e4", "Check every caller of redirect()"),
    "b0c6e2aa": ("5f3e0c77", "scan src/ for redirect("),
    "d7a1f904": ("b0c6e2aa", "(worker-1) report: two more callers are wrong"),
    "e9177ac0": ("5f3e0c77", "(HEAD -> fix-login) Fix it in the resolver"),
}
IDS = list(SAMPLE)
MARKS = {"1d40c9ee": TurnMark.FAILED, "77c1d0e4": TurnMark.COMPACTION, "e9177ac0": TurnMark.LIVE}
PICTURE = """\
◉  e9177ac0 (HEAD -> fix-login) Fix it in the resolver
│ ○  d7a1f904 (worker-1) report: two more callers are wrong
│ ●  b0c6e2aa scan src/ for redirect(
├╌╯
●  5f3e0c77 Check every caller of redirect()
◆  77c1d0e4 compaction: 38 turns summarised
│ ×  1d40c9ee (fix-login-opus) Now the same for SSO
│ ●  c41d7b20 Fix it in the resolver
├─╯
│ ○  aa09be11 Try a middleware instead
│ ┊  (4 turns)
├─╯
●  90aa17f3 Add a failing test for the redirect
●  4be2a917 Why does login drop the query string?
"""
PICTURE_IN_ASCII = """\
@  e9177ac0 (HEAD -> fix-login) Fix it in the resolver
| o  d7a1f904 (worker-1) report: two more callers are wrong
| *  b0c6e2aa scan src/ for redirect(
|~'
*  5f3e0c77 Check every caller of redirect()
#  77c1d0e4 compaction: 38 turns summarised
| x  1d40c9ee (fix-login-opus) Now the same for SSO
| *  c41d7b20 Fix it in the resolver
|-'
| o  aa09be11 Try a middleware instead
| :  (4 turns)
|-'
*  90aa17f3 Add a failing test for the redirect
*  4be2a917 Why does login drop the query string?
"""


@pytest.mark.parametrize(
    ("glyphs", "picture"), [(UNICODE, PICTURE), (ASCII, PICTURE_IN_ASCII)], ids=["unicode", "ascii"]
)
def test_layout_picture_is_stable(glyphs: Glyphs, picture: str) -> None:
    assert draw(glyphs) == picture


def draw(glyphs: Glyphs) -> str:
    forest = [
        LayoutNode(TurnId(id), NO_PARENT if parent is None else IDS.index(parent), id == "b0c6e2aa")
        for id, (parent, _) in SAMPLE.items()
    ]
    rows = condense(layout(forest, pinned=[IDS.index("e9177ac0")]), must_stay=has_words)
    drawn = ""
    for line in gutter(rows, glyphs, mark_of):
        match line.row:
            case None:
                drawn += f"{line.gutter}\n"
            case ElidedRow(turns=turns):
                drawn += f"{line.gutter}  ({turns} turns)\n"
            case LayoutRow(index=index):
                drawn += f"{line.gutter}  {IDS[index]} {SAMPLE[IDS[index]][1]}\n"
    return drawn


def has_words(index: int) -> bool:
    return SAMPLE[IDS[index]][1] != ""


def mark_of(row: LayoutRow) -> TurnMark:
    return MARKS.get(IDS[row.index], TurnMark.TURN if row.children else TurnMark.HEAD)
