"""Objects by the sha256 of their bytes, over all packs; what is equal is kept once.

Any number of processes read and write at once: packs only come, and go only after what they held
has come in another. Knows packs, locks and pieces of large objects. Must never know what an object
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
"""Larger objects are kept in pieces: memory stays bounded, and a log that grew costs its tail."""
PACKS_OF_A_SIZE_MAX: Final = 16
_STALE_S: Final = 24 * 3600


class ObjectStore:
    """All objects below one folder."""

    def __init__(self, folder: str) -> None:
        """Use a folder, which is made when the first object is kept."""
        self.folder = folder
        self._packs_folder = os.path.join(folder, "packs")
        self._inside, self._beside = os.path.join(folder, "began"), folder + ".began"
        """Two notes that the store began; when the folder is lost, one of them remains."""
        self._packs: dict[str, Pack] | None = None
        self._mine: dict[str, int] = {}
        """Locks that somebody here holds alone, and which thread that is."""

    def begin(self) -> "ObjectWriter":
        """Return what objects are added with."""
        os.makedirs(self._packs_folder, mode=0o700, exist_ok=True)
        self._note_beginning()
        return ObjectWriter(self, PackWriter(self._packs_folder))

    @property
    def was_lost(self) -> bool:
        """Whether another folder stood here before, with whatever was kept in it."""
        return os.path.exists(self._beside) and not os.path.exists(self._inside)

    def __contains__(self, digest: bytes) -> bool:
        """Say whether an object is kept here."""
        return self.find(digest) is not None

    def find(self, digest: bytes) -> tuple[Pack, PackEntry] | None:
        """Return where an object lies."""
        return _find(digest, self.packs())

    def form(self, digest: bytes) -> tuple[int, bytes]:
        """Return how an object is kept, and the bytes that lie there.

        Raises:
            DataMissing: It is not kept here.
        """
        found = self.find(digest)
        if found is None:
            # It may lie in a pack that came since, or in one that took in the pack it lay in.
            with self.lock("merge", exclusive=False):
                found = _find(digest, self.refresh())
        if found is None:
            raise DataMissing(f"sha256:{digest.hex()} is not kept here")
        one, placed = found
        return placed.form, one.payload(placed)

    def get(self, digest: bytes) -> bytes:
        """Return an object's bytes.

        Raises:
            DataMissing: It is not kept here, or what lies here is damaged.
        """
        return b"".join(self.stream(digest))

    def stream(self, digest: bytes) -> Iterator[bytes]:
        """Yield an object's bytes piece by piece.

        Raises:
            DataMissing: It is not kept here, or what lies here is damaged; perhaps after some
                pieces.
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
        if whole.digest() != digest:
            raise DataMissing(f"what is kept as sha256:{digest.hex()} is damaged")

    def pieces(self, digest: bytes) -> list[bytes]:
        """Return the objects that one is made of: itself, if it is kept whole."""
        form, payload = self.form(digest)
        return split_digests(payload) if form == PIECES else [digest]

    def packs(self) -> dict[str, Pack]:
        """Return the packs that are known, by name."""
        if self._packs is None:
            self.refresh()
        assert self._packs is not None
        return self._packs

    def refresh(self) -> dict[str, Pack]:
        """Look which packs there are.

        Another thread may look at the same time and remember what it saw a moment ago: whoever
        needs to be sure goes by what is returned.
        """
        known = self._packs or {}
        found: dict[str, Pack] = {}
        for name in self._pack_names():
            try:
                found[name] = known.get(name) or Pack(os.path.join(self._packs_folder, name))
            except FileNotFoundError:
                continue  # Merged into another in this moment.
            except ValueError:
                continue  # Damaged: what it held is not kept here, and readers say so.
        # Another thread may be reading: it goes on with what it had.
        self._packs = found
        return found

    def adopt(self, name: str) -> None:
        """Take in a pack that was just written."""
        if self._packs is None or name in self._packs:
            return
        try:
            self._packs = {**self._packs, name: Pack(os.path.join(self._packs_folder, name))}
        except FileNotFoundError:
            self.refresh()  # Merged into another in this moment.

    def merge(self) -> None:
        """Merge small packs where many have gathered; somebody else doing it is fine."""
        if not _crowded(self.packs().values()):
            return
        with self.lock("merge", wait=False) as mine:
            if not mine:
                return
            self._remove_abandoned()
            while crowd := _crowded(self.refresh().values()):
                self.rewrite(crowd, keep=None)

    def rewrite(self, old: Iterable[Pack], keep: set[bytes] | None) -> None:
        """Put what packs hold into one, leaving out what is not to be kept. Held: ``merge``."""
        writer = PackWriter(self._packs_folder)
        gone = list(old)
        for one in gone:
            for digest, placed in one.objects():
                if digest not in writer and (keep is None or digest in keep):
                    writer.add(digest, placed.form, one.payload(placed))
        name = writer.finish()
        for one in gone:
            if one.name != name:
                os.unlink(os.path.join(self._packs_folder, one.name))
        self.refresh()

    @contextmanager
    def lock(
        self, name: str, *, exclusive: bool = True, wait: bool = True
    ) -> Generator[bool, None, None]:
        """Hold a lock of the store while working; False if it is taken and one does not wait.

        Whoever holds it alone may ask for it again, and would otherwise wait for itself.
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
            os.close(fd)

    def _whole(self, digest: bytes, form: int, payload: bytes) -> bytes:
        base = self.get(base_of(payload)[0]) if form == AGAINST else b""
        try:
            data = unpacked(form, payload, base)
        except ValueError as error:
            raise DataMissing(f"what is kept as sha256:{digest.hex()} is damaged") from error
        if hashlib.sha256(data).digest() != digest:
            raise DataMissing(f"what is kept as sha256:{digest.hex()} is damaged")
        return data

    def _note_beginning(self) -> None:
        # The one inside first: whoever dies in between must not seem to have lost anything.
        for path in () if os.path.exists(self._beside) else (self._inside, self._beside):
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def _pack_names(self) -> list[str]:
        try:
            return sorted(n for n in os.listdir(self._packs_folder) if n.endswith(SUFFIX))
        except FileNotFoundError:
            return []

    def _remove_abandoned(self) -> None:
        """Remove what processes that died left unfinished."""
        for entry in os.scandir(self._packs_folder):
            # One that was finished in this moment has another name now.
            with suppress(FileNotFoundError):
                if entry.name.endswith(".tmp") and entry.stat().st_mtime < time.time() - _STALE_S:
                    os.unlink(entry.path)


class ObjectWriter:
    """Adds objects to a store; they are there for good, all of them, after ``finish``."""

    def __init__(self, store: ObjectStore, writer: PackWriter) -> None:
        """Write what a store lacks."""
        self._store = store
        self._writer = writer

    def __contains__(self, digest: bytes) -> bool:
        """Say whether an object is kept already, or will be."""
        return digest in self._writer or digest in self._store

    @property
    def written(self) -> int:
        """How many bytes had to be written."""
        return self._writer.written

    def put(self, digest: bytes, data: bytes, base: bytes | None = None) -> None:
        """Keep an object of at most one piece; ``base`` is one that it probably resembles."""
        if digest in self:
            return
        if base is not None and (known := self._base(base)) is not None:
            self._writer.add(digest, *pack_against(data, known[0], base, known[1]))
        else:
            self._writer.add(digest, *pack(data))

    def put_pieces(self, digest: bytes, pieces: list[bytes]) -> None:
        """Keep an object that is made of others, which are kept already."""
        if digest not in self:
            self._writer.add(digest, PIECES, b"".join(pieces))

    def put_as_it_lay(self, digest: bytes, form: int, payload: bytes) -> None:
        """Keep an object in the form it had in another pack, whether or not it can be read yet."""
        if digest not in self:
            self._writer.add(digest, form, payload)

    def finish(self) -> None:
        """Bring everything to the disk."""
        name = self._writer.finish()
        if name is not None:
            self._store.adopt(name)
            self._store.merge()

    def __enter__(self) -> Self:
        """Begin; what was not finished in the end is forgotten."""
        return self

    def __exit__(self, *_: object) -> None:
        """Forget what was not finished."""
        self._writer.abandon()

    def _base(self, digest: bytes) -> tuple[bytes, int] | None:
        """Return an object's bytes and the depth of whatever is kept against it."""
        found = self._store.find(digest)
        if found is None:
            return None
        one, placed = found
        if placed.form == PIECES:
            return None
        depth = base_of(one.payload(placed))[1] + 1 if placed.form == AGAINST else 1
        try:
            return self._store.get(digest), depth
        except DataMissing:
            return None  # What is damaged is no ground to build on.


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
    """Return digests that stand one after the other."""
    return [payload[at : at + DIGEST_BYTES] for at in range(0, len(payload), DIGEST_BYTES)]


def _crowded(packs: Iterable[Pack]) -> list[Pack]:
    """Return packs of about the same size, if there are too many of them."""
    sizes: dict[int, list[Pack]] = {}
    for one in packs:
        sizes.setdefault(one.size.bit_length() // 3, []).append(one)
    for alike in sizes.values():
        if len(alike) >= PACKS_OF_A_SIZE_MAX:
            return alike
    return []
