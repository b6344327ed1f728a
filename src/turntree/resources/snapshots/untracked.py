"""List the paths of a folder that a snapshot does not hold, and that nothing could restore.

It compares with what was really stored, not with what a scan would choose: an unreadable file is
left out, whatever the rules say. Never changes anything.
"""

import os

from turntree.resources.snapshots.ignore_rules import UNFINISHED
from turntree.resources.snapshots.store import ObjectStore
from turntree.resources.snapshots.trees import FOLDER, read_state, read_tree

_OWN = b".turntree"


def list_left_out(store: ObjectStore, place: bytes, state: bytes) -> list[bytes]:
    """Return the paths of a folder that a snapshot of it does not hold; a folder ends in a slash.

    Raises:
        NotFound: The snapshot is not stored here.
    """
    found: list[bytes] = []
    waiting = [(b"", read_state(store.get, state))]
    while waiting:
        path, node = waiting.pop()
        held = {one.name: one for one in read_tree(store.get(node.digest))}
        try:
            names = _list_names(os.path.join(place, path))
        except OSError:
            found.append(path or b"./")  # It was captured just now, and cannot be read any more.
            continue
        for name, is_folder in names.items():
            one = held.get(name)
            if one is None or (one.kind == FOLDER) != is_folder:
                found.append(path + name + (b"/" if is_folder else b""))
            elif is_folder:
                waiting.append((path + name + b"/", one))
    return sorted(found)


def _list_names(folder: bytes) -> dict[bytes, bool]:
    """Return a folder's names, and which are folders, except for our own."""
    with os.scandir(folder) as entries:
        return {
            entry.name: entry.is_dir(follow_symlinks=False)
            for entry in entries
            if entry.name != _OWN and not entry.name.startswith(UNFINISHED)
        }
