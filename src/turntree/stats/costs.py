"""Computes what a model call cost, at list prices.

Must never guess: an unknown price is None, and must be shown as unknown.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from turntree.core.ids import Timestamp
from turntree.core.usage import ModelCall
from turntree.stats.spending import Spending

if TYPE_CHECKING:
    from turntree.stats.prices import GenaiPrices


def find_cost(call: ModelCall, at: Timestamp, prices: GenaiPrices) -> Decimal | None:
    """Return the cost of a call in US dollars on its day, or None if it is unknown."""
    spent = Spending(at[:10], "", call.model, call.provider, 1, call.usage)
    return prices.find_cost(spent)
