"""Mending: what is damaged makes way, so that whoever still has the same bytes brings them anew.

An object that does not hash to its name helps nobody, and what seems to be there is not written
again. Its pack is put aside, never destroyed: a backup may hold what it takes to read the rest.
Knows packs and what was seen of places. Must never know what an object means.
"""

import hashlib
import os
from contextlib import suppress
from typing import Final

from turntree.core.errors import NotFound
from turntree.resources.snapshots.codec import AGAINST, PIECES, base_of
from turntree.resources.snapshots.packs import Pack, PackEntry
from turntree.resources.snapshots.store import ObjectStore, split_digests, unpacked

ASIDE: Final = "damaged"
"""The folder of packs that were put aside."""
_PLACES: Final = "places"


def mend(store: ObjectStore, *, unreadable: bool) -> int:
    """Let damaged objects make way and return how many did.

    With ``unreadable`` those too that may be sound, but are kept against something that is gone.
    The next look at any place reads all of it, and keeps whatever is missing.
    """
    gone = 0
    with store.lock("store"), store.lock("merge"):
        store.refresh()
        # Again and again: what an object is kept against may lie here twice, and once be sound.
        while found := sum(
            _make_way(store, one, unreadable=unreadable) for one in list(store.packs().values())
        ):
            gone += found
        _forget_places(store)
    return gone


def put_back(store: ObjectStore) -> int:
    """Take in again what made way, may be sound and is not kept here; return how many came.

    What stands on something that is gone can be read as soon as a backup brings that back.
    """
    count = 0
    with store.lock("store"), store.lock("merge"), store.begin() as writer:
        store.refresh()
        for one in _list_aside(store):
            for digest, placed in one.objects():
                if digest not in writer and _is_sound(store, digest, one, placed) is not False:
                    writer.put_as_it_lay(digest, placed.form, one.payload(placed))
                    count += 1
        writer.finish()
    return count


def _list_aside(store: ObjectStore) -> list[Pack]:
    folder, found = os.path.join(store.folder, ASIDE), list[Pack]()
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
        with suppress(ValueError):  # Where its objects lie cannot be read.
            found.append(Pack(os.path.join(folder, name)))
    return found


def _make_way(store: ObjectStore, one: Pack, *, unreadable: bool) -> int:
    sound, damaged = set[bytes](), 0
    for digest, placed in one.objects():
        is_sound = _is_sound(store, digest, one, placed)
        if is_sound or (is_sound is None and not unreadable):
            sound.add(digest)
        else:
            damaged += 1
    if damaged:
        _put_aside(store, one)
        store.rewrite([one], sound)
    return damaged


def _is_sound(store: ObjectStore, digest: bytes, one: Pack, placed: PackEntry) -> bool | None:
    """Say whether an object is what its name says; None if what it stands on cannot be read."""
    payload, whole = one.payload(placed), hashlib.sha256()
    try:
        if placed.form == PIECES:
            for piece in split_digests(payload):
                whole.update(store.get(piece))
        else:
            base = store.get(base_of(payload)[0]) if placed.form == AGAINST else b""
            whole.update(unpacked(placed.form, payload, base))
    except NotFound:
        return None
    except ValueError:
        return False
    return whole.digest() == digest


def _put_aside(store: ObjectStore, one: Pack) -> None:
    folder = os.path.join(store.folder, ASIDE)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with suppress(FileExistsError):
        os.link(one.path, os.path.join(folder, one.name))


def _forget_places(store: ObjectStore) -> None:
    folder = os.path.join(store.folder, _PLACES)
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        os.unlink(os.path.join(folder, name))
