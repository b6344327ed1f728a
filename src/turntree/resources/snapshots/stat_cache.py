"""Cache what the last scan of a folder saw, so that the next one reads only what changed.

The cache may be lost at any time: it saves work and decides nothing. One file per resource; every
digest in it names a stored object.
"""

import hashlib
import marshal
import os
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from turntree.system.processes import lock_file

_MAGIC: Final = b"TTSEEN2\n"
_FORMAT: Final = 4
"""Of ``marshal``: the same for every Python from 3.4 on."""
_BLOCK: Final = struct.Struct(">QI")
"""The length of a block, and its checksum."""
_STATE_BYTES: Final = 32

Own = tuple[int, int, int, int]
"""A folder itself: when its entry and its list changed (ns), its inode, its mode."""
NEVER_AGAIN: Final = 0
"""Timestamp of a change too recent to be distinguished from the next one: read it again."""


class CachedFolder(NamedTuple):
    """One folder as it was scanned. Names are in one text, separated by slashes."""

    own: Own
    stamp: bytes
    """Of the rules by which its entries were chosen."""
    special: tuple[bytes, ...]
    """Rule files and the repository in it, which may themselves be left out."""
    names: bytes
    """Files and links."""
    signs: bytes
    """By which a change of each is detected."""
    columns: bytes
    """The same, as ``bulk_stat`` compares them."""
    digests: bytes
    folders: bytes
    sealed: bytes
    """The folders that are left out, except for some paths inside."""
    tree: bytes
    """The digest of its tree."""
    size: int
    files: int


Folders = dict[bytes, CachedFolder]
"""Folders by their path below the root; the root is the empty path."""


class StatCache:
    """The cache of one resource: a full block, then blocks of changes."""

    def __init__(self, folder: str, place: bytes) -> None:
        """Use a file in a folder, named after the resource."""
        self.path = os.path.join(folder, hashlib.sha256(place).hexdigest()[:40] + ".seen")
        self._folder = folder
        self._loaded: Folders = {}
        self._inode = self._size = self._whole = 0

    def load(self) -> tuple[bytes | None, Folders]:
        """Return the last state and its folders; nothing, if nothing is cached."""
        try:
            with open(self.path, "rb") as file:
                self._inode = os.fstat(file.fileno()).st_ino
                data = file.read()
        except OSError:
            # A cache: without it every file is read again, and the result is the same.
            return None, {}
        state: bytes | None = None
        self._size = len(_MAGIC)
        for payload in read_blocks(data):
            self._size += _BLOCK.size + len(payload)
            state = bytes(payload[:_STATE_BYTES])
            told, gone = marshal.loads(payload[_STATE_BYTES:])  # noqa: S302 - ours, and checked
            if not self._loaded:
                self._whole = len(payload)
            for path in gone:
                self._loaded.pop(path, None)
            for path, folder in told.items():
                self._loaded[path] = CachedFolder(*folder)
        return state, dict(self._loaded)

    def save(self, state: bytes, folders: Folders) -> None:
        """Cache a stored state and its folders."""
        known = self._loaded
        changed = {path: tuple(f) for path, f in folders.items() if known.get(path) is not f}
        gone = list(known.keys() - folders.keys())
        block = _block(state, changed, gone)
        if self._size + len(block) > 2 * self._whole or not self._append(block):
            plain = {path: tuple(folder) for path, folder in folders.items()}
            self._replace(_block(state, plain, []))

    def _append(self, block: bytes) -> bool:
        """Append to the file, if it is unchanged since it was loaded."""
        try:
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            # Another process replaced or removed the cache, so what would be appended does not
            # follow from what it holds now.
            return False
        try:
            if not lock_file(fd):
                return False
            found = os.fstat(fd)
            # Blocks that another process appended do not fit what this one loaded.
            if (found.st_ino, found.st_size) != (self._inode, self._size):
                return False
            return os.write(fd, block) == len(block)
        finally:
            os.close(fd)

    def _replace(self, block: bytes) -> None:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        temporary = f"{self.path}.{os.getpid()}-{os.urandom(4).hex()}.tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "wb") as file:
            file.write(_MAGIC)
            file.write(block)
        os.rename(temporary, self.path)


def read_blocks(data: bytes) -> Iterator[memoryview]:
    """Yield the blocks of a cache, up to the first that is damaged."""
    if not data.startswith(_MAGIC):
        return
    view = memoryview(data)
    at = len(_MAGIC)
    while at + _BLOCK.size <= len(data):
        length, crc = _BLOCK.unpack_from(data, at)
        at += _BLOCK.size
        payload = view[at : at + length]
        if len(payload) != length or zlib.crc32(payload) != crc:
            return
        yield payload
        at += length


def last_state(path: str) -> bytes | None:
    """Return the last state in a cache file."""
    with open(path, "rb") as file:
        data = file.read()
    states = [bytes(payload[:_STATE_BYTES]) for payload in read_blocks(data)]
    return states[-1] if states else None


def _block(state: bytes, changed: Mapping[bytes, tuple[object, ...]], gone: list[bytes]) -> bytes:
    told: Any = (changed, gone)
    payload = state + marshal.dumps(told, _FORMAT)
    return _BLOCK.pack(len(payload), zlib.crc32(payload)) + payload
