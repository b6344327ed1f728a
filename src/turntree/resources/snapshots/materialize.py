"""Create folders and files from snapshots, atomically, and remove them the same way.

Each one is recorded before it appears, with its inode, so that only what was created here is ever
removed. Does not know what a snapshot holds.
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Callable
from typing import Final

from turntree.core.errors import InvalidOperation
from turntree.resources.snapshots.packs import sync_folder
from turntree.resources.snapshots.store import ObjectStore

_GROWING: Final = b".turntree-fork-"
_GOING: Final = b".turntree-gone-"
_ANY_INODE: Final = 0


class Forks:
    """The paths that were created from snapshots of one store."""

    def __init__(self, store: ObjectStore) -> None:
        """Record them next to the store's objects."""
        self._store = store
        self._folder = os.path.join(store.folder, "forks")

    def make(self, place: bytes, state: bytes, grow: Callable[[bytes], None]) -> None:
        """Create a path; ``grow`` writes all of it under a temporary name.

        Raises:
            InvalidOperation: Something exists there already.
        """
        place = _resolved(place)
        key = _key(place)
        with self._store.lock(f"fork-{key}"):
            growing = _beside(place, _GROWING + key.encode())
            _remove(growing)
            if os.path.lexists(place):
                raise InvalidOperation(f"something is at {os.fsdecode(place)} already")
            os.makedirs(os.path.dirname(place), exist_ok=True)
            try:
                grow(growing)
                made = os.lstat(growing)
                self._note(key, place, state, made.st_ino)
                _appear(growing, place)
                if not stat.S_ISDIR(made.st_mode):
                    # Editors replace a file when they save it: from now on its name is enough.
                    self._note(key, place, state, _ANY_INODE)
            finally:
                _remove(growing)
            sync_folder(os.fsdecode(os.path.dirname(place)))

    def state_of(self, place: bytes) -> bytes | None:
        """Return the snapshot that a path was created from; None if it was not created here."""
        place = _resolved(place)
        try:
            found = os.lstat(place)
        except FileNotFoundError:
            return None
        noted = self._read(_key(place))
        if noted is None or noted[0] not in {found.st_ino, _ANY_INODE}:
            return None
        return noted[1]

    def remove(self, place: bytes) -> None:
        """Remove a path that was created here; an absent one is fine.

        Raises:
            InvalidOperation: It was not created here.
        """
        place = _resolved(place)
        key = _key(place)
        with self._store.lock(f"fork-{key}"):
            gone = _beside(place, _GOING + key.encode())
            _remove(gone)
            if os.path.lexists(place):
                if self.state_of(place) is None:
                    raise InvalidOperation(f"{os.fsdecode(place)} was not made from a snapshot")
                os.rename(place, gone)
            self._forget(key)
            _remove(gone)
            _remove(_beside(place, _GROWING + key.encode()))

    def _note(self, key: str, place: bytes, state: bytes, inode: int) -> None:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        told = f"{inode} {state.hex()}\n".encode() + place
        temporary = os.path.join(self._folder, f"{key}.{os.getpid()}.tmp")
        with open(temporary, "wb") as file:
            file.write(told)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, os.path.join(self._folder, key))
        sync_folder(self._folder)

    def _read(self, key: str) -> tuple[int, bytes] | None:
        try:
            with open(os.path.join(self._folder, key), "rb") as file:
                inode, state = file.readline().split()
        except FileNotFoundError:
            # Not created by a fork, so never removed by one either.
            return None
        return int(inode), bytes.fromhex(state.decode())

    def _forget(self, key: str) -> None:
        try:
            os.unlink(os.path.join(self._folder, key))
        except FileNotFoundError:
            return


def _resolved(place: bytes) -> bytes:
    """Return the canonical path; if it is a link itself, that is not followed."""
    above, name = os.path.split(os.path.abspath(place))
    return os.path.join(os.path.realpath(above), name)


def _key(place: bytes) -> str:
    return hashlib.sha256(place).hexdigest()[:24]


def _beside(place: bytes, name: bytes) -> bytes:
    return os.path.join(os.path.dirname(place), name)


def _appear(growing: bytes, place: bytes) -> None:
    """Rename the finished copy to its path, atomically, if nothing exists there."""
    try:
        if stat.S_ISDIR(os.lstat(growing).st_mode):
            os.rename(growing, place)
        else:
            os.link(growing, place, follow_symlinks=False)
    except OSError as error:
        raise InvalidOperation(f"something is at {os.fsdecode(place)} already") from error


def _remove(path: bytes) -> None:
    """Remove whatever is at a path, including read-only folders."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(found.st_mode):
        os.unlink(path)
        return
    os.chmod(path, 0o700)
    for folder, names, _ in os.walk(path):
        for name in names:
            inner = os.path.join(folder, name)
            if not os.path.islink(inner):
                os.chmod(inner, 0o700)
    shutil.rmtree(path)
