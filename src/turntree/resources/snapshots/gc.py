"""Garbage collection: delete the objects that no snapshot needs.

A snapshot is needed if the caller names it, or if it was taken within the grace period: the process
that took it may not have recorded it yet. An object is needed if a snapshot consists of it, or if a
needed object is stored as a difference from it. Unless both can be determined completely, nothing
is deleted. Knows snapshots and packs, not who needs them.
"""

import os
import time
from collections.abc import Collection, Mapping
from typing import Final

from turntree.core.errors import NotFound, SnapshotIncomplete
from turntree.core.ids import Digest
from turntree.resources.driver import GcResult
from turntree.resources.snapshots.capture import LOGGED, STATES_LOG, read_states
from turntree.resources.snapshots.codec import AGAINST, PIECES, base_of
from turntree.resources.snapshots.packs import sync_folder
from turntree.resources.snapshots.stat_cache import last_state
from turntree.resources.snapshots.store import ObjectStore, split_digests
from turntree.resources.snapshots.trees import FOLDER, read_state, read_tree

_NS: Final = 1_000_000_000
_LONG_AGO: Final = 0

Reached = dict[bytes, bytes]
"""Objects that snapshots consist of, each with a snapshot it was reached from."""
Grounds = dict[bytes, set[bytes]]
"""Every object in a pack, with the objects that are required to read it."""


def sweep(
    store: ObjectStore,
    keep: Collection[bytes],
    grace_s: float,
    *,
    elsewhere: Collection[bytes] = (),
    dry_run: bool = False,
) -> GcResult:
    """Delete objects that no snapshot in the keep set or within the grace period needs.

    Snapshots of ``elsewhere`` need not be here, but are kept if they are. A dry run returns what
    would be deleted, and deletes nothing.

    Raises:
        SnapshotIncomplete: Something to keep is missing or damaged. Nothing was deleted.
    """
    # Both locks: a snapshot in progress refers to objects that no recorded snapshot names yet, and
    # a merge moves them.
    with store.lock("store"), store.lock("merge"):
        store.refresh()
        taken, since_ns = read_states(store), time.time_ns() - int(grace_s * _NS)
        recent = (state for state, at in taken.items() if at >= since_ns)
        states = {*keep, *recent, *(state for state in elsewhere if state in store)}
        reached: Reached = {}
        for state in sorted(states):
            try:
                _mark(store, state, reached)
            except NotFound as error:
                raise _doubt(state, error) from error
        needed = _list_needed(_list_grounds(store), reached)
        if not dry_run:
            _forget_old(store, {state: taken.get(state, _LONG_AGO) for state in sorted(states)})
            _forget_places(store, states)
        return _remove(store, needed, dry_run=dry_run)


def _mark(store: ObjectStore, state: bytes, reached: Reached) -> None:
    """Mark every object that a snapshot consists of."""
    top = read_state(store.get, state)
    reached.setdefault(state, state)
    waiting = [top]
    while waiting:
        node = waiting.pop()
        if node.digest in reached:
            continue
        if node.kind == FOLDER:
            waiting += read_tree(store.get(node.digest))
        reached[node.digest] = state


def _list_grounds(store: ObjectStore) -> Grounds:
    """Return what every object depends on, in every pack it is in.

    An object may be in several packs with another encoding in each; which one is read is not known
    in advance.
    """
    grounds: Grounds = {}
    for one in store.packs().values():
        for digest, placed in one.objects():
            below = grounds.setdefault(digest, set())
            if placed.form == AGAINST:
                below.add(base_of(one.payload(placed))[0])
            elif placed.form == PIECES:
                below.update(split_digests(one.payload(placed)))
    return grounds


def _list_needed(grounds: Grounds, reached: Reached) -> set[bytes]:
    """Return the objects that must stay so that every reached one can be read."""
    needed: set[bytes] = set()
    waiting = list(reached.items())
    while waiting:
        digest, state = waiting.pop()
        if digest in needed:
            continue
        if digest not in grounds:
            raise _doubt(state, NotFound(f"object sha256:{digest.hex()} is not stored here"))
        needed.add(digest)
        waiting += [(one, state) for one in grounds[digest]]
    return needed


def _doubt(state: bytes, error: NotFound) -> SnapshotIncomplete:
    digest = Digest(f"sha256:{state.hex()}")
    return SnapshotIncomplete(
        f"the state {digest} is not whole ({error}): nothing is removed while something that is to "
        "be kept is missing",
        digest,
    )


def _remove(store: ObjectStore, needed: set[bytes], *, dry_run: bool) -> GcResult:
    removed = freed = left = 0
    for one in list(store.packs().values()):
        gone = [placed.length for digest, placed in one.objects() if digest not in needed]
        left += len(one) - len(gone)
        removed += len(gone)
        freed += sum(gone)
        if gone and not dry_run:
            store.rewrite([one], needed)
    return GcResult(removed, freed, left)


def _forget_old(store: ObjectStore, kept: Mapping[bytes, int]) -> None:
    """Remove the other snapshots from the log."""
    path = os.path.join(store.folder, STATES_LOG)
    temporary = path + ".tmp"
    with open(temporary, "wb") as file:
        file.write(b"".join(LOGGED.pack(at, state) for state, at in kept.items()))
        file.flush()
        # Durable before the rename: after a power cut an empty log would make every snapshot look
        # unknown.
        os.fsync(file.fileno())
    os.rename(temporary, path)
    sync_folder(store.folder)


def _forget_places(store: ObjectStore, kept: set[bytes]) -> None:
    """Delete the stat caches of snapshots that are dropped: their objects are gone."""
    folder = os.path.join(store.folder, "places")
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    for name in names:
        path = os.path.join(folder, name)
        if last_state(path) not in kept:
            os.unlink(path)
