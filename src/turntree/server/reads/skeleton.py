"""The skeleton of the tree, read once for as long as nothing changes.

Lists need the agent, the project and the title of sessions. The skeleton has them for all sessions,
and a server answers many reads between two changes.
"""

from weakref import WeakKeyDictionary

from turntree.api import Tree
from turntree.ledger.shape import Skeleton

_LAST: WeakKeyDictionary[Tree, tuple[object, Skeleton]] = WeakKeyDictionary()


async def read_skeleton(tree: Tree) -> Skeleton:
    """Return the skeleton of the tree as it is now."""
    position = await tree.shape.store.find_position()
    known = _LAST.get(tree)
    if known is not None and known[0] == position:
        return known[1]
    # The position is older than what is read now: what comes in between is read again.
    skeleton = await tree.shape.read()
    _LAST[tree] = position, skeleton
    return skeleton
