"""Snapshots without secrets: the files of a thread as a person may give them away.

A text that holds a secret is replaced by the same text without it, so the folder can still be
created from the snapshot. What cannot be cleaned is left out. Knows the object store, not the
ledger.
"""

from collections.abc import Iterator, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Final

from turntree.core.canonical import digest_from_raw, digest_raw
from turntree.core.ids import Digest
from turntree.core.redaction import Redactor
from turntree.resources.drivers.snapshot_driver import as_change
from turntree.resources.file_diff import FileDiff, diff_file, has_to_be_read, pair_renames
from turntree.resources.line_diff import is_binary
from turntree.resources.resource import FileEntry
from turntree.resources.snapshots.store import ObjectStore
from turntree.resources.snapshots.trees import (
    FILE,
    FOLDER,
    TreeEntry,
    compare_nodes,
    read_state,
    read_tree,
    write_tree,
)
from turntree.transfer.archive import bytes_line
from turntree.transfer.archive_files import file_lines

CHECKED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Larger files are not searched for secrets, and so not given away."""


class CleanFiles:
    """Cleans states one by one, and remembers every object that the clean ones need."""

    def __init__(self, store: ObjectStore, redactor: Redactor) -> None:
        """Read the objects of a store, which is not changed."""
        self._store, self._redactor = store, redactor
        self._made = dict[bytes, bytes]()
        """Files and folders that differ from those in the store."""
        self._kept = set[bytes]()
        self._done = dict[tuple[bytes, bytes], TreeEntry | None]()
        self._roots = dict[Digest, TreeEntry]()
        self._redacted, self._left_out = dict[str, int](), set[str]()

    @property
    def redacted(self) -> Mapping[str, int]:
        """The files that held secrets, with the number that was taken out of each."""
        return MappingProxyType(self._redacted)

    @property
    def left_out(self) -> list[str]:
        """The files that are not given away: binary ones with a secret, and those too large."""
        return sorted(self._left_out)

    def clean(self, state: Digest) -> Digest:
        """Return the digest of a state without secrets.

        Raises:
            NotFound: An object of it is not stored here.
        """
        raw = digest_raw(state)
        top = read_state(self._store.get, raw)
        root = self._clean(b"", top)
        # The resource itself may be a file with a secret; an empty one stands for it.
        if root is None:
            root = top._replace(digest=self._keep(b""), size=0)
        if root == top:
            self._kept.add(raw)
        else:
            raw = self._keep(write_tree([root])[1])
        clean = digest_from_raw(raw)
        self._roots[clean] = root
        return clean

    def lines(self) -> Iterator[bytes]:
        """Yield the line of each object that the clean states need."""
        yield from file_lines(self._store, sorted(self._kept))
        for raw in sorted(self._made):
            yield bytes_line("file", digest_from_raw(raw), self._made[raw])

    def diff(self, old: Digest | None, new: Digest) -> list[FileDiff]:
        """Return how two clean states differ, line by line; None is an empty one."""
        before = None if old is None else self._roots[old]
        changes = [as_change(one) for one in compare_nodes(self._get, before, self._roots[new])]
        return [
            diff_file(pair[1], None, None, moved_from=pair[0])
            if isinstance(pair, tuple)
            else diff_file(pair, *(self._read(side) if has_to_be_read(pair) else None
                                   for side in (pair.old, pair.new)))
            for pair in pair_renames(changes)
        ]  # fmt: skip

    def _read(self, entry: FileEntry | None) -> bytes | None:
        if entry is None or entry.digest is None:
            return None
        return self._get(digest_raw(entry.digest))

    def _get(self, raw: bytes) -> bytes:
        made = self._made.get(raw)
        return self._store.get(raw) if made is None else made

    def _keep(self, data: bytes) -> bytes:
        raw = sha256(data).digest()
        self._made[raw] = data
        return raw

    def _clean(self, path: bytes, entry: TreeEntry) -> TreeEntry | None:
        """Return an entry without secrets, or None if it has to be left out."""
        # By path as well, so that the report names every file with a secret, also equal ones.
        key = (path, entry.digest)
        if key not in self._done:
            if entry.kind == FOLDER:
                self._done[key] = self._clean_folder(path, entry)
            elif entry.kind == FILE:
                self._done[key] = self._clean_file(path, entry)
            else:
                self._done[key] = self._as_stored(entry)
        done = self._done[key]
        # The same content may have other permissions in another state.
        return None if done is None else done._replace(mode=entry.mode)

    def _clean_folder(self, path: bytes, folder: TreeEntry) -> TreeEntry:
        before = read_tree(self._store.get(folder.digest))
        prefix = path + b"/" if path else b""
        cleaned = [self._clean(prefix + entry.name, entry) for entry in before]
        after = [entry for entry in cleaned if entry is not None]
        if after == before:
            return self._as_stored(folder)
        digest = self._keep(write_tree(after)[1])
        return folder._replace(
            digest=digest,
            size=sum(entry.size for entry in after),
            files=sum(entry.files for entry in after),
        )

    def _clean_file(self, path: bytes, file: TreeEntry) -> TreeEntry | None:
        name = path.decode("utf-8", "backslashreplace")
        if file.size > CHECKED_BYTES_MAX:
            self._left_out.add(name)
            return None
        data = self._store.get(file.digest)
        clean, count = self._redactor.redact(data)
        if not count:
            return self._as_stored(file)
        # A placeholder is longer or shorter than the secret, which breaks most binary formats.
        if is_binary(data):
            self._left_out.add(name)
            return None
        self._redacted[name] = max(count, self._redacted.get(name, 0))
        return file._replace(digest=self._keep(clean), size=len(clean))

    def _as_stored(self, entry: TreeEntry) -> TreeEntry:
        self._kept.update(self._store.pieces(entry.digest), (entry.digest,))
        return entry
