"""The simplest resource driver: a snapshot is a list of paths and a copy of every file.

For tests of code that uses drivers, and for authors of drivers who want to see how little one has
to promise. Its capabilities can be reduced. It must never be used for anything large: it reads
every byte every time.
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Iterator
from dataclasses import field
from pathlib import Path

import orjson

from turntree.core.errors import InvalidOperation, NotFound, Unsupported
from turntree.core.ids import Digest
from turntree.core.message_context import ChangeKind
from turntree.core.ref import ExtRef
from turntree.core.value import value
from turntree.resources.driver import SnapshotCost, TakenSnapshot
from turntree.resources.resource import CAPABILITIES, Capability, FileChange, FileEntry, Liveness

_MODE = 0o777
_MADE = "made"
EXTERNAL = "copies"


@value
class CopyDriver:
    """Snapshots folders and files by copying them. See ``resources.driver``."""

    store: Path
    kind: str = "directory"
    capabilities: frozenset[Capability] = field(default_factory=lambda: frozenset(CAPABILITIES))

    @property
    def method(self) -> str:
        """The snapshot method."""
        return "copies/1"

    def probe(self, place: str) -> Liveness:
        """Whether the resource exists."""
        return "alive" if os.path.lexists(place) else "dead"

    def measure(self, place: str) -> SnapshotCost:
        """Return what a snapshot would cost."""
        entries = [entry for entry, _ in _walk(Path(place))]
        size = sum(entry.size for entry in entries)
        return SnapshotCost(size, sum(entry.kind == "file" for entry in entries), size)

    def snapshot(self, place: str) -> TakenSnapshot:
        """Copy everything in the resource."""
        self._check("snapshot")
        entries: list[FileEntry] = []
        for entry, data in _walk(Path(place)):
            if entry.digest is not None:
                self._put(entry.digest, data)
            entries.append(entry)
        listed = orjson.dumps(
            [
                [os.fsencode(entry.path).hex(), entry.kind, entry.mode, entry.size, entry.digest]
                for entry in entries
            ]
        )
        id = _digest(listed)
        self._put(id, listed)
        files = [entry for entry in entries if entry.kind == "file"]
        size = sum(entry.size for entry in files)
        return TakenSnapshot(ExtRef(EXTERNAL, id), size, len(files), size)

    def restore(
        self, external: ExtRef, place: str, *, only: Collection[str] | None = None
    ) -> list[FileChange]:
        """Restore a snapshot."""
        self._check("restore")
        root = Path(place)
        now = {entry.path: entry for entry, _ in _walk(root)} if os.path.lexists(root) else {}
        wanted = {entry.path: entry for entry in self.list_entries(external)}
        changes = [
            change for change in _compare(now, wanted) if only is None or change.path in only
        ]
        # Remove obstacles first, deepest first; then create everything, shallowest first.
        for change in reversed(changes):
            if change.old is not None and (
                change.new is None or change.new.kind != change.old.kind
            ):
                _remove(root / change.path if change.path else root)
        for change in changes:
            if change.new is not None:
                self._write(root / change.path if change.path else root, change.new)
        return changes

    def fork(self, external: ExtRef, place: str) -> None:
        """Create a new resource from a snapshot."""
        self._check("fork")
        if os.path.lexists(place):
            raise InvalidOperation(f"there is something at {place} already")
        entries = list(self.list_entries(external))
        draft = Path(f"{place}.draft")
        _remove(draft)
        for entry in entries:
            self._write(draft / entry.path if entry.path else draft, entry)
        (self.store / _MADE).mkdir(parents=True, exist_ok=True)
        self._mark(place).touch()
        draft.rename(place)

    def discard(self, place: str) -> None:
        """Remove a resource that ``fork`` created."""
        if not os.path.lexists(place):
            return
        if not self._mark(place).exists():
            raise InvalidOperation(f"{place} was not made by a fork")
        _remove(Path(place))
        self._mark(place).unlink()

    def list_entries(self, external: ExtRef) -> Iterator[FileEntry]:
        """Yield the entries of a snapshot."""
        for said in orjson.loads(self._get(external.id)):
            yield FileEntry(os.fsdecode(bytes.fromhex(said[0])), *said[1:])

    def read(self, external: ExtRef, path: str) -> bytes:
        """Return a file's bytes or a link's target."""
        for entry in self.list_entries(external):
            if entry.path == path and entry.digest is not None:
                return self._get(entry.digest)
        raise NotFound(f"there is no file {path} in {external.id}")

    def compare(self, old: ExtRef | None, new: ExtRef | None) -> list[FileChange]:
        """Return how two snapshots differ."""
        before, after = (
            {} if one is None else {entry.path: entry for entry in self.list_entries(one)}
            for one in (old, new)
        )
        return _compare(before, after)

    def _check(self, capability: Capability) -> None:
        if capability not in self.capabilities:
            raise Unsupported(f"a {self.kind} has no capability {capability}")

    def _put(self, digest: str, data: bytes) -> None:
        self.store.mkdir(parents=True, exist_ok=True)
        (self.store / digest.removeprefix("sha256:")).write_bytes(data)

    def _get(self, digest: str) -> bytes:
        try:
            return (self.store / digest.removeprefix("sha256:")).read_bytes()
        except FileNotFoundError as error:
            raise NotFound(f"{digest} is not kept here") from error

    def _mark(self, place: str) -> Path:
        return self.store / _MADE / hashlib.sha256(os.fsencode(place)).hexdigest()

    def _write(self, at: Path, entry: FileEntry) -> None:
        if entry.kind == "directory":
            at.mkdir(parents=True, exist_ok=True)
            at.chmod(entry.mode)
            return
        assert entry.digest is not None, "a file and a link have bytes"
        data = self._get(entry.digest)
        draft = at.with_name(f".{at.name}.draft")
        at.parent.mkdir(parents=True, exist_ok=True)
        if entry.kind == "symlink":
            draft.symlink_to(os.fsdecode(data))
        else:
            draft.write_bytes(data)
            draft.chmod(entry.mode)
        draft.replace(at)


def _walk(root: Path) -> Iterator[tuple[FileEntry, bytes]]:
    if not os.path.lexists(root):
        raise NotFound(f"there is nothing at {root}")
    found = [root]
    while found:
        at = found.pop()
        yield _entry(root, at)
        if at.is_dir() and not at.is_symlink():
            found += sorted(at.iterdir(), reverse=True)


def _entry(root: Path, at: Path) -> tuple[FileEntry, bytes]:
    path = "" if at == root else at.relative_to(root).as_posix()
    mode = at.lstat().st_mode
    if stat.S_ISDIR(mode):
        return FileEntry(path, "directory", mode & _MODE, 0, None), b""
    if stat.S_ISLNK(mode):
        target = os.fsencode(at.readlink())
        return FileEntry(path, "symlink", 0o777, len(target), _digest(target)), target
    data = at.read_bytes()
    return FileEntry(path, "file", mode & _MODE, len(data), _digest(data)), data


def _compare(old: dict[str, FileEntry], new: dict[str, FileEntry]) -> list[FileChange]:
    changes: list[FileChange] = []
    for path in sorted(old.keys() | new.keys()):
        before, after = old.get(path), new.get(path)
        if before != after:
            changes.append(FileChange(path, _kind(before, after), before, after))
    return changes


def _kind(before: FileEntry | None, after: FileEntry | None) -> ChangeKind:
    if before is None or after is None:
        return "added" if before is None else "removed"
    same = (before.kind, before.digest) == (after.kind, after.digest)
    return "mode" if same else "changed"


def _remove(at: Path) -> None:
    if at.is_dir() and not at.is_symlink():
        shutil.rmtree(at)
    else:
        at.unlink(missing_ok=True)


def _digest(data: bytes) -> Digest:
    return Digest("sha256:" + hashlib.sha256(data).hexdigest())
