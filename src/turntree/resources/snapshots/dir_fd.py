"""Standing inside of a place: every change is made from the folder it happens in.

A path is walked name by name and no link is followed, so that whatever stands in a place, nothing
outside of it is ever written. Knows the file system. Must never know the store.
"""

import errno
import os
import stat
from collections.abc import Mapping
from typing import Final

from turntree.core.errors import InvalidOperation
from turntree.resources.snapshots.trees import MODE

# Windows lacks these flags. Zero lets commands be imported there that never work on files; those
# that do end in `require_file_locks`.
NO_FOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
NO_INHERIT: Final[int] = getattr(os, "O_CLOEXEC", 0)
NO_WAIT: Final[int] = getattr(os, "O_NONBLOCK", 0)
OPEN_FOLDER: Final[int] = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | NO_FOLLOW | NO_INHERIT
_USABLE: Final = 0o700


def set_mode(folder: int, name: bytes, mode: int) -> None:
    """Give a file or folder in an open folder its mode; a link, and where it leads, is left alone.

    Raises:
        FileNotFoundError: There is none.
    """
    if os.chmod in os.supports_follow_symlinks:
        if _has_mode(os.lstat(name, dir_fd=folder)):
            os.chmod(name, mode, dir_fd=folder, follow_symlinks=False)
        return
    # Linux changes the mode of what is open, and opens like this what it may not even read.
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if _has_mode(os.fstat(fd)):
            os.chmod(f"/proc/self/fd/{fd}", mode)
    finally:
        os.close(fd)


def _has_mode(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)


class DirFd:
    """A grip on the folders on the way to where one works."""

    def __init__(self, place: bytes) -> None:
        """Stand in a folder."""
        self._fds = [os.open(place, OPEN_FOLDER & ~NO_FOLLOW)]
        self._names: list[bytes] = []
        self.opened_up: dict[bytes, int] = {}
        """Folders that had to be made writable, with the modes that they had."""
        self.touched: set[bytes] = set()
        """Folders in which something came or went."""
        self._open_up(b"")

    @property
    def top(self) -> int:
        """The place itself."""
        return self._fds[0]

    def enter(self, folder: bytes) -> int:
        """Go to a folder below the place and return a grip on it.

        Raises:
            InvalidOperation: The way there leads through a link or a file.
        """
        names = folder.split(b"/") if folder else []
        shared = 0
        while shared < min(len(names), len(self._names)) and names[shared] == self._names[shared]:
            shared += 1
        for fd in self._fds[shared + 1 :]:
            os.close(fd)
        del self._fds[shared + 1 :], self._names[shared:]
        for name in names[shared:]:
            self._descend(name)
        return self._fds[-1]

    def change(self, folder: bytes) -> int:
        """Go to a folder in order to add to it or to take something from it."""
        self.touched.add(folder)
        return self.enter(folder)

    def make(self, folder: bytes) -> None:
        """Make a folder, and those above it that are missing."""
        above, _, name = folder.rpartition(b"/")
        try:
            parent = self.change(above)
        except FileNotFoundError:
            self.make(above)
            parent = self.change(above)
        try:
            os.mkdir(name, _USABLE, dir_fd=parent)
        except FileExistsError:
            self.enter(folder)

    def leave(self, folder: bytes) -> None:
        """Let go of a folder that is about to be removed."""
        if b"/".join(self._names).startswith(folder):
            self.enter(folder.rpartition(b"/")[0])

    def close(self, modes: Mapping[bytes, int]) -> None:
        """Bring what came and went to the disk, give folders their modes, and let go.

        Folders that are not named get back the modes that they had.
        """
        for folder in sorted({*self.touched, *modes}, reverse=True):
            try:
                os.fsync(self.enter(folder))
            except (FileNotFoundError, InvalidOperation):
                continue  # It was removed afterwards.
        # Every folder on the way is open by now. The deepest comes first, so that none of those
        # that are shut here has to be passed again.
        wanted = {**self.opened_up, **modes}
        for folder in sorted(wanted, reverse=True):
            try:
                fd = self.enter(folder)
                # No snapshot holds what else a mode says, so that stays as it is.
                special = stat.S_IMODE(os.fstat(fd).st_mode) & ~MODE
                os.fchmod(fd, wanted[folder] | special)
            except (FileNotFoundError, InvalidOperation):
                continue
        for fd in self._fds:
            os.close(fd)
        self._fds, self._names = [], []

    def _descend(self, name: bytes) -> None:
        try:
            fd = os.open(name, OPEN_FOLDER, dir_fd=self._fds[-1])
        except PermissionError:
            shut = os.lstat(name, dir_fd=self._fds[-1]).st_mode
            if not stat.S_ISDIR(shut):
                raise
            self.opened_up.setdefault(b"/".join([*self._names, name]), stat.S_IMODE(shut))
            set_mode(self._fds[-1], name, stat.S_IMODE(shut) | _USABLE)
            fd = os.open(name, OPEN_FOLDER, dir_fd=self._fds[-1])
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENOTDIR}:
                way = os.fsdecode(b"/".join([*self._names, name]))
                raise InvalidOperation(f"{way} is in the way: it is no folder") from error
            raise
        self._fds.append(fd)
        self._names.append(name)
        self._open_up(b"/".join(self._names))

    def _open_up(self, folder: bytes) -> None:
        mode = stat.S_IMODE(os.fstat(self._fds[-1]).st_mode)
        if mode & _USABLE != _USABLE:
            os.fchmod(self._fds[-1], mode | _USABLE)
            self.opened_up.setdefault(folder, mode)
