"""Spending on models: tokens and money over time, by agent, model or session.

Pure arithmetic over sums of distinct calls. An unknown price is None and counted separately: a sum
never treats an unknown price as zero.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from decimal import Decimal
from typing import Final, Literal

from turntree.core.ids import Timestamp, instant, unix_ms
from turntree.core.usage import Usage
from turntree.core.value import value

Grouping = Literal["model", "agent", "session"]
Step = Literal["day", "week", "month"]

CONTEXT_BANDS: Final = (
    32_000, 100_000, 128_000, 199_999, 200_000, 256_000, 272_000, 512_000, 524_288,
)  # fmt: skip
"""Context sizes above which some vendor charges another price for each token.

Calls are summed within a band, so that the price of the average call is also the price of each.
"""
NO_SESSION: Final = "(in no session)"
DAYS_A_STEP_MAX: Final = 31
WEEKS_A_STEP_MAX: Final = 26
_DAY_MS: Final = 24 * 60 * 60 * 1000


@value
class Spending:
    """Distinct calls of one day that agree in everything a price depends on."""

    day: str
    """``2026-11-15``, in UTC."""
    agent: str
    model: str
    provider: str | None
    calls: int
    usage: Usage
    """Sum over all the calls."""
    session: str | None = None
    cost: Decimal | None = None
    """In US dollars at list prices; None if unknown."""
    by: str = ""
    """The agent as a principal: ``agent:codex``."""

    @property
    def at(self) -> Timestamp:
        """The start of its day."""
        return Timestamp(f"{self.day}T00:00:00.000Z")


@value
class SpendingTotal:
    """Several spendings added up."""

    calls: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: Decimal = Decimal(0)
    """Cost of the calls whose price is known."""
    calls_unpriced: int = 0
    tokens_unpriced: int = 0

    def __add__(self, one: Spending) -> "SpendingTotal":
        known = one.cost is not None
        return SpendingTotal(
            self.calls + one.calls,
            self.usage + one.usage,
            self.cost + (one.cost or 0),
            self.calls_unpriced + (0 if known else one.calls),
            self.tokens_unpriced + (0 if known else one.usage.total),
        )


def sum_of(spent: Iterable[Spending]) -> SpendingTotal:
    """Return the sum of spendings."""
    total = SpendingTotal()
    for one in spent:
        total += one
    return total


def group(spent: Iterable[Spending], by: Grouping | None) -> dict[tuple[str, ...], SpendingTotal]:
    """Return sums by agent and model, or by one of the groupings; the largest first."""
    return _largest_first(_grouped(spent, lambda one: names_of(one, by)))


def steps_of(spent: Sequence[Spending]) -> tuple[Step, list[str]]:
    """Return the step length of the plot, and all steps from the first to the last."""
    days = sorted({unix_ms(one.at) // _DAY_MS for one in spent})
    if not days:
        return "day", []
    length = days[-1] - days[0] + 1
    step: Step = "month"
    if length <= DAYS_A_STEP_MAX:
        step = "day"
    elif length <= WEEKS_A_STEP_MAX * 7:
        step = "week"
    every = (step_of(instant(day * _DAY_MS), step) for day in range(days[0], days[-1] + 1))
    return step, list(dict.fromkeys(every))


def step_of(at: Timestamp, step: Step) -> str:
    """Return the step that a time falls into: a day, the Monday of a week, or a month."""
    if step == "month":
        return at[:7]
    if step == "day":
        return at[:10]
    day = unix_ms(at) // _DAY_MS
    # The first day of 1970 was a Thursday.
    return instant((day - (day + 3) % 7) * _DAY_MS)[:10]


def over_time(spent: Iterable[Spending], step: Step) -> dict[str, SpendingTotal]:
    """Return sums by step."""
    found = _grouped(spent, lambda one: (step_of(one.at, step),))
    return {name: total for (name,), total in found.items()}


def names_of(one: Spending, by: Grouping | None) -> tuple[str, ...]:
    """Return the group that a spending belongs to."""
    match by:
        case "agent":
            return (one.agent,)
        case "model":
            return (one.model,)
        case "session":
            return (one.session or NO_SESSION,)
        case None:
            return (one.agent, one.model)


def _grouped(
    spent: Iterable[Spending], key: Callable[[Spending], tuple[str, ...]]
) -> dict[tuple[str, ...], SpendingTotal]:
    found: dict[tuple[str, ...], SpendingTotal] = {}
    for one in spent:
        found[key(one)] = found.get(key(one), SpendingTotal()) + one
    return found


def _largest_first(
    found: Mapping[tuple[str, ...], SpendingTotal],
) -> dict[tuple[str, ...], SpendingTotal]:
    return dict(sorted(found.items(), key=lambda pair: (-pair[1].usage.total, pair[0])))
