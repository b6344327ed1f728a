"""Read exports of hosted chats: a zip, a folder or a file, with one long list of conversations.

Finds the conversations in a list of any length without loading it: each is a byte range, found in
one pass and read again from there. Does not know what a conversation says.
"""

import hashlib
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

from turntree.core.errors import InvalidOperation
from turntree.core.value import value
from turntree.ledger.raw_codec import RawRecord
from turntree.transcripts.importer import TranscriptRef
from turntree.transcripts.importers.shared.lenient_json import check_unpacked, open_file, parse

ASSET_MAX_BYTES: Final = 64 * 1024 * 1024
"""A larger attachment is not read; only its name is stored."""

ELEMENT_MAX_BYTES: Final = 128 * 1024 * 1024
"""A conversation is loaded whole: this bounds the memory it takes."""

Identify: TypeAlias = Callable[[Mapping[str, Any]], str | None]
"""Returns a conversation's id, or None if this tool did not write it."""

_CHUNK_BYTES: Final = 1024 * 1024
_LISTS: Final = re.compile(r"conversations([-_. ]?\(?\d+\)?)?\.json", re.IGNORECASE)
# Everything up to the next bracket outside a string; a lone quote starts a truncated string.
_NEXT: Final = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+([\[\]{}"])', re.DOTALL)
_UNREADABLE: Final = (OSError, zipfile.BadZipFile, zlib.error, RuntimeError, EOFError)
"""A file that is not a zip, is truncated, or needs a password."""


@value
class Piece:
    """The position of one conversation in its file."""

    id: str
    member: str
    """The file within the export; empty if the export is that file."""
    offset: int
    length: int
    stamp: str


def elements(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield the objects of a JSON list with their offsets; a single object counts as a list.

    The last one may be truncated. Input that is not JSON yields anything or nothing.

    Raises:
        InvalidOperation: One of them is larger than any real conversation.
    """
    buffer, base, scan, start, depth, floor = b"", 0, 0, -1, 0, -1
    wanted = _CHUNK_BYTES
    while chunk := stream.read(wanted):
        keep = start if start >= 0 else scan
        buffer, base, scan = buffer[keep:] + chunk, base + keep, scan - keep
        start = 0 if start >= 0 else -1
        before = scan
        while (found := _NEXT.match(buffer, scan)) is not None and (sign := found[1]) != b'"':
            scan = found.end()
            if floor < 0:
                floor = 1 if sign == b"[" else 0
            if sign in b"[{":
                if depth == floor and sign == b"{":
                    start = scan - 1
                depth += 1
                continue
            depth -= 1
            if depth == floor and start >= 0:
                yield base + start, buffer[start:scan]
                start = -1
            if depth <= 0:
                return
        if len(buffer) - (start if start >= 0 else scan) > ELEMENT_MAX_BYTES:
            raise InvalidOperation(
                f"a conversation has more than {ELEMENT_MAX_BYTES:,} bytes, as none has that "
                "people wrote: take it out of the export, and import the rest"
            )
        # The unfinished object is copied, and a truncated string is scanned again: reading more the
        # longer it gets keeps both linear.
        wanted = max(_CHUNK_BYTES, len(buffer) // 2 if scan > before else len(buffer))
        wanted = min(wanted, ELEMENT_MAX_BYTES)
    if start >= 0:
        yield base + start, buffer[start:]


class ExportReader:
    """Finds and reads the conversations of exports, with one pass to find and one to read them.

    A zip can only be unpacked from its start. The last position is kept, so that reading
    conversations in order does not start again for each.
    """

    def __init__(self, origin: str, identify: Identify, hint: bytes) -> None:
        """Read for one tool; ``identify`` names conversations, ``hint`` detects truncated ones."""
        self._origin = origin
        self._identify = identify
        self._hint = hint
        self._last: _Export | None = None

    def open(self, path: Path) -> Iterator[TranscriptRef]:
        """Yield the conversations of an export; nothing if another tool wrote it.

        Raises:
            InvalidOperation: It would unpack to more than the memory holds.
        """
        self._last = None
        try:
            export = self._export(path)
        except _UNREADABLE:
            return
        for piece in export.pieces.values():
            yield TranscriptRef(self._origin, piece.id, (path,), piece.stamp, piece.length)

    def read(self, bundle: TranscriptRef) -> RawRecord:
        """Return a conversation as it is in its list.

        Raises:
            OSError: The export is gone or has changed.
        """
        path = bundle.files[0]
        piece = self._export(path).pieces.get(bundle.id)
        if piece is None:
            raise OSError(f"{path} does not hold the conversation {bundle.id} any longer")
        name = piece.member.rpartition("/")[2] or path.name
        return RawRecord(name, piece.offset, self._export(path).bytes_of(piece))

    def assets(
        self, bundle: TranscriptRef, ids: set[str], pattern: re.Pattern[str]
    ) -> Iterator[RawRecord]:
        """Yield the files of an export whose names begin with one of some ids.

        Raises:
            OSError: The export is gone or has changed.
        """
        export = self._export(bundle.files[0])
        by_id = export.assets(pattern) if ids else {}
        for id in sorted(ids & by_id.keys()):
            with export.opened(by_id[id]) as stream:
                data = stream.read(ASSET_MAX_BYTES + 1)
            name = by_id[id].rpartition("/")[2]
            yield RawRecord(name, 0, data if len(data) <= ASSET_MAX_BYTES else b"")

    def _export(self, path: Path) -> "_Export":
        """Return an export with its conversations indexed; the last one is cached."""
        if self._last is None or self._last.path != path:
            export = _Export(path)
            try:
                for member in export.lists():
                    self._index(export, member)
            except _UNREADABLE:
                # The conversations before the damage are usable.
                pass
            self._last = export
        return self._last

    def _index(self, export: "_Export", member: str) -> None:
        with export.opened(member) as stream:
            for number, (offset, data) in enumerate(elements(stream)):
                document = parse(data)
                id = None if document is None else self._identify(document)
                if id is None and document is None and self._hint in data:
                    id = f"broken-{member}-{offset}"
                if id is None and number == 0:
                    return
                if id is not None and id not in export.pieces:
                    stamp = hashlib.sha256(data).hexdigest()
                    export.pieces[id] = Piece(id, member, offset, len(data), stamp)


class _Export:
    """A zip, a folder or a list, open for reading."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.pieces: dict[str, Piece] = {}
        self._archive = zipfile.ZipFile(path) if zipfile.is_zipfile(path) else None
        self._assets: dict[str, str] | None = None
        self._place: tuple[str, IO[bytes]] | None = None
        """The list of a zip that was read last, as far as it has been unpacked."""

    def lists(self) -> list[str]:
        if self.path.is_file() and self._archive is None:
            return [""] if self.path.suffix.lower() == ".json" else []
        return [name for name in self._names() if _LISTS.fullmatch(name.rpartition("/")[2])]

    def assets(self, pattern: re.Pattern[str]) -> dict[str, str]:
        """Return the names of the files that begin with an id, by id."""
        if self._assets is None:
            named = ((name, pattern.match(name.rpartition("/")[2])) for name in self._names())
            self._assets = {found[0]: name for name, found in named if found is not None}
        return self._assets

    def bytes_of(self, piece: Piece) -> bytes:
        if self._archive is None:
            with self.opened(piece.member) as stream:
                stream.seek(piece.offset)
                return stream.read(piece.length)
        place = self._place
        if place is None or place[0] != piece.member or place[1].tell() > piece.offset:
            place = self._place = (piece.member, self.opened(piece.member))
        place[1].seek(piece.offset)
        return place[1].read(piece.length)

    def opened(self, member: str) -> IO[bytes]:
        if self._archive is not None:
            told = self._archive.getinfo(member)
            # Never unpack more than the declared size.
            check_unpacked(member, told.file_size, told.compress_size)
            return self._archive.open(member)
        if self.path.is_dir():
            return open_file(self.path / member)
        return open_file(self.path.with_name(member) if member else self.path)

    def _names(self) -> list[str]:
        """Return all files of the export; for a single list, those in its folder."""
        if self._archive is not None:
            return sorted(name for name in self._archive.namelist() if not name.endswith("/"))
        folder = self.path if self.path.is_dir() else self.path.parent
        return sorted(file.name for file in folder.iterdir() if file.is_file())
