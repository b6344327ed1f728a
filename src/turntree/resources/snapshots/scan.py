"""Scan a folder: which folders, files and links exist, and which may have changed.

It reads no file, except those with ignore rules. A folder whose timestamps are unchanged is not
listed again; only its entries are checked. Knows the file system and the rules, not the store.
"""

import os
import struct
import time
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from turntree.resources.snapshots.bulk_stat import find_bulk_stat
from turntree.resources.snapshots.dir_fd import NO_FOLLOW, OPEN_FOLDER
from turntree.resources.snapshots.ignore_rules import (
    NEVER,
    RULE_FILES,
    STAMP_BYTES,
    UNFINISHED,
    IgnoreDecision,
    IgnoreRules,
    rules_above,
)
from turntree.resources.snapshots.stat_cache import NEVER_AGAIN, CachedFolder, Folders, Own
from turntree.system.processes import require_file_locks

SIGN: Final = struct.Struct("<5q")
"""Of a file: when its entry and its bytes changed (ns), its size, inode and mode."""
sign_of: Final = attrgetter("st_ctime_ns", "st_mtime_ns", "st_size", "st_ino", "st_mode")
_own_of: Final = attrgetter("st_ctime_ns", "st_mtime_ns", "st_ino", "st_mode")
_NS: Final = 1_000_000_000
TICK_NS: Final = 20_000_000
"""Two changes closer than this may have the same timestamp: the kernel's file clock is coarse."""
_COARSE_TICK_NS: Final = 2 * _NS
"""The same, for file systems that store whole seconds."""
_BULK_FILES_MIN: Final = 4_000
"""In a smaller folder, preparing the bulk stat takes longer than it saves."""


_STAYS: Final = frozenset((IgnoreDecision.KEPT, IgnoreDecision.WANTED, IgnoreDecision.SEALED))
_WHATEVER_IS_TRACKED: Final = frozenset((IgnoreDecision.KEPT, IgnoreDecision.LEFT_OUT))


class ScannedFolder:
    """One folder as it is now."""

    __slots__ = (
        "before", "folders", "is_same", "names", "own", "path", "sealed", "signs", "special",
        "stale", "stamp",
    )  # fmt: skip

    def __init__(
        self, path: bytes, own: Own, special: tuple[bytes, ...], before: CachedFolder | None
    ) -> None:
        """Start with the folder's own stat; its entries follow."""
        self.path, self.own, self.special, self.before = path, own, special, before
        self.stamp = b""
        self.names: list[bytes] = []
        self.signs = b""
        self.folders: list[bytes] = []
        self.sealed: list[bytes] = []
        self.is_same = False
        """Whether nothing in it except folders can have changed."""
        self.stale: Sequence[int] = ()
        """Which of the names must be read."""


class Scan:
    """Everything that one scan of a folder found."""

    def __init__(self, place: bytes, folders: Folders, aside: tuple[int, int] | None) -> None:
        """Scan a folder, by its real path; ``aside`` is the store's folder: device and inode.

        Raises:
            FileNotFoundError: Nothing exists there.
            NotADirectoryError: It is not a folder.
            Unsupported: This system cannot take snapshots.
        """
        require_file_locks()
        self.place = place
        self.seen: list[ScannedFolder] = []
        """Folders, each after the one that contains it."""
        self.vanished = False
        """Whether something disappeared during the scan."""
        self.lost: set[bytes] = set()
        """Folders that contain a folder which could not be read."""
        self._aside = aside
        self._folders = folders
        top = folders.get(b"")
        self._bulk = find_bulk_stat() if top is not None and top.files >= _BULK_FILES_MIN else None
        waiting = [(b"", rules_above(place))]
        while waiting:
            path, rules = waiting.pop()
            try:
                seen, inside = self._look(path, rules)
            except OSError as error:
                if not path:
                    raise
                # Otherwise it is unreadable, or its path is too long for the system: left out.
                self.vanished |= isinstance(error, FileNotFoundError | NotADirectoryError)
                self.lost.add(path.rpartition(b"/")[0])
                continue
            self.seen.append(seen)
            if not seen.folders:
                continue
            prefix = path + b"/" if path else b""
            open_ = inside.below(sealed=False)
            waiting += [
                (prefix + name, inside.below(sealed=True) if name in seen.sealed else open_)
                for name in seen.folders
            ]

    def _look(self, path: bytes, rules: IgnoreRules) -> tuple[ScannedFolder, IgnoreRules]:
        where = self.place + b"/" + path if path else self.place
        before = self._folders.get(path)
        fd = os.open(where, OPEN_FOLDER if path else OPEN_FOLDER & ~NO_FOLLOW)
        try:
            own: Own = _own_of(os.fstat(fd))
            listing = None
            if before is None or before.own != own:
                own = (settled(own[0], own[1], time.time_ns()), *own[1:])
                listing = _FolderListing(fd, self._aside)
            special = listing.special if listing is not None else before.special if before else ()
            inside = rules
            if special:
                inside = rules.inside(where, special, top=not path)
            seen = ScannedFolder(path, own, special, before)
            if before is None or listing is not None or before.stamp != _stamp(inside, before):
                _choose(seen, listing or _FolderListing(fd, self._aside), inside, where)
            else:
                seen.is_same = True
                seen.stamp = before.stamp
                seen.names = _split(before.names)
                seen.folders = _split(before.folders)
                seen.sealed = _split(before.sealed)
            self._sign(seen, fd)
        finally:
            os.close(fd)
        return seen, inside

    def _sign(self, seen: ScannedFolder, fd: int) -> None:
        """Record the stat of every name, and which of them changed."""
        before = seen.before
        if (
            self._bulk is not None
            and before is not None
            and seen.is_same
            # A sign that was stored without a time equals no columns, so the file is read again.
            and self._bulk.columns(fd, seen.names) == before.columns
        ):
            seen.signs = before.signs
            return
        sign, get, look = SIGN.pack, sign_of, os.lstat
        try:
            seen.signs = b"".join([sign(*get(look(name, dir_fd=fd))) for name in seen.names])
        except FileNotFoundError:
            # The usual case is one list comprehension, because this line runs for every file of the
            # folder. Only a folder that changes while it is read takes the slower way.
            self.vanished = True
            self._sign_what_is_left(seen, fd)
        if before is None:
            seen.stale = range(len(seen.names))
            return
        seen.is_same = seen.is_same and seen.signs == before.signs
        if not seen.is_same:
            old = dict(zip(_split(before.names), _cut(before.signs), strict=True))
            now = zip(seen.names, _cut(seen.signs), strict=True)
            seen.stale = [at for at, (name, signed) in enumerate(now) if old.get(name) != signed]

    def _sign_what_is_left(self, seen: ScannedFolder, fd: int) -> None:
        left: list[bytes] = []
        signs: list[bytes] = []
        for name in seen.names:
            try:
                signs.append(SIGN.pack(*sign_of(os.lstat(name, dir_fd=fd))))
            except FileNotFoundError:
                continue
            left.append(name)
        seen.names, seen.signs = left, b"".join(signs)


class _FolderListing:
    """What a folder holds, before anything is left out."""

    def __init__(self, fd: int, aside: tuple[int, int] | None) -> None:
        self.files: list[bytes] = []
        self.folders: list[bytes] = []
        special: list[bytes] = []
        with os.scandir(fd) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                if name in NEVER:
                    special.append(name)
                elif name.startswith(UNFINISHED):
                    continue
                elif entry.is_dir(follow_symlinks=False):
                    if aside is None or not _is(entry, aside):
                        self.folders.append(name)
                elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                    self.files.append(name)
                    if name in RULE_FILES and not entry.is_symlink():
                        special.append(name)
        self.files.sort()
        self.folders.sort()
        self.special = tuple(sorted(special))


def settled(changed_ns: int, modified_ns: int, now_ns: int) -> int:
    """Return the time of a change, if every later one will have another timestamp."""
    latest = max(changed_ns, modified_ns)
    tick = TICK_NS if latest % _NS else _COARSE_TICK_NS
    return changed_ns if latest + tick < now_ns else NEVER_AGAIN


def _choose(seen: ScannedFolder, listing: _FolderListing, rules: IgnoreRules, where: bytes) -> None:
    """Leave out what the rules leave out."""
    base = where + b"/"
    found: set[IgnoreDecision] = set()
    for names, kept, folder in (
        (listing.files, seen.names, False),
        (listing.folders, seen.folders, True),
    ):
        for name in names:
            verdict = rules.judge(base + name, name, folder=folder)
            found.add(verdict)
            if verdict in _STAYS:
                kept.append(name)
            if verdict is IgnoreDecision.SEALED:
                seen.sealed.append(name)
    seen.stamp = rules.stamp if found <= _WHATEVER_IS_TRACKED else rules.stamp_where_ignored


def _stamp(rules: IgnoreRules, before: CachedFolder) -> bytes:
    """Return the token a folder must have had for the same entries to be chosen."""
    return rules.stamp if len(before.stamp) == STAMP_BYTES else rules.stamp_where_ignored


def _is(entry: os.DirEntry[str], aside: tuple[int, int]) -> bool:
    return entry.inode() == aside[1] and entry.stat(follow_symlinks=False).st_dev == aside[0]


def _split(names: bytes) -> list[bytes]:
    return names.split(b"/") if names else []


def _cut(signs: bytes) -> list[bytes]:
    return [signs[at : at + SIGN.size] for at in range(0, len(signs), SIGN.size)]
