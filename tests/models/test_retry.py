"""Which failures are worth another attempt, and after how long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turntree.core.errors import Failure
from turntree.models.retry import ATTEMPTS_MAX, PAUSE_MAX_S, RETRY_AFTER_MAX_S, find_pause

kinds = st.sampled_from(sorted(ATTEMPTS_MAX))
chances = st.floats(0, 1)


@pytest.mark.parametrize("kind", ["too_long", "refused", "denied"])
def test_what_waiting_cannot_change_is_not_tried_again(kind: Failure) -> None:
    assert find_pause(kind, 1, retry_after_s=1.0, chance=0.5) is None


@given(kinds, chances)
def test_every_kind_ends(kind: Failure, chance: float) -> None:
    assert find_pause(kind, ATTEMPTS_MAX[kind], retry_after_s=None, chance=chance) is None


@given(st.integers(1, 5), st.floats(0, RETRY_AFTER_MAX_S), chances)
def test_retry_never_comes_before_requested_delay(
    attempt: int, after: float, chance: float
) -> None:
    pause = find_pause("rate_limited", attempt, retry_after_s=after, chance=chance)
    assert pause is not None
    assert pause >= after


def test_retry_delay_that_is_too_long_is_not_awaited() -> None:
    assert find_pause("rate_limited", 1, retry_after_s=86_400.0, chance=0.0) is None


def test_pauses_double_and_are_spread() -> None:
    pauses = [find_pause("overloaded", n, retry_after_s=None, chance=1.0) for n in range(1, 6)]
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert find_pause("overloaded", 1, retry_after_s=None, chance=0.0) == 0.25


@given(kinds, st.integers(1, 5), chances)
def test_no_pause_is_endless(kind: Failure, attempt: int, chance: float) -> None:
    pause = find_pause(kind, attempt, retry_after_s=None, chance=chance)
    assert pause is None or 0 <= pause <= PAUSE_MAX_S
