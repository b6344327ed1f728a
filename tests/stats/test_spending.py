"""Spending: sums, steps of time, and prices that nobody knows."""

from decimal import Decimal

import pytest

from turntree.core.ids import Timestamp
from turntree.core.usage import Usage
from turntree.stats.spending import Spending, Step, group, over_time, step_of, steps_of, sum_of


def spent(day: str, tokens: int, *, cost: str | None = "1", model: str = "m") -> Spending:
    known = None if cost is None else Decimal(cost)
    return Spending(day, "a", model, None, 1, Usage(input=tokens), cost=known)


def test_an_unknown_price_is_not_nothing() -> None:
    total = sum_of([spent("2026-01-01", 5, cost="0.5"), spent("2026-01-01", 7, cost=None)])
    assert (total.calls, total.cost) == (2, Decimal("0.5"))
    assert (total.calls_unpriced, total.tokens_unpriced) == (1, 7)


def test_the_largest_group_comes_first() -> None:
    rows = [spent("2026-01-01", 5), spent("2026-01-02", 9, model="n"), spent("2026-01-03", 1)]
    assert list(group(rows, "model")) == [("n",), ("m",)]
    assert list(group(rows, None)) == [("a", "n"), ("a", "m")]
    assert list(group(rows, "session")) == [("(in no session)",)]


@pytest.mark.parametrize(
    ("last", "step", "steps"),
    [("2026-01-03", "day", 3), ("2026-03-01", "week", 9), ("2026-12-31", "month", 12)],
)
def test_a_longer_time_has_longer_steps(last: str, step: Step, steps: int) -> None:
    found, names = steps_of([spent("2026-01-01", 1), spent(last, 1)])
    assert (found, len(names)) == (step, steps)


def test_a_week_begins_on_monday() -> None:
    assert step_of(Timestamp("2026-11-15T23:00:00.000Z"), "week") == "2026-11-09"
    assert step_of(Timestamp("2026-11-16T00:00:00.000Z"), "week") == "2026-11-16"


def test_sums_over_time_hold_everything() -> None:
    rows = [spent("2026-01-01", 5), spent("2026-01-02", 9), spent("2026-01-02", 1)]
    sums = over_time(rows, "day")
    assert {name: total.usage.total for name, total in sums.items()} == {
        "2026-01-01": 5,
        "2026-01-02": 10,
    }
    assert steps_of([]) == ("day", [])
