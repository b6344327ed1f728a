"""Computes what a model call cost, at list prices.

Must never guess: an unknown price is None, and must be shown as unknown.
"""

from decimal import Decimal

from turntree.core.ids import Timestamp
from turntree.core.usage import ModelCall
from turntree.stats.prices_port import Prices
from turntree.stats.spending import Spending


def find_cost(call: ModelCall, at: Timestamp, prices: Prices | None) -> Decimal | None:
    """Return the cost of a call in US dollars on its day, or None if it is unknown."""
    if prices is None:
        return None
    spent = Spending(at[:10], "", call.model, call.provider, 1, call.usage)
    return prices.find_cost(spent)
