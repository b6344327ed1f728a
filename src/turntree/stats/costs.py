"""What a model call cost, at list prices.

Knows whose list is asked. Must never guess: a price that nobody knows is None, and whoever shows
it says that it is unknown.
"""

from decimal import Decimal

from turntree.core.ids import Timestamp
from turntree.core.usage import ModelCall
from turntree.stats.prices_port import Prices
from turntree.stats.spending import Spending


def find_cost(call: ModelCall, at: Timestamp, prices: Prices | None) -> Decimal | None:
    """Return what a call cost in US dollars on its day, or None if nobody knows."""
    if prices is None:
        return None
    spent = Spending(at[:10], "", call.model, call.provider, 1, call.usage)
    return prices.find_cost(spent)
