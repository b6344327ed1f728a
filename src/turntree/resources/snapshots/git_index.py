"""Read git's index to learn which paths a repository tracks; it is never written.

A file can be ignored and tracked at the same time, and then it belongs in snapshots. Knows the
layout of the index, versions 2 to 4.
"""

import os
import struct
from bisect import bisect_left
from functools import cached_property
from typing import Final

_HEAD: Final = struct.Struct(">4sII")
_MAGIC: Final = b"DIRC"
_STAT_BYTES: Final = 40
_SHA1_BYTES: Final = 20
_SHA256_BYTES: Final = 32
_EXTENDED: Final = 0x4000
_EXTENDED_SINCE: Final = 3
_PREFIXED_SINCE: Final = 4
_MORE: Final = 0x80


class GitIndex:
    """The paths that one repository tracks."""

    def __init__(self, base: bytes) -> None:
        """Use the repository of a folder, which is given with a slash at its end."""
        self.base = base
        self._git = _git_folder(base)

    @cached_property
    def stamp(self) -> bytes:
        """A token that changes when the index is rewritten."""
        try:
            found = os.stat(self._git + b"/index")
        except OSError:
            return b"none"
        return b"%d.%d.%d" % (found.st_mtime_ns, found.st_size, found.st_ino)

    def holds(self, path: bytes, *, folder: bool) -> bool:
        """Return whether a file is tracked, or something inside a folder."""
        wanted = path[len(self.base) :] + (b"/" if folder else b"")
        at = bisect_left(self._names, wanted)
        if at == len(self._names):
            return False
        return self._names[at].startswith(wanted) if folder else self._names[at] == wanted

    @cached_property
    def _names(self) -> list[bytes]:
        data = read_bytes(self._git + b"/index")
        wide = b"objectformat" in read_bytes(self._git + b"/config").lower()
        try:
            return sorted(read_index(data, _SHA256_BYTES if wide else _SHA1_BYTES))
        except (IndexError, ValueError, struct.error):
            return []  # Not an index that this version can read: nothing is known to be tracked.


def read_index(data: bytes, id_bytes: int) -> list[bytes]:
    """Return the paths in an index.

    Raises:
        ValueError, IndexError, struct.error: It is damaged.
    """
    if not data:
        return []
    magic, version, count = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise ValueError("not a git index")
    flags_at = _STAT_BYTES + id_bytes
    names: list[bytes] = []
    name, at = b"", _HEAD.size
    for _ in range(count):
        start = at + flags_at + 2
        if version >= _EXTENDED_SINCE and data[at + flags_at] & _EXTENDED >> 8:
            start += 2
        if version >= _PREFIXED_SINCE:
            dropped, start = _read_number(data, start)
            end = data.index(b"\0", start)
            name = name[: len(name) - dropped] + data[start:end]
            at = end + 1
        else:
            end = data.index(b"\0", start)
            name = data[start:end]
            at += (end - at + 8) // 8 * 8
        names.append(name)
    return names


def read_bytes(path: bytes) -> bytes:
    """Return a file's bytes, or none if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        # A rule file that cannot be read ignores nothing: a snapshot with too much is better than
        # one that lacks a file.
        return b""


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """Return a variable-length number, and where it ends."""
    value = data[at] & ~_MORE
    while data[at] & _MORE:
        at += 1
        value = value + 1 << 7 | data[at] & ~_MORE
    return value, at + 1


def _git_folder(base: bytes) -> bytes:
    """Return where a repository stores its index: a linked worktree names it in a file."""
    path = base + b".git"
    told = b"" if os.path.isdir(path) else read_bytes(path)
    if told.startswith(b"gitdir:"):
        return os.path.join(base, told.removeprefix(b"gitdir:").strip())
    return path
