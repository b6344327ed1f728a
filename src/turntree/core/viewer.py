"""Sight: which principal looks at a ledger, and so which sessions are there at all.

A store is opened with a sight, as it is opened in a workspace. What is closed to whoever looks is
absent from every answer, whichever way it is addressed.
"""

from typing import Final, NewType

from turntree.core.principal import Principal

Sight = NewType("Sight", str)
"""A principal as a store knows it: ``human:ana``."""

NOBODY: Final = Sight("")
"""No principal at all, to whom nothing is shown: where nothing is said of who looks, it is this."""

EVERYTHING: Final = Sight("system:turntree")
"""The system sees all there is: whoever serves, indexes, imports and checks looks like this."""


def sight_of(principal: Principal) -> Sight:
    """Return how a principal looks at a ledger.

    One that acts on another's behalf sees at most what both may see, the one that acts and the one
    that answers for it. A store knows such a pair by a name of its own, which is nobody's: what is
    private is open to the pair only where it was granted to the pair. The system hides nothing from
    those who act for it, so there the one that acts decides alone.
    """
    root = principal
    while root.on_behalf_of is not None:
        root = root.on_behalf_of
    if root == principal or root.kind == "system":
        return Sight(str(principal))
    return Sight(f"{principal} for {root}")
