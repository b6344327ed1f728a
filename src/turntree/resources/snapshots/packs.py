"""Packs: many objects in one immutable file, found by digest.

A pack is written under a temporary name, synced to disk and renamed, so a visible pack is complete.
Knows the layout of the file, not what the objects mean.

    magic | payloads | digests, sorted | offset, length and form of each | trailer
"""

import hashlib
import mmap
import os
import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from turntree.resources.snapshots.codec import DIGEST_BYTES

SUFFIX: Final = ".pack"
_MAGIC: Final = b"TTPACK1\n"
_PLACE: Final = struct.Struct("<QQB")
_TRAILER: Final = struct.Struct("<QQII8s")
_BUFFER_BYTES: Final = 1 << 20


class PackEntry(NamedTuple):
    """Where an object is in its pack, and how it is encoded."""

    offset: int
    length: int
    form: int


class PackWriter:
    """A pack that is being written; other processes see it only after ``finish``."""

    def __init__(self, folder: str) -> None:
        """Start a pack; no file is created before the first object."""
        self._folder = folder
        self._temporary: str | None = None
        self._fd = -1
        self._places: dict[bytes, PackEntry] = {}
        self._buffer = bytearray()
        self._offset = len(_MAGIC)

    def __contains__(self, digest: bytes) -> bool:
        """Return whether an object is in it."""
        return digest in self._places

    @property
    def written(self) -> int:
        """Bytes that the objects take up."""
        return self._offset - len(_MAGIC)

    def add(self, digest: bytes, form: int, payload: bytes) -> None:
        """Add an object."""
        if self._fd < 0:
            self._temporary = os.path.join(self._folder, f"{os.getpid()}-{os.urandom(6).hex()}.tmp")
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._fd = os.open(self._temporary, flags, 0o600)
            self._buffer += _MAGIC
        self._places[digest] = PackEntry(self._offset, len(payload), form)
        self._offset += len(payload)
        self._buffer += payload
        if len(self._buffer) >= _BUFFER_BYTES:
            self._flush()

    def get(self, digest: bytes) -> tuple[int, bytes] | None:
        """Return an object of this pack: its form and payload."""
        found = self._places.get(digest)
        if found is None:
            return None
        # Part of it may be in the file already, so everything is read from there.
        self._flush()
        return found.form, os.pread(self._fd, found.length, found.offset)

    def finish(self) -> str | None:
        """Sync the pack to disk under its name and return that; None if it is empty."""
        if self._temporary is None:
            return None
        digests = sorted(self._places)
        # Digests first and positions after them, so that a search touches only the digests.
        index = b"".join(digests) + b"".join(
            _PLACE.pack(*self._places[digest]) for digest in digests
        )
        trailer = _TRAILER.pack(self._offset, len(digests), zlib.crc32(index), 1, _MAGIC)
        self._buffer += index + trailer
        self._flush()
        # Before the rename: a name that survives a power cut must not lead to bytes that did not.
        os.fsync(self._fd)
        # Named by its content: of two writers of the same objects, one pack remains.
        name = hashlib.sha256(index).hexdigest()[:40] + SUFFIX
        os.rename(self._temporary, os.path.join(self._folder, name))
        # The rename itself is an entry of the folder, which has to be on disk as well.
        sync_folder(self._folder)
        self._close()
        return name

    def abandon(self) -> None:
        """Drop what was written."""
        if self._temporary is not None:
            os.unlink(self._temporary)
            self._close()

    def _flush(self) -> None:
        written = memoryview(self._buffer)
        while written:
            written = written[os.write(self._fd, written) :]
        written.release()
        self._buffer = bytearray()

    def _close(self) -> None:
        os.close(self._fd)
        self._fd, self._temporary = -1, None


class Pack:
    """A finished pack, open for reading."""

    def __init__(self, path: str) -> None:
        """Open a pack.

        Raises:
            FileNotFoundError: It was merged into another.
            ValueError: It is not a pack.
        """
        self.path, self.name = path, os.path.basename(path)
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.size = os.fstat(fd).st_size
            if self.size < _TRAILER.size:
                raise ValueError(f"{path} is not a pack")
            self._bytes = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
        finally:
            os.close(fd)
        start: int
        count: int
        start, count, crc, _, magic = _TRAILER.unpack(self._bytes[-_TRAILER.size :])
        # Only the index is checked here. A damaged object is found when it is read, by its digest.
        if magic != _MAGIC or zlib.crc32(self._bytes[start : -_TRAILER.size]) != crc:
            raise ValueError(f"{path} is not a pack")
        self._start, self._count = start, count
        self._places = start + count * DIGEST_BYTES

    def __len__(self) -> int:
        """Return how many objects it holds."""
        return self._count

    # A binary search in the mapped file. Loading the index into a dictionary would cost more than
    # most commands look up.
    def find(self, digest: bytes) -> PackEntry | None:
        """Return where an object is, if it is here."""
        view, start = self._bytes, self._start
        low, high = 0, self._count
        while low < high:
            middle = (low + high) // 2
            at = start + middle * DIGEST_BYTES
            found = view[at : at + DIGEST_BYTES]
            if found == digest:
                return self._placed(middle)
            if found < digest:
                low = middle + 1
            else:
                high = middle
        return None

    def payload(self, placed: PackEntry) -> bytes:
        """Return an object's bytes as encoded here."""
        return self._bytes[placed.offset : placed.offset + placed.length]

    def objects(self) -> Iterator[tuple[bytes, PackEntry]]:
        """Yield every object's digest and position, in digest order."""
        for number in range(self._count):
            at = self._start + number * DIGEST_BYTES
            yield self._bytes[at : at + DIGEST_BYTES], self._placed(number)

    def _placed(self, number: int) -> PackEntry:
        return PackEntry(*_PLACE.unpack_from(self._bytes, self._places + number * _PLACE.size))


def sync_folder(path: str) -> None:
    """Sync a folder's own entries to disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
