"""Change files through directory file descriptors, so that no symbolic link is followed.

A path is opened name by name without following links, so nothing outside the resource is ever
written, whatever links are in it. Knows the file system, not the object store.
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
    """Set the mode of a file or folder in an open folder; a link and its target are left alone.

    Raises:
        FileNotFoundError: There is none.
    """
    if os.chmod in os.supports_follow_symlinks:
        if _has_mode(os.lstat(name, dir_fd=folder)):
            os.chmod(name, mode, dir_fd=folder, follow_symlinks=False)
        return
    # Linux changes the mode of an open file, and O_PATH opens even what may not be read.
    fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        if _has_mode(os.fstat(fd)):
            os.chmod(f"/proc/self/fd/{fd}", mode)
    finally:
        os.close(fd)


def _has_mode(found: os.stat_result) -> bool:
    return stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)


class DirFd:
    """Open descriptors of the folders on the current path."""

    def __init__(self, place: bytes) -> None:
        """Open a folder as the root."""
        self._fds = [os.open(place, OPEN_FOLDER & ~NO_FOLLOW)]
        self._names: list[bytes] = []
        self.opened_up: dict[bytes, int] = {}
        """Folders that had to be made writable, with their previous modes."""
        self.touched: set[bytes] = set()
        """Folders in which entries were added or removed."""
        self._open_up(b"")

    @property
    def top(self) -> int:
        """The descriptor of the root folder."""
        return self._fds[0]

    def enter(self, folder: bytes) -> int:
        """Open a folder below the root and return its descriptor.

        Raises:
            InvalidOperation: The path leads through a link or a file.
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
        """Open a folder in order to add or remove entries."""
        self.touched.add(folder)
        return self.enter(folder)

    def make(self, folder: bytes) -> None:
        """Create a folder and its missing parents."""
        above, _, name = folder.rpartition(b"/")
        try:
            parent = self.change(above)
        except FileNotFoundError:
            self.make(above)
            parent = self.change(above)
        try:
            os.mkdir(name, _USABLE, dir_fd=parent)
        except FileExistsError:
            # It may be a link that was put there meanwhile: entering it refuses that.
            self.enter(folder)

    def leave(self, folder: bytes) -> None:
        """Close a folder that is about to be removed."""
        if b"/".join(self._names).startswith(folder):
            self.enter(folder.rpartition(b"/")[0])

    def close(self, modes: Mapping[bytes, int]) -> None:
        """Sync changed folders, set their modes, and close all descriptors.

        Folders that are not named in ``modes`` get their previous modes back.
        """
        for folder in sorted({*self.touched, *modes}, reverse=True):
            try:
                os.fsync(self.enter(folder))
            except (FileNotFoundError, InvalidOperation):
                continue  # It was removed afterwards.
        # Every folder on the path is open by now. The deepest comes first, so that no folder has to
        # be entered again after its permissions are taken away.
        wanted = {**self.opened_up, **modes}
        for folder in sorted(wanted, reverse=True):
            try:
                fd = self.enter(folder)
                # Setuid, setgid and sticky bits are in no snapshot, so they stay as they are.
                special = stat.S_IMODE(os.fstat(fd).st_mode) & ~MODE
                os.fchmod(fd, wanted[folder] | special)
            except (FileNotFoundError, InvalidOperation):
                # The folder was removed or replaced while we worked; its mode is not ours to set.
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
                raise InvalidOperation(f"{way} is in the way: it is not a folder") from error
            raise
        self._fds.append(fd)
        self._names.append(name)
        self._open_up(b"/".join(self._names))

    def _open_up(self, folder: bytes) -> None:
        mode = stat.S_IMODE(os.fstat(self._fds[-1]).st_mode)
        if mode & _USABLE != _USABLE:
            os.fchmod(self._fds[-1], mode | _USABLE)
            self.opened_up.setdefault(folder, mode)
