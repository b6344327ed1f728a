"""Sessions: what an undo takes back."""

from hypothesis import given
from hypothesis import strategies as st

from turntree.core.ids import SessionId, Timestamp, TurnId
from turntree.core.session import MoveKind, SessionMove, undo_target

SESSION = SessionId("01a0c3a8-2001-7000-8000-000000000001")
NOON = Timestamp("2026-09-21T12:00:00.000Z")


def reflog(kinds: list[MoveKind]) -> list[SessionMove]:
    """Return the reflog of a session that made these moves, each to a turn of its own."""
    moves: list[SessionMove] = []
    head: TurnId | None = None
    for version, kind in enumerate(kinds, start=1):
        if kind == "undo":
            target = undo_target(moves)
            if target is None:
                continue
            after = target.before
        else:
            after = None if kind == "create" else TurnId(f"turn {version}")
        moves.append(SessionMove(SESSION, version, kind, head, after, NOON, "human:ana"))
        head = after
    return moves


beginnings: st.SearchStrategy[MoveKind] = st.sampled_from(("create", "fork"))
later: st.SearchStrategy[MoveKind] = st.sampled_from(("advance", "rewind", "reset", "undo"))


@given(beginnings, st.lists(later, max_size=30))
def test_undo_is_a_stack(begins: MoveKind, kinds: list[MoveKind]) -> None:
    moves = reflog([begins, *kinds])
    stack: list[SessionMove] = []
    for move in moves[1:]:
        if move.kind == "undo":
            assert stack.pop().before == move.after
        else:
            stack.append(move)
    assert undo_target(moves) == (stack[-1] if stack else None)


@given(beginnings, st.lists(later, max_size=10))
def test_undoing_everything_returns_to_start(begins: MoveKind, kinds: list[MoveKind]) -> None:
    undos: list[MoveKind] = ["undo" for _ in kinds]
    moves = reflog([begins, *kinds, *undos])
    assert undo_target(moves) is None
    assert moves[-1].after == moves[0].after


def test_undo_target_of_session_creation_is_none() -> None:
    assert undo_target([]) is None
    assert undo_target(reflog(["create"])) is None
    assert undo_target(reflog(["fork"])) is None


def test_undoing_twice_goes_back_two_moves() -> None:
    moves = reflog(["create", "advance", "advance", "undo"])
    target = undo_target(moves)
    assert target is not None
    assert (target.version, target.before) == (2, None)


def test_a_move_after_an_undo_is_undone_first() -> None:
    moves = reflog(["create", "advance", "advance", "undo", "reset"])
    assert undo_target(moves) == moves[-1]
