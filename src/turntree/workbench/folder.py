"""Read, write and list files below a folder, without ever following a link.

A path is opened name by name from the root of the file system, so that nothing outside of the
folder is reached, whatever links are put in its way and whenever. Only regular files are opened: a
pipe would block, and a device may act when it is opened. Methods block: call them in a thread.
"""

import errno
import os
import secrets
import stat
from collections.abc import Collection, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePosixPath
from typing import Final

from turntree.core.errors import InvalidOperation, NotFound
from turntree.core.value import value

INSIDE: Final = "/work"
"""Where a command sees the folder. A model may have read a path there."""
FILE_BYTES_MAX: Final = 8_388_608
NAME_BYTES_MAX: Final = 255
# Windows lacks these. No command runs there, so these tools are never offered.
_NO_FOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_FOLDER: Final[int] = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_FOLLOW
# A folder that may be entered and not listed, as others' home folders often are.
_WAY: Final[int] = getattr(os, "O_PATH", 0) | _FOLDER
_READ: Final[int] = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _NO_FOLLOW
_CREATE: Final[int] = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW
# Permissions for the owner, the group and others: no program that a tool writes gets the rights of
# its owner.
_MODE: Final = 0o777


@value
class FileText:
    """A file's text, and which state of the file it is."""

    text: str
    state: tuple[int, int, int]
    """Its inode, size and time of change."""


@value
class ListedFile:
    """A name below a folder."""

    path: str
    kind: str
    """``file``, ``folder``, ``link`` or ``other``."""
    size: int


@value
class WorkFolder:
    """A folder, by its path from the root of the file system."""

    place: str
    guarded: Collection[str] = ()
    """Names that are not changed, wherever they are."""

    def read(self, path: str) -> FileText:
        """Return the text of a file.

        Raises:
            NotFound: There is none.
            InvalidOperation: It is not a text file, is too large, or a link leads to it.
        """
        *above, name = self._names(path)
        with self._entered(above) as folder:
            return _read_text(folder, name, path)

    def write(self, path: str, text: str, *, state: tuple[int, int, int] | None = None) -> bool:
        """Write a text file, which is complete or as it was; return whether it is new.

        Folders that are missing are made. ``state`` is the state of the file that the text was
        made from, if any.

        Raises:
            InvalidOperation: The name is guarded, a link or a folder; or another process changed
                the file meanwhile.
        """
        *above, name = self._names(path)
        self._check_guarded(path)
        with self._entered(above, makes=True) as folder:
            before = _find(folder, name)
            if before is not None and not stat.S_ISREG(before.st_mode):
                raise InvalidOperation(f"{path} is {_kind_of(before)}, not a file")
            fresh = f".turntree-{secrets.token_hex(8)}.new"
            fd = os.open(fresh, _CREATE, 0o666, dir_fd=folder)
            try:
                with os.fdopen(fd, "wb") as file:
                    if before is not None:
                        _take_over(file.fileno(), before)
                    file.write(text.encode())
                    file.flush()
                    os.fsync(file.fileno())
                if state is not None:
                    _check_unchanged(_find(folder, name), state, path)
                # Renamed and not written into: a file that is linked elsewhere stays as it was
                # there, and a reader sees all of it or nothing.
                os.replace(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
            finally:
                # Unless it took the other one's place.
                with suppress(FileNotFoundError):
                    os.unlink(fresh, dir_fd=folder)
            return before is None

    def list_below(self, path: str, depth: int, limit: int) -> tuple[list[ListedFile], bool]:
        """Return what is below a path, folder by folder, and whether there is more.

        Raises:
            NotFound: There is no such folder.
            InvalidOperation: It is not a folder, or a link leads to it.
        """
        names = self._names(path, is_folder=True)
        listed: list[ListedFile] = []
        with self._entered(names) as way, _opened(".", way) as folder:
            for one in _walk(folder, "/".join(names), depth, self.guarded):
                if len(listed) == limit:
                    return listed, True
                listed.append(one)
        return listed, False

    def _names(self, path: str, *, is_folder: bool = False) -> list[str]:
        """Return the names that a path consists of.

        Raises:
            InvalidOperation: It leads out of the folder, or names nothing in it.
        """
        if path == INSIDE or path.startswith(f"{INSIDE}/"):
            path = path.removeprefix(INSIDE).lstrip("/") or "."
        names = [name for name in path.split("/") if name not in ("", ".")]
        if path.startswith("/") or ".." in names:
            raise InvalidOperation(f"{path!r} leads out of the folder: write a path relative to it")
        try:
            lengths = [len(name.encode()) for name in names]
        except UnicodeEncodeError as error:
            raise InvalidOperation(f"{path!r} is not valid text") from error
        if "\0" in path or max(lengths, default=0) > NAME_BYTES_MAX or not (names or is_folder):
            raise InvalidOperation(f"{path[:80]!r} does not name a file")
        return names

    def _check_guarded(self, path: str) -> None:
        # A file system may ignore case, so that .GIT is .git.
        for name in PurePosixPath(path).parts:
            if name.lower() in self.guarded:
                raise InvalidOperation(f"{path} is not changed: programs run what is in {name}")

    @contextmanager
    def _entered(self, names: list[str], *, makes: bool = False) -> Generator[int]:
        """Yield the open folder that names lead to, made if need be."""
        fd = os.open("/", _WAY)
        try:
            for name in PurePosixPath(self.place).parts[1:]:
                fd = _enter(fd, name, self.place)
            for place, name in enumerate(names):
                if makes:
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=fd)
                fd = _enter(fd, name, "/".join(names[: place + 1]))
            yield fd
        finally:
            os.close(fd)


def _enter(above: int, name: str, path: str) -> int:
    """Return a folder in an open folder, which is closed if that succeeds."""
    try:
        fd = os.open(name, _WAY, dir_fd=above)
    except FileNotFoundError as error:
        raise NotFound(f"there is no folder {path}") from error
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise InvalidOperation(f"{path} is a link or a file: links are not followed") from error
        raise InvalidOperation(f"{path} cannot be opened: {error.strerror}") from error
    os.close(above)
    return fd


@contextmanager
def _opened(name: str, above: int) -> Generator[int]:
    fd = os.open(name, _FOLDER, dir_fd=above)
    try:
        yield fd
    finally:
        os.close(fd)


def _find(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _read_text(folder: int, name: str, path: str) -> FileText:
    status = _find(folder, name)
    if status is None:
        raise NotFound(f"there is no file {path}")
    if not stat.S_ISREG(status.st_mode):
        raise InvalidOperation(f"{path} is {_kind_of(status)}, not a file")
    try:
        with os.fdopen(os.open(name, _READ, dir_fd=folder), "rb") as file:
            # Looked at again: another file may have been put in its place.
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise InvalidOperation(f"{path} is {_kind_of(status)}, not a file")
            if status.st_size > FILE_BYTES_MAX:
                raise InvalidOperation(
                    f"{path} has {status.st_size} bytes; at most {FILE_BYTES_MAX} are read"
                )
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidOperation(f"{path} cannot be read: {error.strerror}") from error
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidOperation(f"{path} is not a text file: {error.reason}") from error
    if "\0" in text:
        raise InvalidOperation(f"{path} is not a text file: it contains NUL")
    return FileText(text, _state_of(status))


def _check_unchanged(now: os.stat_result | None, state: tuple[int, int, int], path: str) -> None:
    if now is None or _state_of(now) != state:
        raise InvalidOperation(f"{path} was changed by another process; read it again")


def _take_over(fd: int, before: os.stat_result) -> None:
    """Give a new file the owner and the permissions of the one that it replaces."""
    # Only root may give a file away; another user's file becomes this user's.
    with suppress(PermissionError):
        os.fchown(fd, before.st_uid, before.st_gid)
    os.fchmod(fd, before.st_mode & _MODE)


def _walk(folder: int, above: str, depth: int, guarded: Collection[str]) -> Iterator[ListedFile]:
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        status = _find(folder, entry.name)
        if status is None:
            continue
        path = f"{above}/{entry.name}" if above else entry.name
        kind = _kind_of(status).removeprefix("a ")
        # A name that is not valid text is shown and cannot be asked for.
        yield ListedFile(path.encode(errors="replace").decode(), kind, status.st_size)
        if kind == "folder" and depth > 1 and entry.name not in guarded:
            # It may be gone, a link by now, or not readable.
            with suppress(OSError), _opened(entry.name, folder) as inner:
                yield from _walk(inner, path, depth - 1, guarded)


def _kind_of(status: os.stat_result) -> str:
    if stat.S_ISREG(status.st_mode):
        return "a file"
    if stat.S_ISDIR(status.st_mode):
        return "a folder"
    return "a link" if stat.S_ISLNK(status.st_mode) else "other"


def _state_of(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns
