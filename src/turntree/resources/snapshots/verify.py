"""Verify snapshots: check that every object exists, or read and hash it again.

Never changes anything, and does not know which turn refers to a snapshot.
"""

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from turntree.core.errors import NotFound
from turntree.resources.snapshots.store import ObjectStore
from turntree.resources.snapshots.trees import (
    FOLDER,
    PLACE_NAME,
    TreeEntry,
    read_state,
    read_tree,
)


class MissingBytes(NamedTuple):
    """An object of a snapshot that cannot be read."""

    state: bytes
    path: bytes
    why: str


def find_losses(
    store: ObjectStore, states: Collection[bytes], report: Callable[[int], None], *, full: bool
) -> Iterator[MissingBytes]:
    """Yield missing or damaged objects, each once; ``report`` gets the number of states checked.

    Folders are always read and hashed, because they name the rest; files only if ``full``.
    """
    seen: set[bytes] = set()
    with store.lock("store", exclusive=False):
        store.refresh()
        for done, state in enumerate(sorted(states), start=1):
            try:
                top = read_state(store.get, state)
            except NotFound as error:
                # Go on: the report is worth most when much is missing.
                yield MissingBytes(state, PLACE_NAME, str(error))
            else:
                yield from _walk(store, state, top, seen, full=full)
            report(done)


def _walk(
    store: ObjectStore, state: bytes, top: TreeEntry, seen: set[bytes], *, full: bool
) -> Iterator[MissingBytes]:
    waiting = [(PLACE_NAME, top)]
    while waiting:
        path, node = waiting.pop()
        if node.digest in seen:
            continue
        seen.add(node.digest)
        try:
            if node.kind == FOLDER:
                prefix = b"" if path == PLACE_NAME else path + b"/"
                inside = read_tree(store.get(node.digest))
                waiting += [(prefix + one.name, one) for one in inside]
            elif full:
                for _ in store.stream(node.digest):
                    pass
            else:
                store.form(node.digest)
        except NotFound as error:
            yield MissingBytes(state, path, str(error))
