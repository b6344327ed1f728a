"""Prices: what somebody who keeps lists of them says that a call cost."""

from decimal import Decimal
from typing import Protocol

from turntree.stats.spending import Spending


class Prices(Protocol):
    """A list of prices."""

    @property
    def name(self) -> str:
        """Whose list it is, and which version."""
        ...

    def find_cost(self, spending: Spending) -> Decimal | None:
        """Return what calls cost in US dollars, or None if the list does not tell."""
        ...
