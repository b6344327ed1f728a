"""Protocol of a list of prices."""

from decimal import Decimal
from typing import Protocol

from turntree.stats.spending import Spending


class Prices(Protocol):
    """A list of prices."""

    @property
    def name(self) -> str:
        """Name and version of the list."""
        ...

    def find_cost(self, spending: Spending) -> Decimal | None:
        """Return the cost of calls in US dollars, or None if the list has no price."""
        ...
