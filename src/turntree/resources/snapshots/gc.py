"""Sweeping: removing the objects that no state needs any more.

A state is needed if somebody says so, or if it was taken within a period of grace: whoever took it
may not have had the time to say. What a state is made of is one question, and in which form that
lies in packs is another: an object may be there only because another is kept against it. Whoever
cannot answer both to the end removes nothing. Knows states and packs. Must never know who needs
them.
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
"""Objects that states are made of, each with a state that it was reached from."""
Grounds = dict[bytes, set[bytes]]
"""Every object that lies in a pack, with the objects that it cannot be read without."""


def sweep(
    store: ObjectStore,
    keep: Collection[bytes],
    grace_s: float,
    *,
    elsewhere: Collection[bytes] = (),
    dry_run: bool = False,
) -> GcResult:
    """Remove what no state needs that is to be kept or was taken within the grace period.

    States of ``elsewhere`` need not be here, but are kept if they are. A dry run says what would be
    removed, and removes nothing.

    Raises:
        SnapshotIncomplete: Something that is to be kept is missing or damaged. Nothing was removed.
    """
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
    """Note every object that a state is made of."""
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
    """Return what every object is kept against or made of, in whichever pack it lies.

    One may lie in several packs and have another form in each; which of them is read is not told
    before it is read.
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
    """Return the objects that must stay so that every one that was reached can be read."""
    needed: set[bytes] = set()
    waiting = list(reached.items())
    while waiting:
        digest, state = waiting.pop()
        if digest in needed:
            continue
        if digest not in grounds:
            raise _doubt(state, NotFound(f"sha256:{digest.hex()} is not kept here"))
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
    """Forget that the other states were ever taken."""
    path = os.path.join(store.folder, STATES_LOG)
    temporary = path + ".tmp"
    with open(temporary, "wb") as file:
        file.write(b"".join(LOGGED.pack(at, state) for state, at in kept.items()))
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)
    sync_folder(store.folder)


def _forget_places(store: ObjectStore, kept: set[bytes]) -> None:
    """Forget what places looked like whose last state goes: its objects are no longer there."""
    folder = os.path.join(store.folder, "places")
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return
    for name in names:
        path = os.path.join(folder, name)
        if last_state(path) not in kept:
            os.unlink(path)
