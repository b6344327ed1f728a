"""Sweeping: removing the objects that no state needs any more.

A state is needed if somebody says so, or if it was taken within a period of grace: whoever took it
may not have had the time to say. Knows states and what they are made of. Must never know who needs
them.
"""

import os
import time
from collections.abc import Collection
from typing import Final

from turntree.adapters.resources.shadow.capture import LOGGED
from turntree.adapters.resources.shadow.codec import AGAINST, PIECES, base_of
from turntree.adapters.resources.shadow.memory import last_state
from turntree.adapters.resources.shadow.packs import sync_folder
from turntree.adapters.resources.shadow.store import ShadowStore, split_digests
from turntree.adapters.resources.shadow.trees import FOLDER, read_state, read_tree
from turntree.domain.errors import NotFound
from turntree.ports.keepers import Swept

_NS: Final = 1_000_000_000


def sweep(
    store: ShadowStore, keep: Collection[bytes], grace_s: float, *, dry_run: bool = False
) -> Swept:
    """Remove what no state needs that is to be kept or was taken within the grace period.

    A dry run says what would be removed, and removes nothing.
    """
    with store.lock("store"), store.lock("merge"):
        store.refresh()
        recent = _list_recent(store, time.time_ns() - int(grace_s * _NS))
        needed: set[bytes] = set()
        kept: set[bytes] = set()
        for state in {*keep, *recent}:
            try:
                _mark_state(store, state, needed)
            except NotFound:
                continue  # Kept elsewhere, or lost before: nothing here can be needed for it.
            kept.add(state)
        if not dry_run:
            _forget_old(store, recent)
            _forget_places(store, kept)
        return _remove(store, needed, dry_run=dry_run)


def _remove(store: ShadowStore, needed: set[bytes], *, dry_run: bool) -> Swept:
    removed = freed = left = 0
    for one in list(store.packs().values()):
        gone = [placed.length for digest, placed in one.objects() if digest not in needed]
        left += len(one) - len(gone)
        removed += len(gone)
        freed += sum(gone)
        if gone and not dry_run:
            store.rewrite([one], needed)
    return Swept(removed, freed, left)


def _mark_state(store: ShadowStore, state: bytes, needed: set[bytes]) -> None:
    """Note every object that a state is made of, and what these are kept against."""
    top = read_state(store.get, state)
    _mark(store, state, needed)
    waiting = [top]
    while waiting:
        node = waiting.pop()
        if node.digest in needed:
            continue
        try:
            _mark(store, node.digest, needed)
            if node.kind == FOLDER:
                waiting += read_tree(store.get(node.digest))
        except NotFound:
            continue  # Lost or damaged; what is left of the state is needed all the same.


def _mark(store: ShadowStore, digest: bytes, needed: set[bytes]) -> None:
    waiting = [digest]
    while waiting:
        one = waiting.pop()
        if one in needed:
            continue
        needed.add(one)
        form, payload = store.form(one)
        if form == AGAINST:
            waiting.append(base_of(payload)[0])
        elif form == PIECES:
            waiting += split_digests(payload)


def _list_recent(store: ShadowStore, since_ns: int) -> dict[bytes, int]:
    """Return the states taken lately, and when each was."""
    path = os.path.join(store.folder, "states.log")
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return {}
    whole = len(data) - len(data) % LOGGED.size
    return {state: at for at, state in LOGGED.iter_unpack(data[:whole]) if at >= since_ns}


def _forget_old(store: ShadowStore, recent: dict[bytes, int]) -> None:
    """Forget when the other states were taken."""
    path = os.path.join(store.folder, "states.log")
    if not os.path.exists(path):
        return
    temporary = path + ".tmp"
    with open(temporary, "wb") as file:
        file.write(b"".join(LOGGED.pack(at, state) for state, at in recent.items()))
        file.flush()
        os.fsync(file.fileno())
    os.rename(temporary, path)
    sync_folder(store.folder)


def _forget_places(store: ShadowStore, kept: set[bytes]) -> None:
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
