"""Sight: which principal looks at a ledger, and so which sessions are there at all.

A store is opened with a sight, as it is opened in a workspace. What is closed to whoever looks is
absent from every answer, whichever way it is addressed.
"""

from typing import Final, NewType

from turntree.domain.principal import Principal

Sight = NewType("Sight", str)
"""A principal as a store knows it: ``human:ana``."""

EVERYTHING: Final = Sight("system:turntree")
"""The system sees all there is: whoever serves, indexes, imports and checks looks like this."""


def sight_of(principal: Principal) -> Sight:
    """Return how a principal looks at a ledger."""
    return Sight(str(principal))
