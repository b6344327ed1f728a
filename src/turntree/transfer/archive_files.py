"""The files of snapshots in an archive: every object that a snapshot needs, once.

A file above a mebibyte is stored in pieces, and comes as those and a line that lists them.
"""

from collections.abc import Collection, Iterator
from hashlib import sha256

from turntree.core.canonical import digest_from_raw, digest_raw, parse_digest
from turntree.core.errors import InvalidOperation, NotCanonical, NotFound
from turntree.core.ids import Digest
from turntree.resources.snapshots.store import ObjectStore, ObjectWriter
from turntree.resources.snapshots.trees import FOLDER, read_state, read_tree
from turntree.transfer.archive import ArchiveLine, bytes_line, line_of


def list_needed(store: ObjectStore, states: Collection[Digest]) -> tuple[list[bytes], int]:
    """Return the objects of snapshots in order, and the number of snapshots that are incomplete."""
    needed: set[bytes] = set()
    missing = 0
    for state in states:
        try:
            raw = digest_raw(parse_digest(state))
            nodes = [read_state(store.get, raw)]
            needed.add(raw)
            while nodes:
                node = nodes.pop()
                if node.digest in needed:
                    continue
                pieces = store.pieces(node.digest)
                needed.update(pieces, (node.digest,))
                if node.kind == FOLDER:
                    nodes += read_tree(store.get(node.digest))
        except (NotFound, NotCanonical):
            # Another machine has it, or it is damaged. The rest of the ledger is worth keeping.
            missing += 1
    return sorted(needed), missing


def file_lines(store: ObjectStore, needed: Collection[bytes]) -> Iterator[bytes]:
    """Yield the line of each object; one that was deleted meanwhile is left out."""
    for raw in needed:
        digest = digest_from_raw(raw)
        try:
            pieces = store.pieces(raw)
            if pieces == [raw]:
                yield bytes_line("file", digest, store.get(raw))
            else:
                listed = [digest_from_raw(piece) for piece in pieces]
                yield line_of("file", {"digest": digest, "pieces": listed})
        except NotFound:
            continue


class FileImport:
    """Stores the files of an archive. Without a matching row, garbage collection removes them."""

    def __init__(self, store: ObjectStore) -> None:
        """Write to a store from the first file on."""
        self._store = store
        self._writer: ObjectWriter | None = None
        self._whole = dict[bytes, list[bytes]]()
        """Files in pieces, whose pieces may come after them."""
        self.added = 0

    def add(self, line: ArchiveLine) -> None:
        """Store one object; it can be read after ``finish``."""
        if self._writer is None:
            self._writer = self._store.begin()
        raw = digest_raw(parse_digest(line.document["digest"]))
        self.added += raw not in self._writer
        if "pieces" in line.document:
            self._whole[raw] = [digest_raw(parse_digest(one)) for one in line.document["pieces"]]
        else:
            self._writer.put(raw, line.data)

    def finish(self) -> None:
        """Sync all files to disk, and verify those in pieces.

        Raises:
            InvalidOperation: The pieces do not make up the file.
        """
        if self._writer is None:
            return
        self._writer.finish()
        # Only after they are verified: the store would take a damaged file for one that it has, and
        # the next snapshot of the right one would not be written.
        writer = self._store.begin()
        for raw, pieces in self._whole.items():
            whole = sha256()
            try:
                for piece in pieces:
                    whole.update(self._store.get(piece))
            except NotFound as error:
                raise InvalidOperation(f"the archive lacks a part of {raw.hex()}") from error
            if whole.digest() != raw:
                raise InvalidOperation(f"the archive's file {raw.hex()} is damaged")
            writer.put_pieces(raw, pieces)
        writer.finish()
