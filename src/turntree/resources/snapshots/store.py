"""The object store: objects by the sha256 of their bytes, in packs, each stored once.

Any number of processes may read and write at once: packs are only added, and removed only after
another pack holds their objects. Knows packs, locks and chunks of large objects, not what an object
means.
"""

import hashlib
import os
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, Self

from turntree.core.errors import DataMissing
from turntree.resources.snapshots.codec import (
    AGAINST,
    DIGEST_BYTES,
    PACKED,
    PIECES,
    RAW,
    base_of,
    pack,
    pack_against,
    unpack,
    unpack_against,
)
from turntree.resources.snapshots.packs import SUFFIX, Pack, PackEntry, PackWriter
from turntree.system.processes import lock_file

PIECE_BYTES: Final = 1 << 20
"""Larger objects are stored in pieces: memory stays bounded, and a grown log costs its tail."""
# A lookup may open every pack, so there must be few. Merging only packs of a similar size keeps the
# bytes that are rewritten few as well.
PACKS_OF_A_SIZE_MAX: Final = 16
# A process that writes a pack may be suspended for hours, and nothing waits for the space.
_STALE_S: Final = 24 * 3600


class ObjectStore:
    """All objects below one folder."""

    def __init__(self, folder: str) -> None:
        """Use a folder, which is created with the first object."""
        self.folder = folder
        self._packs_folder = os.path.join(folder, "packs")
        self._inside, self._beside = os.path.join(folder, "began"), folder + ".began"
        """Two markers that the store exists; when the folder is lost, one of them remains."""
        self._packs: dict[str, Pack] | None = None
        self._mine: dict[str, int] = {}
        """Locks that this process holds exclusively, and the thread that holds each."""

    def begin(self) -> "ObjectWriter":
        """Return a writer that adds objects."""
        os.makedirs(self._packs_folder, mode=0o700, exist_ok=True)
        # The inner one first: a crash in between must not look like a loss.
        for path in () if os.path.exists(self._beside) else (self._inside, self._beside):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
        return ObjectWriter(self, PackWriter(self._packs_folder))

    @property
    def was_lost(self) -> bool:
        """Whether an earlier folder with stored objects was lost."""
        return os.path.exists(self._beside) and not os.path.exists(self._inside)

    def __contains__(self, digest: bytes) -> bool:
        """Return whether an object is stored here."""
        return self.find(digest) is not None

    def find(self, digest: bytes) -> tuple[Pack, PackEntry] | None:
        """Return where an object is, or None."""
        return _find(digest, self.packs())

    def form(self, digest: bytes) -> tuple[int, bytes]:
        """Return how an object is encoded, and its encoded bytes.

        Raises:
            DataMissing: It is not stored here.
        """
        found = self.find(digest)
        if found is None:
            # It may be in a pack that was added since, or in one that its pack was merged into.
            with self.lock("merge", exclusive=False):
                found = _find(digest, self.refresh())
        if found is None:
            raise DataMissing(f"object sha256:{digest.hex()} is not stored here")
        one, placed = found
        return placed.form, one.payload(placed)

    def get(self, digest: bytes) -> bytes:
        """Return an object's bytes.

        Raises:
            DataMissing: It is not stored here, or it is damaged.
        """
        return b"".join(self.stream(digest))

    def stream(self, digest: bytes) -> Iterator[bytes]:
        """Yield an object's bytes piece by piece.

        Raises:
            DataMissing: It is not stored here, or it is damaged; perhaps after some pieces.
        """
        form, payload = self.form(digest)
        if form != PIECES:
            yield self._whole(digest, form, payload)
            return
        whole = hashlib.sha256()
        for piece in split_digests(payload):
            data = self.get(piece)
            whole.update(data)
            yield data
        # After the pieces are sent, because a large file does not fit in memory. The writer of a
        # restore drops what it has staged when this raises.
        if whole.digest() != digest:
            raise DataMissing(f"object sha256:{digest.hex()} is damaged")

    def pieces(self, digest: bytes) -> list[bytes]:
        """Return the pieces of an object: itself, if it is stored whole."""
        form, payload = self.form(digest)
        return split_digests(payload) if form == PIECES else [digest]

    def packs(self) -> dict[str, Pack]:
        """Return the packs that are known, by name."""
        # Listed late: commands that read no file never open the packs.
        if self._packs is None:
            self.refresh()
        assert self._packs is not None
        return self._packs

    def refresh(self) -> dict[str, Pack]:
        """List the packs again.

        Another thread may do the same and store a slightly older list: a caller that needs
        certainty uses the return value.
        """
        known = self._packs or {}
        found: dict[str, Pack] = {}
        for name in self._pack_names():
            try:
                found[name] = known.get(name) or Pack(os.path.join(self._packs_folder, name))
            except FileNotFoundError:
                continue  # Merged into another pack just now.
            except ValueError:
                continue  # Damaged: its objects count as missing, and readers say so.
        # Another thread may be reading: it goes on with the old dictionary.
        self._packs = found
        return found

    def adopt(self, name: str) -> None:
        """Add a pack that was just written."""
        if self._packs is None or name in self._packs:
            return
        try:
            self._packs = {**self._packs, name: Pack(os.path.join(self._packs_folder, name))}
        except FileNotFoundError:
            self.refresh()  # Merged into another pack just now.

    def merge(self) -> None:
        """Merge small packs if there are many; returns at once if another process does."""
        if not _crowded(self.packs().values()):
            return
        with self.lock("merge", wait=False) as mine:
            if not mine:
                return
            self._remove_abandoned()
            while crowd := _crowded(self.refresh().values()):
                self.rewrite(crowd, keep=None)

    def rewrite(self, old: Iterable[Pack], keep: set[bytes] | None) -> None:
        """Merge packs into one, dropping objects not in ``keep``. The caller holds ``merge``."""
        writer = PackWriter(self._packs_folder)
        gone = list(old)
        for one in gone:
            for digest, placed in one.objects():
                if digest not in writer and (keep is None or digest in keep):
                    writer.add(digest, placed.form, one.payload(placed))
        name = writer.finish()
        # The new pack is durable, so a crash between these leaves objects twice and never none.
        for one in gone:
            if one.name != name:
                os.unlink(os.path.join(self._packs_folder, one.name))
        self.refresh()

    @contextmanager
    def lock(
        self, name: str, *, exclusive: bool = True, wait: bool = True
    ) -> Generator[bool, None, None]:
        """Hold a lock of the store; yields False if it is taken and ``wait`` is False.

        An exclusive lock is reentrant in its thread, which would otherwise wait for itself.
        """
        if self._mine.get(name) == threading.get_ident():
            yield True
            return
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        path = os.path.join(self.folder, f"{name}.lock")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            is_locked = lock_file(fd, shared=not exclusive, wait=wait)
            if is_locked and exclusive:
                self._mine[name] = threading.get_ident()
            yield is_locked
        finally:
            if self._mine.get(name) == threading.get_ident():
                del self._mine[name]
            # Closing releases the lock, also if the process is killed. The file stays: removing it
            # would let two processes lock two different files of the same name.
            os.close(fd)

    def _whole(self, digest: bytes, form: int, payload: bytes) -> bytes:
        base = self.get(base_of(payload)[0]) if form == AGAINST else b""
        try:
            data = unpacked(form, payload, base)
        except ValueError as error:
            raise DataMissing(f"object sha256:{digest.hex()} is damaged") from error
        # Disks return wrong bytes without an error. A wrong file in a restored folder would look
        # like the user's own edit.
        if hashlib.sha256(data).digest() != digest:
            raise DataMissing(f"object sha256:{digest.hex()} is damaged")
        return data

    def _pack_names(self) -> list[str]:
        try:
            return sorted(n for n in os.listdir(self._packs_folder) if n.endswith(SUFFIX))
        except FileNotFoundError:
            return []

    def _remove_abandoned(self) -> None:
        """Remove temporary files of processes that died."""
        for entry in os.scandir(self._packs_folder):
            # A pack that was finished just now has another name.
            with suppress(FileNotFoundError):
                if entry.name.endswith(".tmp") and entry.stat().st_mtime < time.time() - _STALE_S:
                    os.unlink(entry.path)


class ObjectWriter:
    """Adds objects to a store; all of them are durable after ``finish``."""

    def __init__(self, store: ObjectStore, writer: PackWriter) -> None:
        """Write what a store lacks."""
        self._store = store
        self._writer = writer

    def __contains__(self, digest: bytes) -> bool:
        """Return whether an object is stored already, or will be."""
        return digest in self._writer or digest in self._store

    @property
    def written(self) -> int:
        """Bytes that had to be written."""
        return self._writer.written

    def put(self, digest: bytes, data: bytes, base: bytes | None = None) -> None:
        """Store an object of at most one piece; ``base`` is one that it probably resembles."""
        if digest in self:
            return
        if base is not None and (known := self._base(base)) is not None:
            self._writer.add(digest, *pack_against(data, known[0], base, known[1]))
        else:
            self._writer.add(digest, *pack(data))

    def put_pieces(self, digest: bytes, pieces: list[bytes]) -> None:
        """Store an object that consists of others, which are stored already."""
        if digest not in self:
            self._writer.add(digest, PIECES, b"".join(pieces))

    def put_as_it_lay(self, digest: bytes, form: int, payload: bytes) -> None:
        """Store an object as encoded in another pack, whether or not it can be read yet."""
        if digest not in self:
            self._writer.add(digest, form, payload)

    def finish(self) -> None:
        """Sync everything to disk."""
        name = self._writer.finish()
        if name is not None:
            self._store.adopt(name)
            self._store.merge()

    def __enter__(self) -> Self:
        """Start; what is not finished at the end is dropped."""
        return self

    def __exit__(self, *_: object) -> None:
        """Drop what was not finished."""
        self._writer.abandon()

    def _base(self, digest: bytes) -> tuple[bytes, int] | None:
        """Return an object's bytes and the chain length of objects stored against it."""
        found = self._store.find(digest)
        if found is None:
            return None
        one, placed = found
        # A base has to be in memory whole, and an object in pieces is too large for that.
        if placed.form == PIECES:
            return None
        depth = base_of(one.payload(placed))[1] + 1 if placed.form == AGAINST else 1
        try:
            return self._store.get(digest), depth
        except DataMissing:
            return None  # A damaged object must not become a base.


def _find(digest: bytes, packs: Mapping[str, Pack]) -> tuple[Pack, PackEntry] | None:
    for one in packs.values():
        placed = one.find(digest)
        if placed is not None:
            return one, placed
    return None


def unpacked(form: int, payload: bytes, base: bytes) -> bytes:
    """Return the bytes of an object that is not in pieces.

    Raises:
        ValueError: It is damaged.
    """
    if form == PACKED:
        return unpack(payload)
    if form == AGAINST:
        return unpack_against(payload, base)
    assert form == RAW, "a form that this version writes"
    return payload


def split_digests(payload: bytes) -> list[bytes]:
    """Return concatenated digests as a list."""
    return [payload[at : at + DIGEST_BYTES] for at in range(0, len(payload), DIGEST_BYTES)]


def _crowded(packs: Iterable[Pack]) -> list[Pack]:
    """Return packs of about the same size, if there are too many of them."""
    sizes: dict[int, list[Pack]] = {}
    for one in packs:
        # Powers of eight: a merge makes a pack of the next class, so each byte is rewritten a few
        # times in its life.
        sizes.setdefault(one.size.bit_length() // 3, []).append(one)
    for alike in sizes.values():
        if len(alike) >= PACKS_OF_A_SIZE_MAX:
            return alike
    return []
