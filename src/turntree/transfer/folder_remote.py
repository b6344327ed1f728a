"""A folder as a remote: parts and objects by their digests, and heads, all of them only added.

Files are written under another name, synced and then renamed, so a reader sees all of a file or
none of it. Two pushers never write the same name with other bytes. Everything that is read may have
been written by a stranger: its size is limited and its digest compared before it is used.
"""

import os
import re
import zlib
from collections.abc import Callable, Collection, Generator, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Final, cast

from turntree.core.canonical import digest_raw
from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.ids import Digest, TurnId
from turntree.transfer.remote import (
    FORMAT,
    Part,
    PartOpening,
    RemoteHead,
    head_from_bytes,
    head_to_bytes,
    is_part_name,
    join_part,
    read_opening,
    turns_from_bytes,
    turns_to_bytes,
)

MARK: Final = "turntree-remote"
"""The file that makes a folder a remote."""
MARK_BYTES_MAX: Final = 100
HEAD_BYTES_MAX: Final = 16 * 1024
HEADS_MAX: Final = 100_000
OPENING_BYTES_MAX: Final = 4 << 20
OPENING_READ_BYTES: Final = 512
LIST_BYTES_MAX: Final = 1 << 20
UNPACKED_BYTES_MAX: Final = 4 << 30
OBJECT_BYTES_MAX: Final = 1 << 30
"""An object is read into memory, and written as one line."""
LINE_BYTES_MAX: Final = 1 << 30
MEMORY_BYTES_MAX: Final = 16 << 20
READ_BYTES: Final = 1 << 20
LANES_MAX: Final = 1000
_COMPRESSION: Final = 6
_FRESH: Final = re.compile(r"\.[0-9]+-[0-9a-f]{16}")
"""Names of files that are being written."""


class FolderRemote:
    """Reads and writes a folder, and counts the bytes that it moves."""

    def __init__(self, folder: Path) -> None:
        """Use a folder that exists, or that is created by the first push."""
        self.folder = folder
        self.read_bytes, self.written_bytes = 0, 0

    def check(self) -> None:
        """Raise unless the folder is a remote that this version can read.

        Raises:
            NotFound: It is no remote.
            InvalidOperation: It is one of a newer version.
        """
        try:
            with self._open(self.folder / MARK) as file:
                told = file.read(MARK_BYTES_MAX)
        except (OSError, InvalidOperation) as error:
            raise NotFound(f"{self.folder} is not a remote: nothing was pushed to it") from error
        if told != f"{FORMAT}\n".encode():
            raise InvalidOperation(f"{self.folder} has another format; upgrade to read it")

    def create(self) -> None:
        """Make the folder a remote, unless it is one.

        Raises:
            InvalidOperation: Other files are in it.
        """
        if (self.folder / MARK).exists():
            self.check()
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        others = any(_FRESH.fullmatch(path.name) is None for path in self.folder.iterdir())
        # Another pusher may be creating it, too. What it writes after the mark may be listed, and
        # the mark not.
        if others and not (self.folder / MARK).exists():
            raise InvalidOperation(f"{self.folder} is not empty, and not a remote")
        self._write(self.folder / MARK, f"{FORMAT}\n".encode())

    def list_heads(self) -> list[RemoteHead]:
        """Return the heads of all sessions and owners, except withdrawn ones.

        Raises:
            InvalidOperation: One of them cannot be read.
        """
        heads = [self._newest(lane) for lane in self._lanes()]
        return [head for head in heads if head is not None and head.head is not None]

    def set_head(self, head: RemoteHead, continued: Collection[TurnId]) -> bool:
        """Record where a session stands: after heads that it continues, beside all others.

        Returns False if that is recorded already.
        """
        lane = 0
        while lane < LANES_MAX:
            place = self._lane(head.session, head.owner, lane)
            records = self._records(place)
            newest = self._read_head(place / str(records[-1])) if records else None
            if newest is not None and newest.head == head.head:
                return False
            if newest is None or newest.head is None or newest.head in continued:
                number = records[-1] + 1 if records else 1
                # The name is taken if another pusher was faster: then look again.
                if self._write_new(place / str(number), head_to_bytes(head)):
                    return True
                continue
            lane += 1
        raise InvalidOperation(f"the remote has too many heads of {head.session}")

    def withdraw(self, session: str, owner: str, head: TurnId) -> RemoteHead | None:
        """Take back the last record of a head, and return the one before it.

        Raises:
            NotFound: The owner has no such head in the remote.
        """
        for lane in range(LANES_MAX):
            place = self._lane(session, owner, lane)
            records = self._records(place)
            if not records:
                break
            newest = self._read_head(place / str(records[-1]))
            if newest.head != head:
                continue
            earlier = self._read_head(place / str(records[-2])) if len(records) > 1 else None
            told = earlier or RemoteHead(session, owner, None, None, 0, newest.at)
            if self._write_new(place / str(records[-1] + 1), head_to_bytes(told)):
                return told
            # The same person has pushed from another machine meanwhile, and that stays.
            break
        raise NotFound(f"you have not pushed {session} as it is now")

    def read_indexes(self) -> dict[TurnId, str]:
        """Return the part that holds each turn."""
        found = dict[TurnId, str]()
        for path in sorted((self.folder / "turns").glob("*/*")):
            # A part whose list is missing or damaged is sent again. That costs space, and no more.
            if is_part_name(path.name) and self._part(path.name).is_file():
                with suppress(InvalidOperation), self._open(path) as file:
                    data = file.read(LIST_BYTES_MAX)
                    self.read_bytes += len(data)
                    found.update((turn, path.name) for turn in turns_from_bytes(data))
        return found

    def read_opening(self, name: str) -> PartOpening:
        """Return what a part says in its first line, without reading more of it.

        Raises:
            InvalidOperation: It is missing or cannot be read.
        """
        inflater, first = zlib.decompressobj(), b""
        with self._open(self._part(name)) as file:
            while b"\n" not in first and len(first) < OPENING_BYTES_MAX:
                packed = file.read(OPENING_READ_BYTES)
                self.read_bytes += len(packed)
                if not packed:
                    break
                try:
                    first += inflater.decompress(packed, OPENING_BYTES_MAX)
                except zlib.error as error:
                    raise InvalidOperation(f"part {name} of the remote is damaged") from error
        return read_opening(first.partition(b"\n")[0])

    def add_part(self, part: Part) -> str:
        """Store a part and the objects that are missing, and return its name."""
        for digest, data in part.objects.items():
            place = self._object(digest)
            if not place.exists():
                self._write(place, zlib.compress(data, _COMPRESSION))
        packed = zlib.compress(part.data, _COMPRESSION)
        name = sha256(packed).hexdigest()
        # After its objects: a part that can be read is complete.
        if not self._part(name).exists():
            self._write(self._part(name), packed)
        self._write(self.folder / "turns" / name[:2] / name, turns_to_bytes(part.turns))
        return name

    @contextmanager
    def open_part(self, name: str, has: Callable[[str, Digest], bool]) -> Generator[IO[bytes]]:
        """Open a part as an archive, with the objects that the reader does not have.

        Raises:
            InvalidOperation: It is missing, cut off or changed.
        """
        with (
            SpooledTemporaryFile(MEMORY_BYTES_MAX) as lines,
            SpooledTemporaryFile(MEMORY_BYTES_MAX) as archive,
        ):
            self._unpack(self._part(name), name, f"part {name}", lines, UNPACKED_BYTES_MAX)
            lines.seek(0)
            for line in join_part(_bounded(cast("IO[bytes]", lines)), has, self._get):
                archive.write(line)
            archive.seek(0)
            yield cast("IO[bytes]", archive)

    def _get(self, digest: Digest) -> bytes:
        raw = digest_raw(digest)
        with SpooledTemporaryFile(MEMORY_BYTES_MAX) as data:
            # Its name is the digest of what it holds, which the reader of the archive compares.
            what = f"object {raw.hex()}"
            self._unpack(self._object(digest), None, what, data, OBJECT_BYTES_MAX)
            data.seek(0)
            return data.read()

    def _unpack(
        self,
        path: Path,
        name: str | None,
        what: str,
        into: "SpooledTemporaryFile[bytes]",
        bytes_max: int,
    ) -> None:
        inflater, packed_digest, unpacked = zlib.decompressobj(), sha256(), 0
        with self._open(path) as file:
            while packed := file.read(READ_BYTES):
                self.read_bytes += len(packed)
                packed_digest.update(packed)
                try:
                    # A few bytes can unpack to gigabytes, so each step has a limit.
                    while packed:
                        data = inflater.decompress(packed, MEMORY_BYTES_MAX)
                        unpacked += len(data)
                        if unpacked > bytes_max:
                            raise InvalidOperation(f"{what} of the remote is too large")
                        into.write(data)
                        packed = inflater.unconsumed_tail
                except zlib.error as error:
                    raise InvalidOperation(f"{what} of the remote is damaged") from error
        if not inflater.eof or (name is not None and packed_digest.hexdigest() != name):
            raise InvalidOperation(f"{what} of the remote was cut off or changed")

    @contextmanager
    def _open(self, path: Path) -> Generator[IO[bytes]]:
        try:
            # No link is followed: one could lead to a pipe, or to a file that is not the remote's.
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            raise InvalidOperation(f"the remote lacks {path.name}: {error.strerror}") from error
        with os.fdopen(handle, "rb") as file:
            yield file

    def _lanes(self) -> list[Path]:
        lanes = sorted((self.folder / "heads").glob("*"))
        if len(lanes) > HEADS_MAX:
            raise InvalidOperation(f"the remote has more than {HEADS_MAX:,} heads")
        return lanes

    def _newest(self, lane: Path) -> RemoteHead | None:
        records = self._records(lane)
        return self._read_head(lane / str(records[-1])) if records else None

    def _records(self, lane: Path) -> list[int]:
        """Return the numbers of the records of a head; the newest one counts."""
        if not lane.is_dir():
            return []
        names = [path.name for path in lane.iterdir()]
        return sorted(int(name) for name in names if name.isascii() and name.isdecimal())

    def _read_head(self, path: Path) -> RemoteHead:
        with self._open(path) as file:
            data = file.read(HEAD_BYTES_MAX + 1)
        self.read_bytes += len(data)
        if len(data) > HEAD_BYTES_MAX:
            raise InvalidOperation("the remote has a head that cannot be read")
        return head_from_bytes(data)

    def _lane(self, session: str, owner: str, lane: int) -> Path:
        # A label may have slashes, and be longer than a file name.
        name = sha256("\0".join((session, owner, str(lane))).encode()).hexdigest()
        return self.folder / "heads" / name

    def _part(self, name: str) -> Path:
        return self.folder / "parts" / name[:2] / name

    def _object(self, digest: Digest) -> Path:
        name = digest_raw(digest).hex()
        return self.folder / "objects" / name[:2] / name

    def _write(self, path: Path, data: bytes) -> None:
        """Write a file whose bytes do not depend on who writes it."""
        with self._written(path, data) as fresh:
            fresh.replace(path)

    def _write_new(self, path: Path, data: bytes) -> bool:
        """Write a file unless it exists."""
        with self._written(path, data) as fresh:
            try:
                os.link(fresh, path)
            except FileExistsError:
                return False
        return True

    @contextmanager
    def _written(self, path: Path, data: bytes) -> Generator[Path]:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.parent.resolve().is_relative_to(self.folder.resolve()):
            # Another user of the folder may have put a link there.
            raise InvalidOperation(f"{path.parent} leads out of the remote: nothing was written")
        fresh = path.parent / f".{os.getpid()}-{os.urandom(8).hex()}"
        try:
            with fresh.open("xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield fresh
            self.written_bytes += len(data)
            _sync_folder(path.parent)
        finally:
            fresh.unlink(missing_ok=True)


def _bounded(file: IO[bytes]) -> Iterator[bytes]:
    while line := file.readline(LINE_BYTES_MAX):
        if len(line) == LINE_BYTES_MAX:
            raise InvalidOperation("a line of the remote is longer than any that was written")
        yield line


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
