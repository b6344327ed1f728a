"""Positions in a live stream, and what a follower has of an event that is not recorded yet."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree.core.errors import InvalidOperation
from turntree.core.ids import RunId
from turntree.runs.live.stream import LiveChunk, LiveKind, PartialMessage, StreamPosition

RUN = RunId("run")
numbers = st.integers(0, 2**31)
positions = st.builds(StreamPosition, numbers, numbers, numbers)


@given(positions)
def test_a_position_is_read_back(position: StreamPosition) -> None:
    assert StreamPosition.parse(str(position)) == position


@pytest.mark.parametrize("text", ["", "1", "1.2", "1.2.3.4", "-1.0.0", "1.2.x", "1..2", "1.2.²"])
def test_what_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(InvalidOperation, match="not a stream position"):
        StreamPosition.parse(text)


def piece(seq: int, epoch: int, offset: int, text: str, kind: LiveKind = "text") -> LiveChunk:
    return LiveChunk(RUN, StreamPosition(seq, epoch, offset), kind, text)


def read(*pieces: LiveChunk) -> PartialMessage:
    partial = PartialMessage()
    for one in pieces:
        partial = partial.read(one)
    return partial


def test_pieces_add_up() -> None:
    assert read(piece(2, 1, 1, "four "), piece(2, 1, 2, "degrees")).text == "four degrees"


def test_a_piece_that_comes_twice_counts_once() -> None:
    first, second = piece(2, 1, 1, "a"), piece(2, 1, 2, "b")
    assert read(first, second, first, second).text == "ab"


def test_restart_discards_partial_text() -> None:
    again = piece(2, 1, 2, "", "restart")
    assert read(piece(2, 1, 1, "fo"), again, piece(2, 1, 3, "five")).text == "five"


def test_new_epoch_discards_partial_text() -> None:
    assert read(piece(2, 1, 9, "fo"), piece(2, 2, 1, "five")).text == "five"


def test_what_is_recorded_is_no_longer_partial() -> None:
    partial = read(piece(2, 1, 1, "four"))
    assert partial.recorded(1) == partial
    assert partial.recorded(2) == PartialMessage(StreamPosition(3))


def test_reasoning_is_not_part_of_text() -> None:
    assert read(piece(2, 1, 1, "hm", "reasoning"), piece(2, 1, 2, "four")).text == "four"
