"""Capture a snapshot: read the files that a scan found changed, and build trees.

A file that changes while it is read is read again, and a folder that changed meanwhile is scanned
again. If it never settles, the snapshot is stored as read and marked ``inconsistent``. Uses the
scan, the stat cache and the object store. Never writes to the resource.
"""

import hashlib
import os
import stat
import struct
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Literal, NamedTuple

from turntree.core.errors import NotFound
from turntree.resources.snapshots.bulk_stat import columns_of
from turntree.resources.snapshots.codec import DIGEST_BYTES
from turntree.resources.snapshots.dir_fd import NO_FOLLOW, NO_INHERIT, NO_WAIT
from turntree.resources.snapshots.scan import SIGN, TICK_NS, Scan, ScannedFolder, settled, sign_of
from turntree.resources.snapshots.stat_cache import NEVER_AGAIN, CachedFolder, Folders, StatCache
from turntree.resources.snapshots.store import PIECE_BYTES, ObjectStore, ObjectWriter
from turntree.resources.snapshots.trees import (
    FILE,
    FOLDER,
    LINK,
    MODE,
    PLACE_NAME,
    TreeEntry,
    write_tree,
)

# Files that keep changing never let two passes agree, so stop after this many.
PASSES_MAX: Final = 4
_READS_MAX: Final = 3
_QUICK_S: Final = 0.5
"""If reading took longer, scan again: files may have changed meanwhile."""
_OPEN: Final = os.O_RDONLY | NO_FOLLOW | NO_WAIT | NO_INHERIT
LOGGED: Final = struct.Struct("<Q32s")
STATES_LOG: Final = "states.log"


class CapturedState(NamedTuple):
    """A stored state."""

    state: bytes
    size: int
    files: int
    stored: int
    consistency: Literal["exact", "inconsistent"]


class ReadResult(NamedTuple):
    """A file or link that was read."""

    sign: bytes
    node: TreeEntry
    is_settled: bool


def keep_folder(store: ObjectStore, place: bytes) -> CapturedState:
    """Store the present state of a folder; when this returns, it survives a power cut.

    Raises:
        NotFound: There is no folder.
    """
    # Two names of one folder share one cache.
    place = os.path.realpath(place)
    with _held(store):
        memory = StatCache(os.path.join(store.folder, "places"), place)
        last, folders = memory.load()
        if last is not None and last not in store:
            last, folders = None, {}  # The packs were lost, so the cached digests are not stored.
        with store.begin() as writer:
            kept, now = _settle(writer, store, place, folders)
            writer.finish()
        # A snapshot that found nothing new writes nothing: hooks take one before and after every
        # turn.
        if kept.state != last or any(folders.get(path) is not one for path, one in now.items()):
            memory.save(kept.state, now)
        # After the objects, so that every state in the log was complete once.
        log_state(store, kept.state)
        return kept


def keep_file(store: ObjectStore, place: bytes) -> CapturedState:
    """Store the present state of a file or link; when this returns, it survives a power cut.

    Raises:
        NotFound: There is no file.
    """
    with _held(store):
        with store.begin() as writer:
            read = _read(writer, store, place, PLACE_NAME, None)
            if read is None:
                raise NotFound(f"there is no file at {os.fsdecode(place)}")
            state, data = write_tree([read.node])
            writer.put(state, data)
            writer.finish()
        log_state(store, state)
        told: Literal["exact", "inconsistent"] = "exact" if read.is_settled else "inconsistent"
        return CapturedState(state, read.node.size, 1, writer.written, told)


@contextmanager
def _held(store: ObjectStore) -> Generator[None, None, None]:
    """Block garbage collection meanwhile, and refresh the packs that an earlier one rewrote."""
    with store.lock("store", exclusive=False):
        store.refresh()
        yield


def measure_folder(store: ObjectStore, place: bytes) -> tuple[int, int, int]:
    """Return a folder's size in bytes, its number of files, and the bytes that must be read.

    Raises:
        NotFound: There is no folder.
    """
    place = os.path.realpath(place)
    memory = StatCache(os.path.join(store.folder, "places"), place)
    size = files = changed = 0
    for seen in look_at(store, place, memory.load()[1]).seen:
        sizes = [sign[2] for sign in SIGN.iter_unpack(seen.signs)]
        size += sum(sizes)
        files += len(sizes)
        changed += sum(sizes[number] for number in seen.stale)
    return size, files, changed


def is_touched(store: ObjectStore, place: bytes, since_ns: int) -> bool:
    """Return whether the last scan of a folder saw a file or folder that changed after a time.

    A folder's own time tells of files that were removed.
    """
    memory = StatCache(os.path.join(store.folder, "places"), os.path.realpath(place))
    since_ns -= TICK_NS
    for folder in memory.load()[1].values():
        # A change too recent to be told from the next one is stored without a time.
        if folder.own[0] == NEVER_AGAIN or max(folder.own[:2]) >= since_ns:
            return True
        signs = SIGN.iter_unpack(folder.signs)
        if any(sign[0] == NEVER_AGAIN or max(sign[:2]) >= since_ns for sign in signs):
            return True
    return False


def log_state(store: ObjectStore, state: bytes) -> None:
    """Record when a state was last taken.

    Garbage collection spares recent states, and verification misses a recorded state that is gone.
    """
    path = os.path.join(store.folder, STATES_LOG)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, LOGGED.pack(time.time_ns(), state))
    finally:
        os.close(fd)


def read_states(store: ObjectStore) -> dict[bytes, int]:
    """Return the recorded states that are not dropped yet, and when each was last taken."""
    try:
        with open(os.path.join(store.folder, STATES_LOG), "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return {}
    # The last entry may be cut off: a crash, or a full disk.
    whole = len(data) - len(data) % LOGGED.size
    return {state: at for at, state in LOGGED.iter_unpack(data[:whole])}


def _settle(
    writer: ObjectWriter, store: ObjectStore, place: bytes, folders: Folders
) -> tuple[CapturedState, Folders]:
    """Store a folder, repeatedly until it stops changing or the attempts are used up."""
    last: bytes | None = None
    for left in reversed(range(PASSES_MAX)):
        look = look_at(store, place, folders)
        began = time.monotonic()
        one = _Pass(writer, store, look)
        folders = one.folders
        state, data = write_tree([one.top])
        writer.put(state, data)
        quick = time.monotonic() - began < _QUICK_S
        # A quick pass leaves no time for a change that the stat of each file would not show. A slow
        # one has to find the same state twice.
        is_exact = one.is_settled and not look.vanished and (quick or state == last)
        if is_exact or not left:
            told: Literal["exact", "inconsistent"] = "exact" if is_exact else "inconsistent"
            return CapturedState(state, one.top.size, one.top.files, writer.written, told), folders
        last = state
    raise AssertionError("the last passage returns")


def look_at(store: ObjectStore, place: bytes, folders: Folders) -> Scan:
    """Scan a folder.

    Raises:
        NotFound: There is none.
    """
    try:
        own = os.stat(os.path.dirname(store.folder))
    except FileNotFoundError:
        # The store does not exist yet, so there is nothing of it to leave out.
        aside = None
    else:
        aside = own.st_dev, own.st_ino
    try:
        return Scan(place, folders, aside)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFound(f"there is no folder at {os.fsdecode(place)}") from error


class _Pass:
    """One pass over a folder, from the deepest folders to the root."""

    def __init__(self, writer: ObjectWriter, store: ObjectStore, look: Scan) -> None:
        self._writer = writer
        self._store = store
        self._look = look
        self._changed = set(look.lost)
        """Folders that contain a changed folder."""
        self.folders: Folders = {}
        self.is_settled = True
        for seen in reversed(look.seen):
            before = seen.before
            # Unchanged folders keep their tree without a look at their files. That is why the
            # second snapshot of a large folder costs a scan and no reads.
            if before is not None and seen.is_same and seen.path not in self._changed:
                self.folders[seen.path] = before
            else:
                self._keep(seen)
        self.top = _folder_node(PLACE_NAME, self.folders[b""])

    def _keep(self, seen: ScannedFolder) -> None:
        prefix = seen.path + b"/" if seen.path else b""
        folders = [
            _folder_node(name, found)
            for name in seen.folders
            if (found := self.folders.get(prefix + name)) is not None
        ]
        now = self._build(seen, folders)
        before = seen.before
        self.folders[seen.path] = now
        if before is None or (before.tree, before.own[3]) != (now.tree, now.own[3]):
            self._changed.add(seen.path.rpartition(b"/")[0])

    def _build(self, seen: ScannedFolder, folders: list[TreeEntry]) -> CachedFolder:
        """Read what is stale in a folder and write its tree."""
        names, signs, nodes = self._read_names(seen)
        every = [*nodes, *folders]
        digest, data = write_tree(every)
        # Most of a changed folder is as it was, so its tree is stored as a difference to the one
        # before.
        self._writer.put(digest, data, seen.before.tree if seen.before is not None else None)
        own = seen.own
        if len(every) < len(seen.names) + len(seen.folders):
            own = (NEVER_AGAIN, *own[1:])  # What could not be read may be readable next time.
        signed = b"".join(signs)
        return CachedFolder(
            own=own,
            stamp=seen.stamp,
            special=seen.special,
            names=b"/".join(names),
            signs=signed,
            columns=columns_of(SIGN.iter_unpack(signed)),
            digests=b"".join(node.digest for node in nodes),
            folders=b"/".join(node.name for node in folders),
            sealed=b"/".join(seen.sealed),
            tree=digest,
            size=sum(node.size for node in every),
            files=sum(node.files for node in every),
        )

    def _read_names(self, seen: ScannedFolder) -> tuple[list[bytes], list[bytes], list[TreeEntry]]:
        known = _known(seen.before)
        stale = set(seen.stale)
        base = self._look.place + (b"/" + seen.path + b"/" if seen.path else b"/")
        names: list[bytes] = []
        signs: list[bytes] = []
        nodes: list[TreeEntry] = []
        for number, name in enumerate(seen.names):
            sign = seen.signs[number * SIGN.size : (number + 1) * SIGN.size]
            if number not in stale:
                _, _, size, _, mode = SIGN.unpack(sign)
                node = _node(name, mode, size, known[name])
            else:
                read = _read(self._writer, self._store, base + name, name, known.get(name))
                if read is None:
                    # Gone since the scan, or unreadable: an unreadable file is left out.
                    self.is_settled &= os.path.lexists(base + name)
                    continue
                sign, node = read.sign, read.node
                self.is_settled &= read.is_settled
            names.append(name)
            signs.append(sign)
            nodes.append(node)
        return names, signs, nodes


def _known(before: CachedFolder | None) -> dict[bytes, bytes]:
    """Return the digests of a folder's files as last captured."""
    if before is None or not before.names:
        return {}
    return {
        name: before.digests[at * DIGEST_BYTES : (at + 1) * DIGEST_BYTES]
        for at, name in enumerate(before.names.split(b"/"))
    }


def _read(
    writer: ObjectWriter, store: ObjectStore, path: bytes, name: bytes, base: bytes | None
) -> ReadResult | None:
    """Read a file or link into the store; None if it does not exist or may not be read."""
    for left in reversed(range(_READS_MAX)):
        try:
            found = os.lstat(path)
            now = time.time_ns()
            if stat.S_ISLNK(found.st_mode):
                target = os.readlink(path)
                digest = hashlib.sha256(target).digest()
                writer.put(digest, target)
                after, size = os.lstat(path), len(target)
            elif stat.S_ISREG(found.st_mode):
                found, after, digest, size = _read_file(writer, store, path, base)
            else:
                return None
        except OSError:
            # The file changed its kind or went away while it was read. A snapshot of a folder in
            # use is the state of each file at some point, not of all at one.
            return None
        if sign_of(found) == sign_of(after):
            changed = settled(found.st_ctime_ns, found.st_mtime_ns, now)
            if size != found.st_size:
                changed = NEVER_AGAIN  # A file that does not know its size cannot be trusted.
            sign = SIGN.pack(changed, *sign_of(found)[1:])
            return ReadResult(sign, _node(name, found.st_mode, size, digest), is_settled=True)
        if not left:
            sign = SIGN.pack(NEVER_AGAIN, *sign_of(after)[1:])
            return ReadResult(sign, _node(name, after.st_mode, size, digest), is_settled=False)
    raise AssertionError("the last reading returns")


def _read_file(
    writer: ObjectWriter, store: ObjectStore, path: bytes, base: bytes | None
) -> tuple[os.stat_result, os.stat_result, bytes, int]:
    """Return a file's stat before and after reading, its digest and its size."""
    fd = os.open(path, _OPEN)
    try:
        before = os.fstat(fd)
        data = os.read(fd, PIECE_BYTES + 1)
        more = data if len(data) > PIECE_BYTES else os.read(fd, 1)
        if not more:
            digest = hashlib.sha256(data).digest()
            writer.put(digest, data, base)
            return before, os.fstat(fd), digest, len(data)
        os.lseek(fd, 0, os.SEEK_SET)
        digest, size = _read_pieces(writer, store, fd, base)
        return before, os.fstat(fd), digest, size
    finally:
        os.close(fd)


def _read_pieces(
    writer: ObjectWriter, store: ObjectStore, fd: int, base: bytes | None
) -> tuple[bytes, int]:
    olds = store.pieces(base) if base is not None and base in store else []
    whole = hashlib.sha256()
    pieces: list[bytes] = []
    size = 0
    while data := _read_full(fd):
        digest = hashlib.sha256(data).digest()
        writer.put(digest, data, olds[len(pieces)] if len(pieces) < len(olds) else None)
        pieces.append(digest)
        whole.update(data)
        size += len(data)
    writer.put_pieces(whole.digest(), pieces)
    return whole.digest(), size


def _read_full(fd: int) -> bytes:
    """Return the next piece, complete unless the file ends in it."""
    data = os.read(fd, PIECE_BYTES)
    while data and len(data) < PIECE_BYTES and (more := os.read(fd, PIECE_BYTES - len(data))):
        data += more
    return data


def _folder_node(name: bytes, folder: CachedFolder) -> TreeEntry:
    return TreeEntry(name, FOLDER, folder.own[3] & MODE, folder.size, folder.files, folder.tree)


def _node(name: bytes, mode: int, size: int, digest: bytes) -> TreeEntry:
    if stat.S_ISLNK(mode):
        return TreeEntry(name, LINK, 0, size, 1, digest)
    return TreeEntry(name, FILE, mode & MODE, size, 1, digest)
