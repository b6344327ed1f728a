"""Who left a place in which state: one turn, somebody else, or nobody can tell."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from turntree.core.ids import Timestamp, TurnId, instant
from turntree.core.ref import ExtRef
from turntree.resources.file_history import ChangeAuthor, TurnInterval, list_steps

A, B, C = TurnId("a"), TurnId("b"), TurnId("c")


def state(name: int) -> ExtRef:
    return ExtRef("shadow-tree", f"sha256:{name:064}")


def stay(turn: TurnId, began: int, ended: int, before: int | None, after: int) -> TurnInterval:
    found = None if before is None else state(before)
    return TurnInterval(turn, instant(began), instant(ended), found, state(after))


def told(stays: list[TurnInterval], *naming: TurnId) -> list[tuple[int, str, tuple[TurnId, ...]]]:
    found = [(step, step.writer(lambda turn: turn in naming)) for step in list_steps(stays)]
    return [(int(step.state.id[7:]), by.kind, by.turns) for step, by in found]


def test_what_changed_during_a_turn_is_its_own() -> None:
    stays = [stay(A, 10, 20, 1, 2), stay(B, 30, 40, 2, 3)]
    assert told(stays) == [(1, "earlier", ()), (2, "turn", (A,)), (3, "turn", (B,))]


def test_what_changed_between_two_turns_is_nobodys() -> None:
    stays = [stay(A, 10, 20, 1, 2), stay(B, 30, 40, 7, 8)]
    assert told(stays)[2] == (7, "outside", (A,))


def test_a_turn_that_begins_as_another_ends_is_not_at_work_with_it() -> None:
    stays = [stay(A, 10, 20, 1, 2), stay(B, 20, 30, 2, 3), stay(C, 30, 30, 3, 4)]
    assert [kind for _, kind, _ in told(stays)] == ["earlier", "turn", "turn", "turn"]


def test_of_two_at_work_the_one_that_says_so_wrote_it() -> None:
    stays = [stay(A, 10, 40, 1, 4), stay(B, 20, 30, 2, 3)]
    assert told(stays) == [
        (1, "earlier", ()), (2, "turn", (A,)), (3, "mixed", (A, B)), (4, "turn", (A,))
    ]  # fmt: skip
    assert told(stays, B)[2] == (3, "turn", (B,))
    assert told(stays, A, B)[2] == (3, "mixed", (A, B))


def test_where_nobody_looked_as_a_turn_began_nobody_can_tell() -> None:
    stays = [stay(A, 10, 20, 1, 2), stay(B, 30, 40, None, 3)]
    assert told(stays)[2] == (3, "mixed", (B,))
    assert told(stays, B)[2] == (3, "turn", (B,))


def test_a_place_without_turns_has_no_states() -> None:
    assert list_steps([]) == []
    assert told([stay(A, 10, 20, None, 1)]) == [(1, "earlier", ())]


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 3), st.integers(0, 3)),
        max_size=6,
    )
)
def test_every_change_has_somebody_who_was_there(rows: list[tuple[int, int, int, int]]) -> None:
    stays = [
        stay(TurnId(str(n)), min(a, b), max(a, b), before or None, after)
        for n, (a, b, before, after) in enumerate(rows)
    ]
    steps = list_steps(stays)
    assert [step.at for step in steps] == sorted(step.at for step in steps)
    for step in steps:
        at: Timestamp = step.at
        for turn in step.active:
            own = stays[int(turn)]
            assert own.began_at <= at <= own.ended_at
    assert all(a.state != b.state for a, b in pairwise(steps))
    assert ChangeAuthor("earlier") in [s.writer(lambda _: False) for s in steps[:1]] or not stays
