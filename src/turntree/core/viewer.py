"""Viewers: for which principal a store is opened, and so which sessions it contains.

A store is opened for a viewer, just as it is opened in a workspace. What is hidden from the viewer
is absent from all results, however it is addressed.
"""

from typing import Final, NewType

from turntree.core.errors import InvalidOperation
from turntree.core.principal import Principal

Sight = NewType("Sight", str)
"""A principal in the form that stores use: ``human:ana``."""

NOBODY: Final = Sight("")
"""No viewer: nothing is visible. The default where no viewer is given."""

PUBLIC: Final = Sight("public:")
"""A viewer that no principal is: sees what the whole workspace may see, and nothing private."""

EVERYTHING: Final = Sight("system:turntree")
"""The system sees everything: workers, indexers, imports and checks use it."""

BEHALF: Final = " for "
"""Stands between the two principals of a pair, so no id may contain it."""


def sight_of(principal: Principal) -> Sight:
    """Return a principal as a viewer.

    A principal that acts on behalf of another sees at most what both may see. Stores know such a
    pair by a name of its own, which no single principal has: private sessions are visible to the
    pair only if access was granted to the pair. Nothing is hidden from the system, so for a
    principal that acts on its behalf only that principal counts.

    Raises:
        InvalidOperation: An id could be read as a pair.
    """
    root = principal
    while root.on_behalf_of is not None:
        root = root.on_behalf_of
    check_id(principal.id)
    check_id(root.id)
    if root == principal or root.kind == "system":
        return Sight(str(principal))
    return Sight(f"{principal} for {root}")


def check_id(id: str) -> None:
    """Refuse an id that would make a principal look like a pair, and so act for another person.

    Raises:
        InvalidOperation: It contains the word that stands between the two.
    """
    if BEHALF in id:
        raise InvalidOperation(f"{id!r} is not the id of a principal: it contains {BEHALF!r}")
