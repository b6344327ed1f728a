"""What stands in a place and is in no state of it: nobody could bring it back.

It goes by what was truly kept, not by what a look would keep: a file that may not be read is left
out, whatever the rules say. Knows the store and the place. Must never change anything.
"""

import os

from turntree.resources.snapshots.ignore_rules import UNFINISHED
from turntree.resources.snapshots.store import ObjectStore
from turntree.resources.snapshots.trees import FOLDER, read_state, read_tree

_OWN = b".turntree"


def list_left_out(store: ObjectStore, place: bytes, state: bytes) -> list[bytes]:
    """Return the paths of a folder that a state of it does not hold; a folder ends in a slash.

    Raises:
        NotFound: The state is not kept here.
    """
    found: list[bytes] = []
    waiting = [(b"", read_state(store.get, state))]
    while waiting:
        path, node = waiting.pop()
        held = {one.name: one for one in read_tree(store.get(node.digest))}
        try:
            names = _list_names(os.path.join(place, path))
        except OSError:
            found.append(path or b"./")  # It was held a moment ago, and cannot be looked into now.
            continue
        for name, is_folder in names.items():
            one = held.get(name)
            if one is None or (one.kind == FOLDER) != is_folder:
                found.append(path + name + (b"/" if is_folder else b""))
            elif is_folder:
                waiting.append((path + name + b"/", one))
    return sorted(found)


def _list_names(folder: bytes) -> dict[bytes, bool]:
    """Return what a folder holds, and which of it are folders, but for what is ours."""
    with os.scandir(folder) as entries:
        return {
            entry.name: entry.is_dir(follow_symlinks=False)
            for entry in entries
            if entry.name != _OWN and not entry.name.startswith(UNFINISHED)
        }
