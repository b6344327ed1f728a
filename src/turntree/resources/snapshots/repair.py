"""Repair: move damaged objects aside, so that the next capture of the same bytes stores them again.

An object that does not hash to its name is useless, yet its presence would prevent a new write. Its
pack is set aside, never deleted: a backup may contain what is needed to read the rest.
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
"""The folder of packs that were set aside."""
_PLACES: Final = "places"


def mend(store: ObjectStore, *, unreadable: bool) -> int:
    """Move damaged objects aside and return their number.

    With ``unreadable`` also those that may be intact, but are stored against an object that is
    gone. The next capture of any resource reads all of it, and stores whatever is missing.
    """
    gone = 0
    with store.lock("store"), store.lock("merge"):
        store.refresh()
        # Repeat: what an object is stored against may be in two packs, and intact in one.
        while found := sum(
            _make_way(store, one, unreadable=unreadable) for one in list(store.packs().values())
        ):
            gone += found
        folder = os.path.join(store.folder, _PLACES)
        for name in os.listdir(folder) if os.path.isdir(folder) else ():
            os.unlink(os.path.join(folder, name))
    return gone


def put_back(store: ObjectStore) -> int:
    """Bring back set-aside objects that may be intact and are not stored here; return how many.

    They become readable once a backup restores the objects they depend on.
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
        with suppress(ValueError):  # The positions of its objects cannot be read.
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
        folder = os.path.join(store.folder, ASIDE)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        # It was set aside before, by a repair that was interrupted after this line.
        with suppress(FileExistsError):
            os.link(one.path, os.path.join(folder, one.name))
        store.rewrite([one], sound)
    return damaged


def _is_sound(store: ObjectStore, digest: bytes, one: Pack, placed: PackEntry) -> bool | None:
    """Return whether an object matches its digest; None if its base cannot be read."""
    payload, whole = one.payload(placed), hashlib.sha256()
    try:
        if placed.form == PIECES:
            for piece in split_digests(payload):
                whole.update(store.get(piece))
        else:
            base = store.get(base_of(payload)[0]) if placed.form == AGAINST else b""
            whole.update(unpacked(placed.form, payload, base))
    except NotFound:
        # Neither sound nor damaged: the object it builds on is missing, and may still be found in
        # another pack.
        return None
    except ValueError:
        return False
    return whole.digest() == digest
